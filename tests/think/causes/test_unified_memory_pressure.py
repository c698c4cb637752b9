import msgspec
from answers import ask
from cases import gpu_case, r
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.values import GB, GIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.causes.unified_memory_pressure import SHORTEST_USEFUL
from unslow.think.judge.judge import judge

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


def test_ninety_five_gb_under_a_limit_of_seventy_seven(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("88.5 GiB", "71.7 GiB"))


def test_without_a_limit_the_default_of_macos_counts():
    assert isinstance(ask(NAME, mac(48, 40 * GIB)), Found)
    assert isinstance(ask(NAME, mac(48, 20 * GIB)), CannotTell)


def test_pressure_beside_a_large_model():
    assert isinstance(ask(NAME, mac(48, 30 * GIB, pressure=r("critical"))), Found)
    assert isinstance(ask(NAME, mac(48, 30 * GIB, pressure=r("normal"))), Absent)


def test_near_miss_pressure_beside_a_small_model():
    assert not isinstance(ask(NAME, mac(48, 4 * GIB, pressure=r("warn"))), Found)


def test_swap_that_was_watched_decides_and_a_vague_word_does_not():
    seen = says(Topic.SWAPPING, "15-22 GB of swap thrash")
    vague = says(Topic.SWAPPING, "something about the working set")
    assert isinstance(ask(NAME, pasted(seen, gpus=["Apple M2 Max"])), Found)
    assert isinstance(ask(NAME, pasted(vague, gpus=["Apple M2 Max"])), CannotTell)


def test_a_card_has_a_memory_of_its_own():
    assert isinstance(ask(NAME, gpu_case(21, 5.0)), Absent)


def test_what_is_packed_away_beside_a_small_model_may_be_anybodys(wording):
    browser = {"compressed_bytes": r(14 * GIB)}
    assert isinstance(ask(NAME, mac(64, 5 * GIB, pressure=r("normal"), **browser)), Absent)
    assert isinstance(ask(NAME, mac(64, 5 * GIB, **browser)), CannotTell)
    wording(ask(NAME, mac(64, 5 * GIB, **browser)).suspected, tells="14.0 GiB")


def test_what_is_packed_away_of_a_large_model(wording):
    answer = ask(NAME, mac(64, 40 * GIB, compressed_bytes=r(14 * GIB)))
    assert isinstance(answer, Found)
    wording(answer.because)


def knobs(case) -> list[str]:
    return [remedy.change.knob for remedy in ask(NAME, case).remedies]


def test_a_higher_limit_only_where_the_system_can_spare_it():
    assert knobs(mac(128, 90 * GIB, 80 * GIB))[0] == "wired_limit"
    assert "wired_limit" not in knobs(mac(48, 46 * GIB))


def test_where_the_whole_memory_is_short_a_higher_limit_makes_it_worse():
    pressed = knobs(mac(48, 36 * GIB, pressure=r("critical")))
    assert pressed == ["other_load", "quant"]


def test_a_context_that_is_too_long_for_the_memory_is_shortened_until_it_fits():
    cache = {"layers": r(80), "kv_heads": r(8), "key_length": r(128), "value_length": r(128)}
    case = mac(64, 40 * GIB, 48 * GIB, pressure=r("normal"))
    long = msgspec.structs.replace(
        case,
        runtime=msgspec.structs.replace(case.runtime, context_length=r(131072)),
        model=msgspec.structs.replace(case.model, weights_bytes=r(40 * GIB), **cache),
    )
    answer = ask(NAME, long)
    assert isinstance(answer, Found)
    first = answer.remedies[0].change
    assert first.knob is Knob.CONTEXT_LENGTH
    assert SHORTEST_USEFUL < first.value < 131072
    assert (40 * GIB + first.value * 327680) < 48 * GIB
    assert Knob.WIRED_LIMIT not in {remedy.change.knob for remedy in answer.remedies}, "80 GiB of 64 are not to be had"
