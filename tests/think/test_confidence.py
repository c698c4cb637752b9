"""How sure a finding is: by origin, by agreement, by what physics makes of it."""

import msgspec
import pytest
from cases import gpu_case

from unslow.facts.snapshot import Contradiction, Statement
from unslow.think.confidence import confidence
from unslow.think.phases import Pace
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import around
from unslow.think.predict import Prediction, predict
from unslow.think.report import Evidence


def seen(source: str, origin: str = "reported", fact: str = "runtime.threads") -> Evidence:
    return Evidence(fact=fact, value=1, reference=None, origin=origin, source=source)


def sure(*evidence: Evidence, case=None, pace=None, cured=None) -> float:
    return confidence(case or gpu_case(), evidence, pace, cured)


def took(seconds: float) -> Prediction:
    return Prediction(around(seconds, 1.2), [Part("compute", seconds, 1.2)], 1e6)


def test_one_source_is_as_sure_as_its_origin():
    assert sure(seen("run", "measured")) == pytest.approx(0.95)
    assert sure(seen("server.log:3")) == pytest.approx(0.9)
    assert sure(seen("paste:3", "told")) == pytest.approx(0.7)
    assert sure() == 0.5


def test_words_of_one_text_are_one_source():
    assert sure(seen("paste:3", "told"), seen("paste:9: the model", "told")) == pytest.approx(0.7)


def test_sources_that_agree_raise_it_but_never_to_certainty():
    two = sure(seen("server.log:3"), seen("nvidia-smi -q"))
    three = sure(seen("server.log:3"), seen("nvidia-smi -q"), seen("/proc/1/status"))
    assert 0.9 < two < three < 0.99
    assert sure(*(seen(f"probe {n}", "measured") for n in range(9))) <= 0.99


def test_a_contradiction_lowers_it():
    said = (Statement(says="64", source="a"), Statement(says="16", source="b"))
    odd = Contradiction(about="threads", statements=said, meaning="a limit changed it")
    dispute = msgspec.structs.replace(odd, meaning="")
    with_odd, disputed, elsewhere = (
        msgspec.structs.replace(gpu_case(), contradictions=(c,))
        for c in (odd, dispute, msgspec.structs.replace(dispute, about="slots"))
    )
    assert sure(seen("a"), case=disputed) < sure(seen("a"), case=with_odd) < sure(seen("a"))
    assert sure(seen("a"), case=elsewhere) == sure(seen("a"))


def test_a_time_that_physics_explains_by_the_cause_raises_it():
    borne_out = Pace("token", 0.041, took(0.04), took(0.004), predict)
    far_off = borne_out._replace(measured_s=0.2)
    assert sure(seen("a"), pace=borne_out, cured=took(0.004)) > sure(seen("a"))
    assert sure(seen("a"), pace=far_off, cured=took(0.004)) == sure(seen("a"))


def test_a_cause_that_should_cost_time_where_none_is_lost_is_less_sure():
    fast = Pace("token", 0.0039, took(0.004), took(0.004), predict)
    assert sure(seen("a"), pace=fast, cured=took(0.004)) < sure(seen("a"))
    slow = fast._replace(measured_s=0.02)
    assert sure(seen("a"), pace=slow, cured=took(0.004)) == sure(seen("a"))
