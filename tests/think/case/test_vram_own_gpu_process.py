"""The runtime among the processes on a GPU, also where its pid is from another namespace."""

import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without

from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MissingFactError, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import CannotTell, Found
from unslow.think.judge.judge import judge

HIDDEN = {
    f"runtime.{FACT_PATHS[name]}": not_found("not printed") for name in ("devices", "buffers", "gpu_layers", "layers")
}


def process(name: str | None, pid: int = 12345, gib: float = 5.6) -> GpuProcess:
    known = r(name) if name else not_found("of another namespace")
    return GpuProcess(pid=pid, name=known, vram_bytes=r(int(gib * GIB)))


def listed(*processes: GpuProcess, hidden: bool = True, **facts: object) -> Case:
    """A loaded llama-server, number 10, beside these processes; its log tells nothing unless it is not hidden."""
    used = sum(p.vram_bytes.value_or(0) for p in processes)
    on_gpu = {"machine.gpus.0.processes": list(processes), "machine.gpus.0.vram_used_bytes": used}
    return with_facts(gpu_case(), on_gpu | (HIDDEN if hidden else {}) | facts)


@pytest.mark.parametrize("name", ["llama-server", "/app/llama-server", "C:\\llama\\llama-server.exe", None])
def test_foreign_pid_with_a_matching_name_gives_cannot_tell(name):
    case = listed(process(name))
    assert CaseView(case).gpus.visible_to_runtime is None
    assert isinstance(ask("gpu_backend_not_loaded", case), CannotTell)
    assert CaseView(case).vram.other_processes == []
    assert not CaseView(case).vram.own_is_known


def test_unnamed_or_python_worker_may_be_vllm():
    assert CaseView(listed(process(None), **{"runtime.name": "vLLM"})).gpus.visible_to_runtime is None
    assert CaseView(listed(process("python3"), **{"runtime.name": "vLLM"})).gpus.visible_to_runtime is None


def test_runtime_on_the_gpu_is_matched_by_name():
    case = listed(process("llama-server"), process("python3", 77, 3.0), hidden=False)
    assert CaseView(case).vram.own_is_known
    assert CaseView(case).vram.own_bytes == pytest.approx(5.6 * GIB, rel=1e-6)
    assert [p.pid for p in CaseView(case).vram.other_processes] == [77]
    twice = listed(process("llama-server"), process("llama-server", 12346), hidden=False)
    assert not CaseView(twice).vram.own_is_known
    assert CaseView(twice).vram.other_processes == []


@pytest.mark.parametrize("cause", ["gpu_shared_with_other_work", "other_process_holds_vram"])
def test_unidentified_processes_give_cannot_tell(cause, wording):
    case = with_facts(gpu_case(20, free_gib=1.0), {"run.decode_tokens_per_s": 20.0})
    case = with_facts(case, {"machine.gpus.0.processes": [process(None), process(None, 12346, 12.0)]})
    answer = ask(cause, case)
    assert isinstance(answer, CannotTell)
    wording(answer.why)


def test_listed_pid_makes_all_other_processes_foreign():
    case = listed(process("llama-server", 10), process("llama-server", 11, 3.0), process(None, 12, 1.0))
    assert CaseView(case).vram.own_is_known
    assert [p.pid for p in CaseView(case).vram.other_processes] == [11, 12]


def test_empty_or_foreign_gpu_is_not_used():
    slow = {"run.decode_tokens_per_s": 3.0}
    assert CaseView(listed(**slow)).gpus.visible_to_runtime is False
    taken = listed(process("blender", 77, 20.0), **slow)
    assert CaseView(taken).gpus.visible_to_runtime is False
    answer = ask("gpu_backend_not_loaded", taken)
    assert isinstance(answer, Found)
    assert "machine.gpus.0.vram_used_bytes" in [e.fact for e in answer.evidence]


def test_speed_above_host_bandwidth_implies_a_gpu():
    fast = listed(process("blender", 77, 20.0), **{"run.decode_tokens_per_s": 200.0})
    assert CaseView(fast).vram.outruns_host
    assert CaseView(fast).gpus.visible_to_runtime is None
    assert not [f.cause for f in judge(CaseView(fast)).findings if f.cause == "gpu_backend_not_loaded"]
    measured = with_facts(fast, {"machine.memory.read_bytes_per_s": 60e9, "run.decode_tokens_per_s": 30.0})
    assert CaseView(measured).vram.outruns_host
    assert not CaseView(with_facts(measured, {"run.decode_tokens_per_s": 10.0})).vram.outruns_host
    assert not CaseView(with_facts(fast, {"model.weights_bytes": GIB // 4})).vram.outruns_host, "caches hold so little"
    assert not CaseView(without(fast, "run.decode_tokens_per_s")).vram.outruns_host


UNSEEN = {"runtime.process.pid": not_found("no process can be listed")}


@pytest.mark.parametrize("name", ["LM Studio", "node", "llama-server", "C:\\a\\.lmstudio\\.internal\\utils\\node.exe"])
def test_lm_studio_is_matched_by_its_process_names(name):
    case = listed(process(name), **UNSEEN, **{"runtime.name": "LM Studio"})
    assert CaseView(case).vram.own_bytes == pytest.approx(5.6 * GIB, rel=1e-6)
    assert CaseView(case).vram.other_processes == []


def test_unnamed_process_is_not_foreign_when_the_runtime_has_no_pid():
    assert CaseView(listed(process(None), **UNSEEN)).vram.other_processes == []
    assert [p.pid for p in CaseView(listed(process("game.exe", 77), **UNSEEN)).vram.other_processes] == [77]


def test_shared_gpu_memory_hides_the_placement():
    lent = GpuProcess(pid=12345, name=r("llama-server"), vram_bytes=r(int(3.0 * GIB)), shared_bytes=r(3 * GIB))
    case = listed(lent, **UNSEEN)
    assert CaseView(case).vram.own_lent_bytes == 3 * GIB
    with pytest.raises(MissingFactError):
        CaseView(case).placement.read(CaseView(case).memory.shape)
    alone = listed(process("llama-server", gib=3.0), **UNSEEN)
    assert CaseView(alone).placement.read(CaseView(alone).memory.shape).gpu_layers < 32


def test_mlx_places_the_whole_model_on_the_gpu():
    case = listed(**UNSEEN, **{"runtime.build.backends": ["Metal", "MLX", "CPU"]})
    assert CaseView(case).placement.read(CaseView(case).memory.shape).gpu_layers == CaseView(case).memory.shape.layers
