"""Where the time goes: of a token, of a token of a prompt, of a request, each with what nothing explains as a part."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.beside import SORTING
from unslow.think.contention import waiting_s
from unslow.think.found_parts import OF_ANY_WORK, found_parts
from unslow.think.phases import PER, Outlook, Pace, PhaseTime, losing_phases
from unslow.think.physics.decode import Part
from unslow.think.predict import Prediction
from unslow.think.report import BudgetPart
from unslow.think.waits import detour_s, preparing_s

UNEXPLAINED, WAITING = "unexplained", "waiting for a CPU"
DETOUR, PREPARING, CLIENT = "finding the server", "making ready for a request", "the client, or what lies between"
SAMPLERS = "samplers, as tried"
_ROUNDING = 1e-9  # what sums of floats leave over of a time that is explained whole
WHOLE = {"queue": "waiting for its turn", "load": "loading the model"}
"""What a phase is as a whole: nothing in it is left to explain."""


def budget(
    case: Case,
    outlook: Outlook,
    found: Collection[str] = (),
    beyond_physics: Mapping[str, float] = MappingProxyType({}),
) -> tuple[BudgetPart, ...]:
    """Every measured phase that costs time, in the order of a request; each sums to what was measured of it.

    `beyond_physics` is what causes take of a token that were found and have no other part, in seconds by name.
    """
    outside = [part for time in losing_phases(outlook.times) for part in _of_a_request(case, time, found)]
    prompt, token = outlook.prefill, outlook.decode
    # what else was watched, was watched while tokens were generated
    with_others = dict(found_parts(case, OF_ANY_WORK.intersection(found), prompt).values())
    reading = _split("prefill", _parts(prompt), prompt.measured_s, with_others) if prompt.measured_s else ()
    beyond = {**dict(found_parts(case, found, token).values()), **beyond_physics}
    answering = decode_budget(case, _known(token), token.measured_s, beyond) if token.measured_s else ()
    return (*outside, *reading, *answering)


def decode_budget(
    case: Case, prediction: Prediction | None, measured_s: float, beyond: Mapping[str, float] = MappingProxyType({})
) -> tuple[BudgetPart, ...]:
    """The measured time of a token, split as physics splits it; where it was faster, all parts shrink together.

    `beyond` is what was found of which physics knows nothing, in seconds by name.
    """
    # beyond what its own threads cost each other by physics, the kernel's count tells whatever else they waited for
    waiting = waiting_s(case, measured_s, prediction)
    parts = [_renamed(case, part) for part in prediction.parts] if prediction else []
    return _split("decode", parts, measured_s, {WAITING: waiting, **beyond} if waiting else beyond)


def _renamed(case: Case, part: Part) -> Part:
    """What samplers take by a trial is more than a sort."""
    tried = part.name == SORTING and isinstance(case.run.plain_sampling, Known)
    return part._replace(name=SAMPLERS) if tried else part


def _split(
    phase: str, parts: Sequence[Part], measured_s: float, beyond: Mapping[str, float] = MappingProxyType({})
) -> tuple[BudgetPart, ...]:
    predicted = sum(p.seconds for p in parts)
    scale = min(1.0, measured_s / predicted) if predicted else 0.0
    left, asked = max(0.0, measured_s - predicted * scale), sum(beyond.values())
    fair = min(1.0, left / asked) if asked else 0.0  # threads also wait while a disk reads: nothing is counted twice
    split = [_part(phase, p.name, p.seconds * scale) for p in parts]
    split += [_part(phase, name, seconds * fair) for name, seconds in beyond.items()]
    rest = left - asked * fair
    split.append(_part(phase, UNEXPLAINED, rest if rest > _ROUNDING * measured_s else 0.0))
    return tuple(sorted(split, key=lambda b: -b.seconds))


def _of_a_request(case: Case, time: PhaseTime, found: Collection[str]) -> tuple[BudgetPart, ...]:
    """What the server does not compute; the computed phases have budgets of their own."""
    if time.phase in PER:
        return ()
    if time.phase in WHOLE:
        name = PREPARING if time.phase == "queue" and preparing_s(case) == time.seconds else WHOLE[time.phase]
        return _split(time.phase, [Part(name, time.seconds, 1.0)], time.seconds)
    detour = min(time.seconds, detour_s(case) or 0.0)
    parts = {DETOUR: detour, CLIENT: time.seconds - detour if "client_overhead" in found else 0.0}
    return _split(time.phase, [Part(name, seconds, 1.0) for name, seconds in parts.items() if seconds], time.seconds)


def _parts(pace: Pace) -> list[Part]:
    known = _known(pace)
    return known.parts if known else []


def _known(pace: Pace) -> Prediction | None:
    return pace.now if isinstance(pace.now, Prediction) else None


def _part(phase: str, name: str, seconds: float) -> BudgetPart:
    return BudgetPart(phase=phase, part=name, seconds=seconds, per=PER.get(phase, "request"))
