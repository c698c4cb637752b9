from answers import ask
from cases import gpu_case, r, with_facts
from told import pasted

from unslow.facts.runtime import AllocationFailure, PastLoad
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell
from unslow.think.judge.judge import judge

NAME = "vram_fragmented"
WORDS = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.68 GiB of which 1.2 GiB is free. "
    "Of the allocated memory 15.00 GiB is allocated by PyTorch, and {} GiB is reserved by PyTorch but unallocated."
)


def out_of_memory(unused: float = 6.5):
    failure = AllocationFailure(device="cuda:0", what="unknown", message=WORDS.format(f"{unused:.2f}"))
    return with_facts(gpu_case(), {"runtime.memory.allocation_failure": failure, "runtime.state": "failed"})


fires = out_of_memory


def load(layers: int, free_gib: float, context: int = 8192) -> PastLoad:
    return PastLoad(
        model=r("m.gguf"), context_length=r(context), gpu_layers=r(layers), layers=r(33),
        free_bytes=r(int(free_gib * GIB)), source="server.log:9",
    )  # fmt: skip


def test_more_unallocated_than_asked_for_fires_and_explains_the_failed_load():
    report = judge(CaseView(out_of_memory()))
    assert report.verdict == "failed"
    assert report.findings[0].cause == NAME
    assert "memory_allocation_failed" in report.findings[0].explains


def test_less_unallocated_than_asked_for_is_ruled_out():
    assert isinstance(ask(NAME, out_of_memory(unused=0.3)), Absent)


def test_failure_without_pytorch_figures_gives_cannot_tell():
    failure = AllocationFailure(device="CUDA0", what="weights", message="cudaMalloc failed: out of memory")
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.memory.allocation_failure": failure})), CannotTell)


def test_fewer_layers_with_as_much_free_is_only_suspected():
    answer = ask(NAME, pasted(runtime={"loads": [load(33, 20.0), load(25, 20.0)]}))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert isinstance(ask(NAME, pasted(runtime={"loads": [load(33, 20.0), load(33, 20.0)]})), Absent)


def test_loads_with_less_free_or_a_longer_context_give_cannot_tell():
    assert isinstance(ask(NAME, pasted(runtime={"loads": [load(33, 20.0), load(25, 16.0)]})), CannotTell)
    assert isinstance(ask(NAME, pasted(runtime={"loads": [load(33, 20.0), load(25, 20.0, 65536)]})), CannotTell)


def test_model_fully_on_the_gpu_is_ruled_out():
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_process_that_loaded_once_is_ruled_out():
    spilled = with_facts(gpu_case(21, 5.0), {"runtime.history.loads": [load(21, 5.0)]})
    assert isinstance(ask(NAME, spilled), Absent)
    assert isinstance(ask(NAME, gpu_case(21, 5.0)), CannotTell)
