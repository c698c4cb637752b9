"""Confidence of a finding: by origin, by agreement, and by the prediction."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from cases import gpu_case

import unslow.look
from unslow.facts.machine import Gpu, Machine
from unslow.facts.model import Model
from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Contradiction, Statement
from unslow.think.case.speed import Prediction
from unslow.think.judge.findings import CONCERNED, confidence
from unslow.think.judge.phases import Pace
from unslow.think.physics.terms import interval_around
from unslow.think.physics.token_time import Part
from unslow.think.report import Evidence

LOOK = Path(unslow.look.__file__).parent


def seen(source: str, origin: str = "reported", fact: str = "runtime.compute.threads") -> Evidence:
    return Evidence(fact=fact, value=1, reference=None, origin=origin, source=source)


def sure(*evidence: Evidence, case=None, pace=None, cured=None) -> float:
    return confidence(case or gpu_case(), evidence, pace, cured)


def took(seconds: float) -> Prediction:
    return Prediction(interval_around(seconds, 1.2), [Part("compute", seconds, 1.2)], 1e6)


def test_single_source_confidence_follows_its_origin():
    assert sure(seen("run", "measured")) == pytest.approx(0.95)
    assert sure(seen("server.log:3")) == pytest.approx(0.9)
    assert sure(seen("paste:3", "told")) == pytest.approx(0.7)
    assert sure() == 0.5


def test_lines_of_one_text_are_one_source():
    assert sure(seen("paste:3", "told"), seen("paste:9: the model", "told")) == pytest.approx(0.7)


def test_agreeing_sources_raise_confidence_below_certainty():
    two = sure(seen("server.log:3"), seen("nvidia-smi -q"))
    three = sure(seen("server.log:3"), seen("nvidia-smi -q"), seen("/proc/1/status"))
    assert 0.9 < two < three < 0.99
    assert sure(*(seen(f"probe {n}", "measured") for n in range(9))) <= 0.99


def test_contradiction_lowers_confidence():
    said = (Statement(says="64", source="a"), Statement(says="16", source="b"))
    odd = Contradiction(about="threads", statements=said, meaning="a limit changed it")
    dispute = msgspec.structs.replace(odd, meaning="")
    with_odd, disputed, elsewhere = (
        msgspec.structs.replace(gpu_case(), contradictions=(c,))
        for c in (odd, dispute, msgspec.structs.replace(dispute, about="slots"))
    )
    assert sure(seen("a"), case=disputed) < sure(seen("a"), case=with_odd) < sure(seen("a"))
    assert sure(seen("a"), case=elsewhere) == sure(seen("a"))


def test_loss_explained_by_the_prediction_raises_confidence():
    borne_out = Pace("token", 0.041, took(0.04), took(0.004), lambda _: took(0.004))
    far_off = borne_out._replace(measured_s=0.2)
    assert sure(seen("a"), pace=borne_out, cured=took(0.004)) > sure(seen("a"))
    assert sure(seen("a"), pace=far_off, cured=took(0.004)) == sure(seen("a"))


def test_predicted_cost_without_a_measured_loss_lowers_confidence():
    fast = Pace("token", 0.0039, took(0.004), took(0.004), lambda _: took(0.004))
    assert sure(seen("a"), pace=fast, cured=took(0.004)) < sure(seen("a"))
    slow = fast._replace(measured_s=0.02)
    assert sure(seen("a"), pace=slow, cured=took(0.004)) == sure(seen("a"))


@pytest.mark.parametrize(
    "fact", ["machine.gpus.0.vram_free_bytes", "machine.gpus.1.processes", "runtime.memory.buffers"]
)
def test_vram_contradiction_lowers_confidence_of_vram_facts_only(fact):
    said = (Statement(says="5 GiB on GPUs", source="log"), Statement(says="1 GiB is used", source="nvidia-smi"))
    case = msgspec.structs.replace(gpu_case(), contradictions=(Contradiction(about="vram", statements=said),))
    assert sure(seen("a", fact=fact), case=case) < sure(seen("a", fact=fact))
    assert sure(seen("a"), case=case) == sure(seen("a")), "threads have nothing to do with it"


def facts_under(kind: type) -> set[str]:
    """The names of all facts of a struct, those of the structs in it too."""
    names = set[str]()
    for field in msgspec.structs.fields(kind):
        inner = [t for t in (field.type, *get_args(field.type)) if isinstance(t, type)]
        names |= {field.name}.union(*(facts_under(t) for t in inner if issubclass(t, msgspec.Struct) and t is not kind))
    return names


def test_every_contradiction_is_about_a_known_fact():
    known = set(FACT_PATHS) | facts_under(Machine) | facts_under(Gpu) | facts_under(Model)
    sources = [path.read_text("utf-8") for path in LOOK.rglob("*.py")]
    told = {about for text in sources for about in re.findall(r'(?:about=|contradiction\(\s*)"(\w+)"', text)}
    assert {"vram", "gpu_layers", "threads"} <= told
    assert {name for about in told for name in CONCERNED.get(about, (about,))} <= known
    assert set(CONCERNED) <= told
