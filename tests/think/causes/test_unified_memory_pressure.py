import msgspec
from answers import ask
from cases import gpu_case, r
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.values import GB, GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge
from unslow.think.plan.free_memory import SHORTEST_USEFUL

NAME = "unified_memory_pressure"


def mac(total_gib: int = 48, weights: float = 40 * GIB, limit: float = 0, **memory):
    case = pasted(gpus=["Apple M4 Pro"], runtime={"name": "MLX"}, model={"weights_bytes": int(weights)})
    given = {"wired_limit_bytes": r(int(limit))} if limit else {}
    machine = Machine(
        system=System(name=r("macOS 15.3")),
        cpu=Cpu(model=r("Apple M4 Pro")),
        memory=Memory(total_bytes=r(total_gib * GIB), **given, **memory),
        gpus=case.machine.gpus,
    )
    return msgspec.structs.replace(case, machine=machine)


def fires():
    return mac(128, 95 * GB, 77 * GB)


def test_95_gb_of_weights_with_a_wired_limit_of_77_gb_is_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("88.5 GiB", "71.7 GiB"))


def test_without_a_wired_limit_the_macos_default_applies():
    assert isinstance(ask(NAME, mac(48, 40 * GIB)), Found)
    assert isinstance(ask(NAME, mac(48, 20 * GIB)), CannotTell)


def test_memory_pressure_decides_for_a_large_model():
    assert isinstance(ask(NAME, mac(48, 30 * GIB, pressure=r("critical"))), Found)
    assert isinstance(ask(NAME, mac(48, 30 * GIB, pressure=r("normal"))), Absent)


def test_memory_pressure_beside_a_small_model_is_not_found():
    assert not isinstance(ask(NAME, mac(48, 4 * GIB, pressure=r("warn"))), Found)


def test_a_remark_on_swap_decides_only_with_an_amount():
    seen = says(Topic.SWAPPING, "15-22 GB of swap thrash")
    vague = says(Topic.SWAPPING, "something about the working set")
    assert isinstance(ask(NAME, pasted(seen, gpus=["Apple M2 Max"])), Found)
    assert isinstance(ask(NAME, pasted(vague, gpus=["Apple M2 Max"])), CannotTell)


def test_a_discrete_gpu_rules_it_out():
    assert isinstance(ask(NAME, gpu_case(21, 5.0)), Absent)


def test_compressed_memory_beside_a_small_model_is_a_suspicion_at_most(wording):
    browser = {"compressed_bytes": r(14 * GIB)}
    assert isinstance(ask(NAME, mac(64, 5 * GIB, pressure=r("normal"), **browser)), Absent)
    assert isinstance(ask(NAME, mac(64, 5 * GIB, **browser)), CannotTell)
    wording(ask(NAME, mac(64, 5 * GIB, **browser)).suspected, tells="14.0 GiB")


def test_compressed_memory_beside_a_large_model_is_found(wording):
    answer = ask(NAME, mac(64, 40 * GIB, compressed_bytes=r(14 * GIB)))
    assert isinstance(answer, Found)
    wording(answer.because)


def knobs(case) -> list[str]:
    return [remedy.change.knob for remedy in ask(NAME, case).remedies]


def test_a_higher_wired_limit_is_offered_only_where_the_system_keeps_enough():
    assert knobs(mac(128, 90 * GIB, 80 * GIB))[0] == "wired_limit"
    assert "wired_limit" not in knobs(mac(48, 46 * GIB))


def test_under_memory_pressure_a_higher_wired_limit_is_not_offered():
    pressed = knobs(mac(48, 36 * GIB, pressure=r("critical")))
    assert pressed == ["other_load", "quant"]


def test_the_first_fix_is_the_longest_context_that_fits():
    cache = {"layers": r(80), "kv_heads": r(8), "key_length": r(128), "value_length": r(128)}
    case = mac(64, 40 * GIB, 48 * GIB, pressure=r("normal"))
    long = msgspec.structs.replace(
        case,
        runtime=case.runtime.with_facts(context_length=r(131072)),
        model=msgspec.structs.replace(case.model, weights_bytes=r(40 * GIB), **cache),
    )
    answer = ask(NAME, long)
    assert isinstance(answer, Found)
    first = answer.remedies[0].change
    assert first.knob is Knob.CONTEXT_LENGTH
    assert SHORTEST_USEFUL < first.value < 131072
    assert (40 * GIB + first.value * 327680) < 48 * GIB
    assert Knob.WIRED_LIMIT not in {remedy.change.knob for remedy in answer.remedies}, "80 GiB do not fit into 64"
