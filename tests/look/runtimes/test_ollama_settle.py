from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, MIB, Known, estimated, reported
from unslow.look.runtimes.ollama.api import Loaded, with_doubt
from unslow.look.runtimes.ollama.server import ollama_contradictions, settled_subject

WHOLE = Runtime(name=reported("Ollama", "x"), environment=reported({"OLLAMA_KV_CACHE_TYPE": "q8_0"}, "environ"))


def runtime(host: int, share: float = 1.0) -> Runtime:
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=4 * GIB, on_gpu=True),
        Buffer(device="CPU_Mapped", kind="model", bytes=host, on_gpu=False),
    ]
    return Runtime(vram_share=estimated(share, "ps"), buffers=reported(buffers, "log:1"))


def about(found: list) -> list[str]:
    return [contradiction.about for contradiction in found]


def test_all_on_the_gpu_and_weights_in_ram_can_t_both_be_true():
    found = ollama_contradictions(runtime(20 * GIB), Model())
    assert about(found) == ["vram_share"]
    assert [s.source for s in found[0].statements] == ["ps", "log:1"]


def test_the_token_table_in_ram_is_no_contradiction():
    assert ollama_contradictions(runtime(900 * MIB), Model(token_table_bytes=reported(900 * MIB, "file"))) == []
    assert ollama_contradictions(runtime(20 * GIB, share=0.4), Model()) == []


def test_a_cache_that_was_asked_for_and_is_another():
    plain = Runtime(environment=WHOLE.environment, kv_type_v=reported("f16", "log:9"))
    assert about(ollama_contradictions(plain, Model())) == ["kv_type_v"]
    wish = Runtime(environment=WHOLE.environment, kv_type_v=reported("q8_0", "log:9"))
    assert ollama_contradictions(wish, Model()) == []


def loaded(**facts: object) -> Loaded:
    told = Runtime(state=reported("loaded", "ps"), context_per_slot=reported(4096, "ps"), **facts)
    return Loaded("m", Subject(runtime=told, model=Model(name=reported("m:1", "ps"))), Runtime())


def test_the_context_of_one_request_is_not_that_of_all():
    slots = Runtime(name=reported("Ollama", "x"), slots=reported(4, "environ"))
    assert settled_subject(slots, loaded()).runtime.context_length.need() == 16384
    assert settled_subject(Runtime(), loaded()).runtime.context_length.need() == 4096


def test_a_share_of_sizes_that_ollama_did_not_find_is_doubted():
    sizes = {"size_bytes": reported(5 * GIB, "ps"), "size_vram_bytes": reported(5 * GIB, "ps")}
    subject = Subject(
        runtime=Runtime(vram_share=estimated(1.0, "ps"), **sizes),
        model=Model(weights_bytes=reported(5 * GIB - MIB, "f")),
    )
    assert not isinstance(with_doubt(subject, []).runtime.vram_share, Known)
    larger = Subject(runtime=subject.runtime, model=Model(weights_bytes=reported(4 * GIB, "f")))
    assert with_doubt(larger, []) == larger
    warned = with_doubt(larger, ["llama-server VRAM tracking: no per-device buffer sizes were parsed from the log"])
    assert not isinstance(warned.runtime.vram_share, Known)
