from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, MIB, Known, estimated_fact, reported_fact
from unslow.look.runtimes.ollama import ollama_contradictions, settled_subject
from unslow.look.runtimes.ollama.api import LoadedModel, with_doubt

WHOLE = Runtime().with_facts(
    name=reported_fact("Ollama", "x"), environment=reported_fact({"OLLAMA_KV_CACHE_TYPE": "q8_0"}, "environ")
)


def runtime(host: int, share: float = 1.0) -> Runtime:
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=4 * GIB, on_gpu=True),
        Buffer(device="CPU_Mapped", kind="model", bytes=host, on_gpu=False),
    ]
    return Runtime().with_facts(vram_share=estimated_fact(share, "ps"), buffers=reported_fact(buffers, "log:1"))


def about(found: list) -> list[str]:
    return [contradiction.about for contradiction in found]


def test_full_vram_share_with_weights_in_ram_is_a_contradiction():
    found = ollama_contradictions(runtime(20 * GIB), Model())
    assert about(found) == ["vram_share"]
    assert [s.source for s in found[0].statements] == ["ps", "log:1"]


def test_the_token_table_in_ram_is_not_a_contradiction():
    assert ollama_contradictions(runtime(900 * MIB), Model(token_table_bytes=reported_fact(900 * MIB, "file"))) == []
    assert ollama_contradictions(runtime(20 * GIB, share=0.4), Model()) == []


def test_a_requested_cache_type_that_was_not_used_is_a_contradiction():
    plain = Runtime().with_facts(environment=WHOLE.process.environment, kv_type_v=reported_fact("f16", "log:9"))
    assert about(ollama_contradictions(plain, Model())) == ["kv_type_v"]
    wish = Runtime().with_facts(environment=WHOLE.process.environment, kv_type_v=reported_fact("q8_0", "log:9"))
    assert ollama_contradictions(wish, Model()) == []


def loaded(**facts: object) -> LoadedModel:
    told = Runtime().with_facts(
        state=reported_fact("loaded", "ps"), context_per_slot=reported_fact(4096, "ps"), **facts
    )
    return LoadedModel("m", Subject(runtime=told, model=Model(name=reported_fact("m:1", "ps"))), Runtime())


def test_total_context_is_context_per_request_times_slots():
    slots = Runtime().with_facts(name=reported_fact("Ollama", "x"), slots=reported_fact(4, "environ"))
    assert settled_subject(slots, loaded()).runtime.context.length.need() == 16384
    assert settled_subject(Runtime(), loaded()).runtime.context.length.need() == 4096


def test_a_vram_share_from_sizes_that_ollama_could_not_parse_is_dropped():
    sizes = {"size_bytes": reported_fact(5 * GIB, "ps"), "size_vram_bytes": reported_fact(5 * GIB, "ps")}
    subject = Subject(
        runtime=Runtime().with_facts(vram_share=estimated_fact(1.0, "ps"), **sizes),
        model=Model(weights_bytes=reported_fact(5 * GIB - MIB, "f")),
    )
    assert not isinstance(with_doubt(subject, []).runtime.memory.vram_share, Known)
    larger = Subject(runtime=subject.runtime, model=Model(weights_bytes=reported_fact(4 * GIB, "f")))
    assert with_doubt(larger, []) == larger
    warned = with_doubt(larger, ["llama-server VRAM tracking: no per-device buffer sizes were parsed from the log"])
    assert not isinstance(warned.runtime.memory.vram_share, Known)
