"""Which measurement to make next: the one that is expected to explain most of the lost time for each of its seconds.

Worth is the sum over causes that it would settle: how often the cause is behind slow inference, times how much of the
time it could explain here. A server that generates as fast as it can has little to gain from causes of slow generation.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from unslow.catalog.causes import frequency
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.think.causes import all_causes
from unslow.think.causes._cause import fact_at
from unslow.think.measuring.catalogue import HOST, SPEED, TRAFFIC, measurements
from unslow.think.measuring.measurement import Choice, Load, Measurement
from unslow.think.measuring.stakes import stakes
from unslow.think.report import SubjectReport

WORTH_PER_S = 2e-4
"""Less is not worth waiting for: a minute of it would explain about a hundredth of the lost time."""
MOST_S = 8.0
"""What a trial beyond the usual speed is given, however slow the server is."""
_LEAST_S, _LEAST_OF_IT = 1.0, 0.5
"""A trial with less of its time than this would tell too little."""
_SUSPECTED, _FOUND, _RULED_OUT, _BESIDE = 6.0, 2.0, 0.05, 0.2
"""What a cause weighs against one of which nothing is known: something speaks for it; it is there and gets its price;
it is ruled out already; it is open for another reason than what would be measured."""
FIRST = (SPEED, TRAFFIC, HOST)
"""What all else is judged by: the usual speed, or where nothing may be sent, what can be seen of it."""
_SLOW_DECODE, _SLOW_PREFILL = 10.0, 100.0
"""Tokens per second of a server that nothing is known of: a large model on a CPU."""


class _Settled(NamedTuple):
    cause: str
    worth: float
    suspected: bool = False
    """Whether something speaks for it already, and this is what it lacks, be it only its price."""


def next_measurement(
    case: Case,
    report: SubjectReport,
    done: Collection[str],
    seconds_left: float,
    *,
    may_send: bool,
    patience: float = 1.0,
) -> Choice | None:
    """The measurement to make now; None where none that is left is worth its time, or fits into it.

    With more patience a trial may take longer, and is worth it for less.
    """
    choices = worthwhile(case, report, done, may_send=may_send, patience=patience)
    return next((c for c in choices if seconds_left >= _least_s(c)), None)


def _least_s(choice: Choice) -> float:
    """The first measurement is worth trying in whatever time there is."""
    return _LEAST_S if choice.measurement.name in FIRST else choice.seconds * _LEAST_OF_IT


def worthwhile(
    case: Case, report: SubjectReport, done: Collection[str], *, may_send: bool, patience: float = 1.0
) -> list[Choice]:
    """Every measurement that is worth its time, whether or not there is so much: what it all hangs on first."""
    left = [m for m in measurements().values() if m.name not in done and m.sends == may_send and m.possible(case)]
    found = (_choice(case, report, m, patience) for m in left)
    choices = sorted(found, key=lambda c: (not c.decides_suspicion, -c.worth_per_s))
    worth = [c for c in choices if c.worth_per_s >= WORTH_PER_S / patience]
    first = None if SPEED in done else next((c for n in FIRST for c in choices if c.measurement.name == n), None)
    return [first, *(c for c in worth if c is not first)] if first else worth


def _choice(case: Case, report: SubjectReport, measurement: Measurement, patience: float) -> Choice:
    settled = sorted(_settled(case, report, measurement), key=lambda s: (-s.worth, s.cause))
    seconds = _seconds(report, measurement.load(case))
    seconds = seconds if measurement.name in FIRST else min(MOST_S * patience, seconds)
    worth, suspected = sum(s.worth for s in settled), any(s.suspected for s in settled)
    return Choice(measurement, tuple(s.cause for s in settled), seconds, worth / max(seconds, 0.1), suspected)


def _settled(case: Case, report: SubjectReport, measurement: Measurement) -> Iterator[_Settled]:
    """The causes that it would tell of, with what that is worth."""
    new = [path for path in measurement.fills if isinstance(fact_at(case, path), Unknown)]
    if not new:
        return
    at_stake = stakes(case, report)
    for name, cause in all_causes().items():
        weight = _weight(name, report, new, measurement)
        if weight:
            speaks = weight == _SUSPECTED or (weight == _FOUND and name in measurement.about)
            yield _Settled(name, weight * frequency(name) * at_stake[cause.phase], speaks)


def _weight(name: str, report: SubjectReport, new: Collection[str], measurement: Measurement) -> float:
    asked = [path for need in all_causes()[name].needs for path in ((need,) if isinstance(need, str) else need)]
    touched = name in measurement.about or any(path in new for path in asked)
    untold = next((u for u in report.cannot_tell if u.cause == name), None)
    if untold:
        gives = any(_gives(new, path.strip()) for path in untold.missing.split(" or "))
        weight = _SUSPECTED if untold.suspected else 1.0
        return weight if gives else weight * _BESIDE if touched else 0.0
    if not touched:
        return 0.0
    return _FOUND if any(f.cause == name for f in report.findings) else _RULED_OUT


def _gives(new: Collection[str], path: str) -> bool:
    return any(path == given or path.startswith(f"{given}.") for given in new)


def _seconds(report: SubjectReport, load: Load) -> float:
    """How long a load takes at the speeds that were measured, else at those that are expected."""
    expected = report.expected.as_configured.get("decode_tokens_per_s")
    decode = report.measured.get("decode_tokens_per_s") or (expected.mid if expected else _SLOW_DECODE)
    prefill = report.measured.get("prefill_tokens_per_s") or max(_SLOW_PREFILL, decode)
    return load.prompt_tokens / max(prefill, 0.1) + load.generated_tokens / max(decode, 0.1) + load.seconds
