"""How sure a finding is: where its facts come from, whether sources agree, whether physics bears it out.

It starts as sure as its facts are on average, by their origin. Doubt is what is left to 1, and it shrinks with every
further source that agrees and with a measured time that physics explains by the very cause; sources that contradict
one another about its facts, and a measured time that the cause can't explain, take from what is sure.
"""

import re
import statistics

from unslow.facts.snapshot import Case
from unslow.facts.values import Origin, Unknown
from unslow.think.phases import Pace
from unslow.think.predict import Prediction
from unslow.think.report import Evidence

TRUST = {Origin.MEASURED: 0.95, Origin.REPORTED: 0.9, Origin.DATASHEET: 0.8, Origin.TOLD: 0.7, Origin.ESTIMATED: 0.6}
NO_EVIDENCE, MOST = 0.5, 0.99
AGREED = 0.7
"""Of the doubt, what each further source leaves, and what a prediction leaves that comes true."""
COUNTED = 3
"""Sources beyond the first that count: more of them seldom see anything of their own."""
DISPUTED, ODD = 0.8, 0.95
"""What is left of the sureness where sources contradict one another; less is lost where it is known what that means."""
NOT_BORNE_OUT = 0.85
SEEN_BY_PHYSICS = 1.15
"""A cure that gains less by physics is about something that physics does not see."""

CONCERNED = {"vram": ("buffers", "size_vram_bytes", "vram_share", "vram_used_bytes", "vram_free_bytes", "processes")}
"""The facts that are in doubt where sources contradict one another about something that is no fact by itself."""

_WITHIN = re.compile(r":(?!//)")
"""What stands after it is a place within a source: a line, a field, a path of a server."""


def confidence(
    case: Case, evidence: tuple[Evidence, ...], pace: Pace | None, cured: Prediction | Unknown | None
) -> float:
    """Between a half and 0.99; `pace` and `cured` are of the finding's phase, where it is one that physics sees."""
    if not evidence:
        return NO_EVIDENCE
    trust = statistics.fmean(TRUST[Origin(e.origin)] for e in evidence)
    others = min(COUNTED, len({_place(e) for e in evidence}) - 1)
    factor = _borne_out(pace, cured)
    doubt = (1 - trust) * AGREED ** (others + (factor > 1))
    sure = (1 - doubt) * _agreement(case, evidence) * min(1.0, factor)
    return max(NO_EVIDENCE, min(MOST, sure))


def _place(evidence: Evidence) -> str:
    """The file, command or server that a fact was read from: two lines of one log are one source."""
    return _WITHIN.split(evidence.source, maxsplit=1)[0]


def _agreement(case: Case, evidence: tuple[Evidence, ...]) -> float:
    facts = {step for e in evidence for step in e.fact.split(".")}
    about = [c for c in case.contradictions if facts.intersection(CONCERNED.get(c.about, (c.about,)))]
    return min((ODD if c.meaning else DISPUTED for c in about), default=1.0)


def _borne_out(pace: Pace | None, cured: Prediction | Unknown | None) -> float:
    """Above 1 where the time is what physics expects with the cause, below where it is not what it would do."""
    if pace is None or pace.measured_s is None or not isinstance(pace.now, Prediction):
        return 1.0
    if not isinstance(cured, Prediction):
        return 1.0
    low, _, high = pace.now.seconds
    if pace.now.seconds.mid >= SEEN_BY_PHYSICS * cured.seconds.mid:
        return 2.0 if low <= pace.measured_s <= high else 1.0
    # physics has the case without the cause: a measured time that is no longer shows that it costs nothing
    return 1.0 if pace.measured_s > pace.now.seconds.mid else NOT_BORNE_OUT
