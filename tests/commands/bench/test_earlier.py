"""Whether a runtime version is slower than the one before it, by the history."""

import pytest
from bench_cases import MARK, bench

from unslow.commands._bench_history import earlier_in_history
from unslow.facts.machine import Cpu, Gpu, Machine, System
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Unknown, reported_fact
from unslow.look.stored.history import History
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Found
from unslow.think.speed.calibration import mark_of


def known(value):
    return reported_fact(value, "test")


GPU = Gpu(index=0, name=known("RTX 4090"), kind=known("discrete"), driver=known("575.64"))
CASE = Case(
    machine=Machine(
        system=System(kernel=known("6.8.0-52")),
        cpu=Cpu(model=known("Ryzen 7 5800X"), physical_cores=known(8)),
        gpus=known((GPU,)),
    ),
    runtime=Runtime(name=known("llama.cpp"), version=known("b9100")),
    model=Model(name=known("llama-3.1-8b-q4_k_m.gguf")),
)


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "benchmarks.sqlite3")


def test_machine_of_the_case_matches_the_benchmarks():
    assert mark_of(CASE.machine) == MARK


def test_slower_version_is_found_as_runtime_version_regressed(history):
    history.keep(bench(1, 100.0))
    history.keep(bench(2, 70.0, runtime_version="b9100"))
    fact = earlier_in_history(CaseView(CASE), history)
    earlier = fact.need()
    assert (earlier.version, earlier.version_now, earlier.slower, earlier.also_changed) == ("b9000", "b9100", True, ())
    case = Case(machine=CASE.machine, runtime=CASE.runtime, model=CASE.model, run=Run(earlier=fact))
    found = all_causes()["runtime_version_regressed"].check(CaseView(case))
    assert isinstance(found, Found)
    assert found.speedup == pytest.approx(100 / 70)


def test_equal_speed_is_not_slower(history):
    history.keep(bench(1, 100.0))
    history.keep(bench(2, 100.0, runtime_version="b9100"))
    assert not earlier_in_history(CaseView(CASE), history).need().slower


@pytest.mark.parametrize(
    "kept",
    [
        (),
        (bench(1),),
        (bench(1), bench(2)),
        (bench(1, runtime_version="b9100"), bench(2)),
        (bench(1, settings={"runtime.threads": "1"}), bench(2, runtime_version="b9100")),
        (bench(1, runtime_version=""), bench(2, runtime_version="b9100")),
    ],
)
def test_history_needs_two_versions_of_the_same_setup(history, kept):
    for one in kept:
        history.keep(one)
    fact = earlier_in_history(CaseView(CASE), history)
    assert isinstance(fact, Unknown)
    assert fact.absence is Absence.NOT_FOUND
    assert "unslow bench" in fact.how_to_get


def test_unreadable_history_gives_a_failed_fact(history):
    history.path.write_bytes(b"no database" * 100)
    assert earlier_in_history(CaseView(CASE), history).absence is Absence.FAILED
