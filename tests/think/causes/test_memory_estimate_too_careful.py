from answers import ask
from cases import gpu_case, with_facts
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB, told_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "memory_estimate_too_careful"
SUMS = {
    "name": "ollama",
    "gpu_layers": 31,
    "layers": 33,
    "asked_bytes": int(23.5 * GIB),
    "available_bytes": int(22.7 * GIB),
    "context_length": 81920,
}


def fires():
    used = {"vram_used_bytes": told_fact(18505 * MIB, "paste:9"), "vram_total_bytes": told_fact(24 * GIB, "paste:9")}
    return pasted(gpus=["RTX 3090"], runtime=SUMS, model={"weights_bytes": int(4.6 * GIB)}, gpu_facts=used)


def test_six_gib_free_beside_two_layers_on_the_cpu_fires(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="5.9 GiB")
    assert {"weights_spill_to_ram", "context_larger_than_needed"} <= set(report.findings[0].explains)
    assert report.findings[0].fixes[0].value == 33


def test_full_gpu_is_ruled_out():
    full = {"vram_used_bytes": told_fact(23 * GIB, "paste:9"), "vram_total_bytes": told_fact(24 * GIB, "paste:9")}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=SUMS, gpu_facts=full)), Absent)


def test_memory_that_other_processes_freed_since_is_ruled_out():
    case = with_facts(fires(), {"runtime.memory.available_bytes": 12 * GIB})
    assert isinstance(ask(NAME, case), Absent)


def test_layers_set_by_hand_or_all_on_the_gpu_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.placement.gpu_layers_set": 31})), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_told_free_memory_fires_only_beside_the_runtimes_sums():
    free = says(Topic.VRAM_FREE, "about 6 GiB of VRAM free after the load")
    assert isinstance(ask(NAME, pasted(free, gpus=["RTX 3090"], runtime=SUMS)), Found)
    counted = {k: SUMS[k] for k in ("gpu_layers", "layers")}
    answer = ask(NAME, pasted(free, gpus=["RTX 3090"], runtime=counted))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_unified_memory_under_pressure_is_ruled_out():
    mac = pasted(gpus=["Apple M4"], runtime=SUMS, model={"weights_bytes": int(4.6 * GIB)}, gpu_facts={
        "vram_used_bytes": told_fact(18505 * MIB, "paste:9"), "vram_total_bytes": told_fact(24 * GIB, "paste:9"),
    })  # fmt: skip
    pressed = with_facts(mac, {"machine.memory.pressure": "warn"})
    assert isinstance(ask(NAME, pressed), Absent)
    assert isinstance(ask(NAME, with_facts(mac, {"machine.memory.pressure": "normal"})), Found)
