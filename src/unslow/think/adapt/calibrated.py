"""A case by what was measured of its machine before, where that still holds."""

from unslow.facts.calibration import Calibration
from unslow.facts.snapshot import Case
from unslow.think.adapt.exact import plan_of
from unslow.think.calibrate import demand_of, matching
from unslow.think.physics.calibration import calibrated_decode
from unslow.think.physics.decode import Part, Work
from unslow.think.physics.interval import Interval

_NAMES = {
    "weights": "host memory reads",
    "operations": "host layer overhead",
    "rows": "host layer overhead",
    "vocabulary": "sampling",
    "attention": "host attention",
    "step": "round trip",
}
"""The parts of a calibrated time, as a budget calls them."""


def calibration_of(case: Case) -> Calibration | None:
    """The calibration of this machine, engine and version; None where there is none, or it is stale."""
    return matching(case.calibrations, case.machine, case.runtime, case.taken_at).usable


def calibrated(case: Case, work: Work, depth: float) -> tuple[Interval, list[Part]] | None:
    """The time of a token where the CPU does all the work undisturbed by its own threads; None where it does not."""
    plan = plan_of(case)
    if work.device is not None or work.threads_per_core > 1 or plan is None:
        return None
    known = calibration_of(case)
    kinds = (case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16"))
    found = calibrated_decode(demand_of(plan, max(1, int(depth)), kinds), known) if known else None
    if found is None:
        return None
    parts: dict[str, Part] = {}
    for part in found.parts:
        name = _NAMES[part.name]
        before = parts.get(name, Part(name, 0.0, part.spread))
        parts[name] = Part(name, before.seconds + part.seconds, max(before.spread, part.spread))
    return found.seconds, list(parts.values())


def scale_of(case: Case, work: Work) -> float:
    """By how much a server of this kind was slower than expected when it was calibrated; 1 where it was not."""
    known = calibration_of(case) if work.device is not None and case.calibrations else None
    return known.scale.factor if known and known.scale and known.backend == "gpu" else 1.0
