"""What changed between two benchmarks, and what to suspect."""

import pytest
from bench_cases import SETTINGS, bench

from unslow.facts.bench import Comparison
from unslow.facts.calibration import MachineMark
from unslow.facts.values import Unknown
from unslow.think.stats import comparison
from unslow.think.stats.changes import changes_between, earlier_of, suspect


def compared(verdict: str = "slower") -> Comparison:
    return Comparison(before="a", after="b", verdict=verdict, because="x")


def facts(*benches) -> list[str]:
    return [change.fact for change in changes_between(*benches)]


def mark(**other) -> MachineMark:
    known = {"cpu": "Ryzen 7 5800X", "cores": 8, "gpus": ("RTX 4090",), "drivers": ("575.64",), "kernel": "6.8.0-52"}
    return MachineMark(**{**known, **other})


BEFORE = bench(1)
VERSION = bench(2, runtime_version="b9100")
THREADS = bench(2, settings={**SETTINGS, "runtime.threads": "16"})
LOWER = bench(2, conditions={"gpu_clock_hz": 1.4e9, "others_cpus": 0.1})
NOTHING = bench(2)


def test_no_change_has_no_suspect(wording):
    assert changes_between(BEFORE, NOTHING) == ()
    wording(suspect(compared(), ()))


def test_runtime_version_alone_is_the_suspect(wording):
    changes = changes_between(BEFORE, VERSION)
    assert [(c.name, c.before, c.after, c.kind) for c in changes] == [("runtime version", "b9000", "b9100", "version")]
    wording(suspect(compared(), changes), tells=("b9000", "b9100"))


def test_single_setting_is_the_suspect(wording):
    changes = changes_between(BEFORE, THREADS)
    wording(suspect(compared(), changes), tells="16")


def test_derived_setting_is_not_a_second_suspect(wording):
    before = bench(1, settings={**SETTINGS, "runtime.threads_batch": "8"})
    changes = changes_between(before, bench(2, settings={**THREADS.settings, "runtime.threads_batch": "16"}))
    assert len(changes) == 2
    wording(suspect(compared(), changes), tells="16")


def test_several_changes_are_all_named(wording):
    changes = changes_between(BEFORE, bench(2, runtime_version="b9100", machine=mark(drivers=("580.1",), kernel="6.9")))
    assert [c.fact for c in changes] == ["runtime.version", "driver", "machine.system.kernel"]
    wording(suspect(compared(), changes))


def test_lower_gpu_clock_alone_is_the_suspect(wording):
    (change,) = changes_between(BEFORE, LOWER)
    assert (change.name, change.before, change.after, change.worse) == ("GPU clock", "2,500 MHz", "1,400 MHz", True)
    text = suspect(compared(), (change,))
    wording(text)


def test_version_and_lower_clock_are_both_named(wording):
    changes = changes_between(BEFORE, bench(2, runtime_version="b9100", conditions=LOWER.conditions))
    wording(suspect(compared(), changes), tells=("2,500 MHz", "1,400 MHz"))


def test_higher_clock_does_not_excuse_a_slower_version(wording):
    changes = changes_between(BEFORE, bench(2, runtime_version="b9100", conditions={"gpu_clock_hz": 2.9e9}))
    assert facts(BEFORE, bench(2, runtime_version="b9100", conditions={"gpu_clock_hz": 2.9e9})) == [
        "runtime.version",
        "gpu_clock_hz",
    ]
    wording(suspect(compared(), changes))


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("others_cpus", 0.0, 2.0, True),
        ("others_cpus", 0.1, 0.3, False),
        ("gpu_0_clock_hz", 1.98e9, 1.95e9, False),
        ("gpu_memory_clock_hz", 2.6e9, 1.3e9, True),
        ("gpu_temperature_c", 60.0, 85.0, True),
        ("gpu_temperature_c", 60.0, 64.0, False),
        ("ram_read_bytes_per_s", 40e9, 20e9, True),
        ("gpu_vram_free_bytes", 8e9, 1e9, True),
        ("cpu_throttled_share", 0.0, 0.5, True),
        ("swap_in_bytes_per_s", 0.0, 1e8, True),
        ("something_else", 0.0, 1e8, False),
        ("gpu_busy", 0.9, 0.1, False),
    ],
)
def test_conditions_count_only_when_clearly_different(name, before, after, told):
    changes = changes_between(bench(1, conditions={name: before}), bench(2, conditions={name: after}))
    assert bool(changes) == told
    assert all(change.worse and change.why for change in changes)


def test_power_draw_is_not_a_suspect(wording):
    (change,) = changes_between(
        bench(1, conditions={"gpu_power_w": 400.0}), bench(2, conditions={"gpu_power_w": 200.0})
    )
    assert change.worse is None
    wording(suspect(compared(), (change,)))


def test_unknown_facts_have_not_changed():
    bare = bench(2, settings={}, conditions={}, machine=MachineMark(), runtime_version="", model_bytes=0)
    assert changes_between(BEFORE, bare) == ()
    assert changes_between(bare, BEFORE) == ()


def test_other_measuring_tool_is_named(wording):
    imported = bench(2, protocol="imported", settings={"measured_with": "llama-bench", "test.decode": "tg128"})
    assert facts(BEFORE, imported) == ["measured_with"]
    text = suspect(compared("faster"), changes_between(BEFORE, imported))
    wording(text)
    longer = bench(3, protocol="imported", settings={"measured_with": "llama-bench", "test.decode": "tg512"})
    assert facts(imported, longer) == ["test.decode"]
    assert facts(BEFORE, bench(2, protocol="quick")) == ["protocol"]


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        ({"model": "qwen"}, "model"),
        ({"runtime": "ollama", "runtime_version": "0.9"}, "runtime"),
        ({"model_bytes": 5}, "model_bytes"),
        ({"machine": mark(cpu="Xeon")}, "cpu"),
        ({"machine": mark(cores=4)}, "cores"),
        ({"machine": mark(gpus=("H200",))}, "gpus"),
    ],
)
def test_other_model_runtime_or_machine_is_named(other, fact, wording):
    assert facts(BEFORE, bench(2, **other)) == [fact]
    wording(suspect(compared(), changes_between(BEFORE, bench(2, **other))))


def test_same_verdict_has_no_suspect():
    for verdict in ("same", "cannot_tell"):
        assert suspect(compared(verdict), changes_between(BEFORE, VERSION)) == ""


def test_faster_verdict_names_what_helped(wording):
    wording(suspect(compared("faster"), changes_between(BEFORE, VERSION)))
    wording(suspect(compared("faster"), changes_between(BEFORE, LOWER)))
    wording(suspect(compared("faster"), changes_between(LOWER, BEFORE)), tells=("1,400 MHz", "2,500 MHz"))


def test_earlier_benchmark_becomes_a_fact_for_causes():
    after = bench(2, 70.0, runtime_version="b9100", conditions={"gpu_clock_hz": 2.9e9, "others_cpus": 3.0})
    fact = earlier_of(BEFORE, after, comparison.compare_benches(BEFORE, after), changes_between(BEFORE, after))
    earlier = fact.need()
    assert (earlier.slower, earlier.version, earlier.version_now) == (True, "b9000", "b9100")
    assert earlier.also_changed == ("other programs",)
    bare = bench(2, figures={}, samples={})
    assert isinstance(earlier_of(BEFORE, bare, comparison.compare_benches(BEFORE, bare), ()), Unknown)
