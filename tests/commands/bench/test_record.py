"""The record of a running benchmark: a broken history never costs what was measured."""

import random

import pytest
from bench_cases import answered, bench
from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench import BenchRequest
from unslow.commands.bench.measurement import Ledger, Record
from unslow.commands.diagnose.discretion import Discretion
from unslow.facts.bench import DECODE, Pass
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Case
from unslow.look.stored.history import FILE_NAME, History, default_history
from unslow.think.case.view import CaseView
from unslow.think.speed.calibration import mark_of

LAST = BenchRequest(require=("decode >= 0.7 * last",))


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))
    return tmp_path


def record(request: BenchRequest, passes: list[Pass], history: History | None = None) -> Record:
    ledger = Ledger(CaseView(Case()), passes, [])
    return Record(SimulatedServer(), request, lambda: ledger, Quiet(), Discretion(()), history)


def test_requirement_against_last_survives_a_broken_history(data):
    (data / FILE_NAME).write_bytes(b"no database" * 100)
    found = record(LAST, [answered(n) for n in (1, 2, 3)]).finish()
    assert found.figures[DECODE].median == pytest.approx(100)
    assert found.requirements[0].holds is None


def test_requirement_against_last_ignores_interrupted_benchmarks():
    known = {"runtime": "unknown", "model": "unknown", "machine": mark_of(Machine())}
    history = default_history()
    history.begin(bench(1, passes=(), figures={}, samples={}, **known))
    history.append(bench(1).id, [answered(n) for n in (1, 2, 3)])
    found = record(LAST, [answered(n, server_decode_s=2.54) for n in (1, 2, 3)], history).finish()
    assert found.requirements[0].holds is None


def test_passes_of_a_long_sweep_make_no_figures():
    dice = random.Random(1)
    passes = [answered(n, case="minutes", server_decode_s=dice.uniform(1, 2)) for n in range(1, 3000)]
    found = record(BenchRequest(sweep=("minutes=600",)), passes).finish()
    assert (found.figures, found.samples, len(found.passes)) == ({}, {}, 2999)
