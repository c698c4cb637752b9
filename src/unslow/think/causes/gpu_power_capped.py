"""The GPU may not draw the power that its clocks need, and decode is slower for it.

## Why it is slow
The driver holds the GPU under its power limit by lowering the clocks. A limit that was set low, a laptop on battery,
or a power supply that can't deliver leaves the clocks too low even to read memory at full speed.

## How to confirm
All four at once, during decode: "SW Power Cap" or "HW Power Brake" is active, the power is at its limit, the clocks are
well below their maximum, **and** the speed is below what this hardware should reach: `nvidia-smi -q -d
PERFORMANCE,POWER,CLOCK` (AMD: `rocm-smi --showpower --showmaxpower --showclocks`).

Guides say that a GPU at its power limit is throttled, but a power cap at full speed is normal: any well used GPU runs
into its limit, and decode waits for memory, not for clocks.

## What it is not
A power cap at full speed, or during prefill, which needs all the power there is.

## How to fix
On any runtime: raise the limit (`sudo nvidia-smi -pl W`, `sudo rocm-smi --setpoweroverdrive W`), plug the laptop in
and choose its performance profile, or use a separate cable from the power supply for each connector.

## Safety
Answers do not change. More power is more heat; stay within the default limit of the card.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import is_clear, times_as_fast
from unslow.think.case.telemetry import GPU_STATE, POWER, explains, is_starved
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, fast_enough, finding

LOW_CLOCK = 0.85  # Of the highest clock: a cap that leaves more costs next to nothing
AT_LIMIT = 0.93  # Of the limit: samples of the power are a little below it
RAISE = "raise the power limit; a laptop: plug it in"
RAISED = Remedy(Knob.POWER.to(None, RAISE), None, "heat")
_POWER_WORDS = re.compile(r"(?i)\b\d+ ?w\b|watt|power|battery|plugged|mains")
_LAPTOP_NAME = re.compile(r"\b(?:laptop|mobile|max-q)\b|\b\d{3,4}M\b", re.IGNORECASE)


def more_power_was_faster(case: CaseView) -> Found | None:
    """A user tried more power, and it was faster."""
    trial = case.narrative.experiment_on(Topic.CLOCKS, metrics=("decode", "prefill"))
    if trial is None or not is_clear(trial) or not _POWER_WORDS.search(trial.text) or not case.gpus.usable:
        return None
    return finding(case, f"with more power it is {times_as_fast(trial)}", fixes=[RAISED], trial=trial)


def power_under_load(case: CaseView) -> Found | Absent:
    """The driver's reasons for the clocks, the clocks, the power against its limit, and the speed, during decode."""
    loaded = case.telemetry.gpus_at_work
    if not loaded:
        return Absent("the GPU was idle during decode")
    case.telemetry.need_gpu_state(*(f"{gpu.at}.event_reasons" for gpu in loaded))
    gpu = next((gpu for gpu in loaded if POWER & gpu.reason_names), None)
    if gpu is None:
        return Absent("no power reason is set under load")
    case.telemetry.need_gpu_state(f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz")
    clock = gpu.clock_share or 1.0
    if clock > LOW_CLOCK:
        return Absent(f"at its power limit the clocks are still {clock:.0%} of their maximum")
    if is_starved(gpu) or case.speed.cpu_dominates:
        return Absent("the GPU waits for something else most of the time: its low clocks are a consequence")
    if "hw_power_brake_slowdown" not in gpu.reason_names:  # a brake from outside cuts the power below its limit
        case.telemetry.need_gpu_state(gpu.power_path, f"{gpu.place}.power_limit_w")
        if gpu.power_share is not None and gpu.power_share < AT_LIMIT:
            return Absent(f"it draws {gpu.power_share:.0%} of its power limit")
    if not case.speed.need_slowness() or not explains(clock, case.speed.shortfall):
        return Absent(f"clocks at {clock:.0%} of their maximum do not explain the speed")
    limit, usual = gpu.gpu.power_limit_w.get(), gpu.gpu.power_limit_default_w.get()
    default = f", {usual:.0f} W by default" if limit and usual and usual > limit else ""
    watts = f" ({limit:.0f} W{default})" if limit else ""
    # The default limit where a lower one is set; the firmware sets that of a laptop, by battery or mains
    change = Knob.POWER.to(usual if usual and (limit is None or usual > limit) else None, RAISE)
    if _LAPTOP_NAME.search(gpu.gpu.name.get() or ""):
        change = Knob.POWER.to(None, "plug the laptop in, and choose its performance profile")
    return finding(
        case,
        f"the power limit{watts} holds the clocks at {clock:.0%} of their maximum",
        f"{gpu.at}.event_reasons",
        case.cite(f"{gpu.at}.clock_hz", f"{clock:.0%} of the maximum"),
        case.cite_known(gpu.power_path, reference=f"{limit:.0f} W allowed" if limit else None),
        cure=Cure(),
        fixes=[Remedy(change, Cure(), "heat")],
    )


def power_limit_seen(case: CaseView) -> Found | Suspected | None:
    """A user read out the driver's power reason, or runs on battery."""
    said = case.narrative.remarks_on(Topic.POWER_LIMITED)
    if not said:
        return None
    if not case.gpus.usable or case.placement.cpu_computes or not case.narrative.blames("decode", "prefill"):
        return Suspected(said[0].text, "the driver's reasons for the clocks under load", GPU_STATE)
    return finding(case, f"power holds the GPU back: {said[0].text}", said[0], fixes=[RAISED])


CAUSE = Cause(
    title="The power limit holds the GPU back",
    phase="decode",
    needs=all_of("run.gpus or machine.gpus or account.comparisons or account.remarks"),
    routes=(
        Route("told", more_power_was_faster),
        Route("measured", fast_enough),
        Route("measured", power_under_load),
        Route("told", power_limit_seen),
    ),
    gpu_only=True,
    ask=GPU_STATE,
)
