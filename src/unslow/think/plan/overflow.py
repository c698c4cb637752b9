"""What runs at a speed that is not predicted: with more than its GPUs hold, or with settings that have no price.

The driver lends it memory of the host then; or somebody split rows, or took a cache that no kernel is made for.
"""

from collections.abc import Sequence

import msgspec

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.think.adapt.vram import own_lent_bytes
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport

_FAR_BELOW = 0.7
"""Of the low end of a prediction: so slow a server suffers from more than its settings."""
_SURELY_LACKING = 256 * MIB
"""Less may be an error in what is counted as its own."""
_WORTH_A_CHANGE = 1.05
UNPRICED = "what a setting of now costs is not predicted: gains are against the measured speed"
_WITH_KERNELS = ("f16", "bf16", "f32", "q8_0", "q4_0")
"""Types of cache that every build computes on the GPU."""
_SLOWER = "times slower"
"""In costs that are held against the prediction for what runs, which does not count then."""
LENT = "it takes more than the GPU has: the driver keeps some of it in the host's memory, so its speed is as measured"


def is_far_below(current: OptionShown) -> bool:
    """Whether it was measured far slower than its settings explain."""
    measured, speed = current.measured_tokens_per_s, current.speed
    return bool(measured and speed and measured < _FAR_BELOW * speed.decode_tokens_per_s.low)


def overflows(case: Case, current: OptionShown) -> bool:
    """Whether part of what it put on GPUs lies elsewhere: by what it lacks and how slow it is, or by the driver."""
    lacking = sum(device.lacking_bytes for device in current.devices) > _SURELY_LACKING
    lent = own_lent_bytes(case)
    return (lacking and lent >= GIB) or (is_far_below(current) and (lacking or lent > _SURELY_LACKING))


def has_unpriced(case: Case, current: OptionShown, changes: Sequence[ChangeShown]) -> bool:
    """Whether it is far slower than predicted, and the plan takes away a setting that the prediction does not know."""
    was = {change.knob: change.was for change in changes if change.was is not None}
    cache = {was.get(Knob.KV_CACHE_TYPE), was.get(Knob.VALUE_CACHE_TYPE)} - {None, *_WITH_KERNELS}
    fast = case.machine.cpu.performance_cores.value_or(0)
    crowd = 0 < fast < int(was.get(Knob.THREADS) or 0)
    turned = was.get(Knob.SPLIT_MODE) == "row" or was.get(Knob.FLASH_ATTENTION) is False or Knob.TENSOR_OVERRIDE in was
    return is_far_below(current) and (turned or crowd or bool(cache))


def by_measurement(report: PlanReport, current: OptionShown, note: str = LENT) -> PlanReport:
    """The report with gains against the measured speed; none where nobody measured."""
    measured = current.measured_tokens_per_s
    options = tuple(
        msgspec.structs.replace(o, speedup=_gain(o, measured), costs=tuple(c for c in o.costs if _SLOWER not in c))
        for o in report.options
    )
    best = options[report.recommended] if report.recommended is not None else None
    better = best is not None and (best.speedup is None or best.speedup >= _WORTH_A_CHANGE)
    return msgspec.structs.replace(
        report,
        current=msgspec.structs.replace(current, speed=None),
        options=options,
        verdict="better" if better else report.verdict,
        notes=(*report.notes, note),
    )


def _gain(option: OptionShown, measured: float | None) -> float | None:
    return option.speed.decode_tokens_per_s.mid / measured if option.speed and measured else None
