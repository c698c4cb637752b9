from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.ollama_commands import parse_show_text

SHOWN = """$ ollama show llama3.1
  Model
    architecture        llama
    parameters          8.0B
    context length      131072
    embedding length    4096
    quantization        Q4_K_M

  Capabilities
    completion

  Parameters
    num_ctx    65536
    num_gpu    20
    stop       "<|eot_id|>"
"""
OLD = "\n".join(  # noqa: FLY002 (reads as it is printed)
    (
        "  Model  ",
        "  \tarch            \tllama",
        "  \tparameters      \t8.0B",
        "  \tquantization    \tQ4_0",
        "  \tcontext length  \t8192",
    )
)


def seen(text: str) -> LogFacts:
    return parse_show_text(Text(text.split("\n"), "paste"))


def test_ollama_show_gives_model_facts_and_modelfile_settings():
    result = seen(SHOWN)
    model, runtime = result.subject.model, result.subject.runtime
    assert model.architecture == Known("llama", Origin.REPORTED, "paste:2")
    assert (model.quant.need(), model.context_trained.need(), model.width.need()) == ("Q4_K_M", 131072, 4096)
    assert model.parameters == Known(8_000_000_000, Origin.ESTIMATED, "paste:2")
    assert (runtime.context.requested.need(), runtime.placement.gpu_layers_set.need()) == (65536, 20)
    assert (1, 7) in result.spans


def test_ollama_show_with_tabs_is_parsed():
    model = seen(OLD).subject.model
    assert (model.architecture.need(), model.quant.need(), model.context_trained.need()) == ("llama", "Q4_0", 8192)


def test_the_ollama_server_version_wins_over_the_client_version():
    both = "ollama version is 0.5.7\nWarning: client version is 0.5.4"
    assert seen(both).subject.runtime.version == Known("0.5.7", Origin.REPORTED, "paste:1")
    alone = "Warning: could not connect to a running Ollama instance\nWarning: client version is 0.13.2-rc1"
    assert seen(alone).subject.runtime.version == Known("0.13.2-rc1", Origin.REPORTED, "paste:2")


def test_text_that_is_not_ollama_show_gives_no_facts():
    assert seen("the version is fine, quantization too") == LogFacts()
    assert seen("Model\n" * 2000 + "quantization " * 20_000) == LogFacts()
