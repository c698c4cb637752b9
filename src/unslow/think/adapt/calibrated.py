"""A case by what was measured of its machine before, where that still holds."""

from collections.abc import Iterable

from unslow.facts.calibration import Calibration
from unslow.facts.snapshot import Case
from unslow.think.adapt.exact import plan_of
from unslow.think.calibrate import demand_of, matching
from unslow.think.physics.calibration import calibrated_decode, calibrated_prefill
from unslow.think.physics.decode import Part, Work
from unslow.think.physics.interval import Interval

_NAMES = {
    "weights": "host memory reads",
    "operations": "host layer overhead",
    "rows": "host layer overhead",
    "vocabulary": "sampling",
    "attention": "host attention",
    "experts": "host memory reads",
    "step": "round trip",
}
"""The parts of a calibrated time, as a budget calls them."""


def calibration_of(case: Case) -> Calibration | None:
    """The calibration of this machine, engine and version; None where there is none, or it is stale."""
    return matching(case.calibrations, case.machine, case.runtime, case.taken_at).usable


def calibrated(case: Case, work: Work, depth: float) -> tuple[Interval, list[Part]] | None:
    """The time of a token where the CPU does all the work undisturbed by its own threads; None where it does not."""
    plan = plan_of(case)
    if work.device is not None or work.is_hindered or plan is None:
        return None
    known = calibration_of(case)
    found = calibrated_decode(demand_of(plan, max(1, int(depth)), _cache_types(case)), known) if known else None
    return (found.seconds, _named(found.parts)) if found else None


def calibrated_prompt(case: Case, tokens: float) -> tuple[Interval, list[Part]] | None:
    """The time of one of so many prompt tokens where the CPU does all the work; None where nothing was measured."""
    plan, known = plan_of(case), calibration_of(case)
    if plan is None or known is None:
        return None
    found = calibrated_prefill(demand_of(plan, 1, _cache_types(case)), known, max(1, int(tokens)))
    if found is None:
        return None
    each = [part._replace(seconds=part.seconds / tokens) for part in found.parts]
    return Interval(*(seconds / tokens for seconds in found.seconds)), _named(each)


def _cache_types(case: Case) -> tuple[str, str]:
    return case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16")


def _named(parts: Iterable[Part]) -> list[Part]:
    """The parts as a budget calls them, those of one name together."""
    named: dict[str, Part] = {}
    for part in parts:
        name = _NAMES[part.name]
        before = named.get(name, Part(name, 0.0, part.spread))
        named[name] = Part(name, before.seconds + part.seconds, max(before.spread, part.spread))
    return list(named.values())


def scale_of(case: Case, work: Work) -> float:
    """By how much a server of this kind was slower than expected when it was calibrated; 1 where it was not."""
    known = calibration_of(case) if work.device is not None and case.calibrations else None
    return known.scale.factor if known and known.scale and known.backend == "gpu" else 1.0
