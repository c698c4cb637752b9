from unslow.facts.runtime import ALL_LAYERS
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.llama_cpp_python import parse_text


def seen(text: str) -> LogFacts:
    return parse_text(Text(text.split("\n"), "post"))


def test_a_llama_cpp_python_call_is_parsed():
    told = seen('llm = Llama(\n  model_path="models/phi.gguf",\n  n_gpu_layers=-1, n_ctx=2048,\n  flash_attn=True)')
    runtime = told.subject.runtime
    assert runtime.placement.gpu_layers_set == Known(ALL_LAYERS, Origin.REPORTED, "post:3")
    assert (runtime.context.requested.need(), runtime.compute.flash_attention.need()) == (2048, True)
    assert told.subject.model.path.need() == "models/phi.gguf"
    assert told.lines == 3


def test_a_llama_cpp_python_settings_dict_is_parsed():
    runtime = seen("{'n_gpu_layers': 35, 'n_threads': 4, 'n_batch': 0}").subject.runtime
    assert (runtime.placement.gpu_layers_set.need(), runtime.compute.threads.need()) == (35, 4)
    assert not isinstance(runtime.compute.batch, Known)


def test_generic_parameter_names_do_not_name_llama_cpp_python():
    assert seen("n_ctx = 4096\nn_batch = 512") == LogFacts()
    assert seen("I set n_gpu_layers to many") == LogFacts()
