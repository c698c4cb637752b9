"""The runtime among the processes on a GPU, also where its number is one of another namespace."""

import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without

from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, not_found
from unslow.think.case.demand import read_shape
from unslow.think.case.placement import read_placement_or_none
from unslow.think.case.vram import (
    other_gpu_processes,
    outruns_the_host,
    own_is_known,
    own_lent_bytes,
    own_vram_bytes,
    runtime_sees_gpu,
)
from unslow.think.causes._cause import CannotTell, Found
from unslow.think.judge.judge import judge

HIDDEN = {f"runtime.{name}": not_found("not printed") for name in ("devices", "buffers", "gpu_layers", "layers")}


def process(name: str | None, pid: int = 12345, gib: float = 5.6) -> GpuProcess:
    known = r(name) if name else not_found("of another namespace")
    return GpuProcess(pid=pid, name=known, vram_bytes=r(int(gib * GIB)))


def listed(*processes: GpuProcess, hidden: bool = True, **facts: object) -> Case:
    """A loaded llama-server, number 10, beside these processes; its log tells nothing unless it is not hidden."""
    used = sum(p.vram_bytes.value_or(0) for p in processes)
    on_gpu = {"machine.gpus.0.processes": list(processes), "machine.gpus.0.vram_used_bytes": used}
    return with_facts(gpu_case(), on_gpu | (HIDDEN if hidden else {}) | facts)


@pytest.mark.parametrize("name", ["llama-server", "/app/llama-server", "C:\\llama\\llama-server.exe", None])
def test_a_number_of_another_namespace_proves_nothing(name):
    case = listed(process(name))
    assert runtime_sees_gpu(case) is None
    assert isinstance(ask("gpu_backend_not_loaded", case), CannotTell)
    assert other_gpu_processes(case) == []
    assert not own_is_known(case)


def test_a_worker_without_a_name_may_be_the_runtimes():
    assert runtime_sees_gpu(listed(process(None), **{"runtime.name": "vLLM"})) is None
    assert runtime_sees_gpu(listed(process("python3"), **{"runtime.name": "vLLM"})) is None


def test_a_runtime_that_says_it_is_on_the_gpu_is_the_one_with_its_name():
    case = listed(process("llama-server"), process("python3", 77, 3.0), hidden=False)
    assert own_is_known(case)
    assert own_vram_bytes(case) == pytest.approx(5.6 * GIB, rel=1e-6)
    assert [p.pid for p in other_gpu_processes(case)] == [77]
    twice = listed(process("llama-server"), process("llama-server", 12346), hidden=False)
    assert not own_is_known(twice)
    assert other_gpu_processes(twice) == []


@pytest.mark.parametrize("cause", ["gpu_shared_with_other_work", "other_process_holds_vram"])
def test_nobody_is_blamed_where_it_is_not_known_who_is_who(cause, wording):
    case = with_facts(gpu_case(20, free_gib=1.0), {"run.decode_tokens_per_s": 20.0})
    case = with_facts(case, {"machine.gpus.0.processes": [process(None), process(None, 12346, 12.0)]})
    answer = ask(cause, case)
    assert isinstance(answer, CannotTell)
    wording(answer.why)


def test_where_its_number_is_listed_all_others_are_others():
    case = listed(process("llama-server", 10), process("llama-server", 11, 3.0), process(None, 12, 1.0))
    assert own_is_known(case)
    assert [p.pid for p in other_gpu_processes(case)] == [11, 12]


def test_a_gpu_that_is_empty_or_somebody_elses_is_not_used():
    slow = {"run.decode_tokens_per_s": 3.0}
    assert runtime_sees_gpu(listed(**slow)) is False
    taken = listed(process("blender", 77, 20.0), **slow)
    assert runtime_sees_gpu(taken) is False
    answer = ask("gpu_backend_not_loaded", taken)
    assert isinstance(answer, Found)
    assert "machine.gpus.0.vram_used_bytes" in [e.fact for e in answer.evidence]


def test_what_outruns_the_host_uses_a_gpu():
    fast = listed(process("blender", 77, 20.0), **{"run.decode_tokens_per_s": 200.0})
    assert outruns_the_host(fast)
    assert runtime_sees_gpu(fast) is None
    assert not [f.cause for f in judge(fast).findings if f.cause == "gpu_backend_not_loaded"]
    measured = with_facts(fast, {"machine.memory.read_bytes_per_s": 60e9, "run.decode_tokens_per_s": 30.0})
    assert outruns_the_host(measured)
    assert not outruns_the_host(with_facts(measured, {"run.decode_tokens_per_s": 10.0}))
    assert not outruns_the_host(with_facts(fast, {"model.weights_bytes": GIB // 4})), "caches hold so little"
    assert not outruns_the_host(without(fast, "run.decode_tokens_per_s"))


UNSEEN = {"runtime.pid": not_found("no process can be listed")}


@pytest.mark.parametrize("name", ["LM Studio", "node", "llama-server", "C:\\a\\.lmstudio\\.internal\\utils\\node.exe"])
def test_lm_studio_is_known_by_its_programs(name):
    case = listed(process(name), **UNSEEN, **{"runtime.name": "LM Studio"})
    assert own_vram_bytes(case) == pytest.approx(5.6 * GIB, rel=1e-6)
    assert other_gpu_processes(case) == []


def test_a_process_without_a_name_is_no_stranger_where_the_runtime_has_no_number():
    assert other_gpu_processes(listed(process(None), **UNSEEN)) == []
    assert [p.pid for p in other_gpu_processes(listed(process("game.exe", 77), **UNSEEN))] == [77]


def test_memory_that_is_lent_to_a_process_hides_what_it_put_on_the_gpu():
    lent = GpuProcess(pid=12345, name=r("llama-server"), vram_bytes=r(int(3.0 * GIB)), shared_bytes=r(3 * GIB))
    case = listed(lent, **UNSEEN)
    assert own_lent_bytes(case) == 3 * GIB
    assert read_placement_or_none(case, read_shape(case)) is None
    alone = listed(process("llama-server", gib=3.0), **UNSEEN)
    assert read_placement_or_none(alone, read_shape(alone)).gpu_layers < 32


def test_mlx_has_all_of_a_model_on_the_gpu():
    case = listed(**UNSEEN, **{"runtime.backends": ["Metal", "MLX", "CPU"]})
    assert read_placement_or_none(case, read_shape(case)).gpu_layers == read_shape(case).layers
