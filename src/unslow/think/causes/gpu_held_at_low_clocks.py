"""The GPU is busy all the time, neither hot nor at its power limit, and stays at low clocks all the same.

## Why it is slow
A driver, a power profile or a locked clock keeps the GPU in a low performance state under load. Memory that stays at
its idle clock delivers a tenth of its bandwidth.

## How to confirm
During decode the GPU is busy, its clocks (or its memory's) are below half of the maximum, or its state is P5 or lower,
and power and temperature are low.

## What it is not
A GPU that is **not** busy: a GPU that waits for work lowers its clocks, so look for what it waits for. Nor one that is
hot or at its power limit: those are causes of their own.

## How to fix
On any runtime. NVIDIA: reset locked clocks (`sudo nvidia-smi -rgc` and `-rmc`). AMD: `sudo rocm-smi --setperflevel
auto`. Set the system's power profile to performance, restart the driver or the machine; after sleep or hibernation,
drivers are known to stay in a low state.

## Safety
Answers do not change.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.telemetry import GPU_STATE, POWER, THERMAL, USUAL_SLOWDOWN_C, LoadedGpu
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, fast_enough, finding

AT_WORK = 0.7  # Of the time: a GPU that is less busy may lower its clocks on its own
LOW = 0.5  # Of the highest clock: boost comes and goes, half of the clock does not
MUCH_POWER = 0.8  # Of the limit: then power holds the clocks down
MARGIN_C = 5  # Below the limit: drivers lower the clocks before it is reached
HOT_C = USUAL_SLOWDOWN_C - MARGIN_C  # Where the driver gives no limit; the alert uses it
LOW_STATES = tuple(f"P{n}" for n in range(5, 13))
RESET = Knob.CLOCKS.to(None, "reset locked clocks, set the power profile to performance, or restart the driver")
_HELD = re.compile(r"(?i)100 ?%|\b(?:falls?|fell|drops?|dropped|stuck|locked|pinned|held|capped|under load|p[5-8])\b")
"""Clocks that are low under load, or that sink: those of an idle GPU are low as well."""


def clocks_under_load(case: CaseView) -> Found | Absent:
    """How busy the GPU is, its clocks against the highest, its power and its temperature, during decode."""
    loaded = case.telemetry.gpus_at_work
    if not loaded:
        return Absent("the GPU was idle during decode")
    case.telemetry.need_gpu_state(*(f"{gpu.at}.busy" for gpu in loaded))
    working = [gpu for gpu in loaded if gpu.busy.need() >= AT_WORK]
    if not working:
        return Absent(f"the GPU is busy {loaded[0].busy.need():.0%} of the time: it waits for something else")
    gpu = next((gpu for gpu in working if _low_reading(case, gpu)), None)
    if gpu is None:
        case.telemetry.need_gpu_state(f"{working[0].at}.clock_hz", f"{working[0].place}.clock_max_hz")
        return Absent(f"clocks at {working[0].clock_share or 1:.0%} of their maximum under load")
    heat_c = gpu.temperature_c.get()
    if gpu.power_share is None or heat_c is None:  # with both, a driver need not name reasons
        case.telemetry.need_gpu_state(f"{gpu.at}.event_reasons")
    slows_at_c = gpu.gpu.temperature_slowdown_c.get()
    is_hot = heat_c is not None and heat_c > (USUAL_SLOWDOWN_C if slows_at_c is None else slows_at_c) - MARGIN_C
    uses_much_power = gpu.power_share is not None and gpu.power_share > MUCH_POWER
    if gpu.reason_names & (POWER | THERMAL) or uses_much_power or is_hot:
        return Absent("heat or power holds the clocks down")
    if gpu.power_share is None and heat_c is None:
        case.telemetry.need_gpu_state(gpu.power_path, f"{gpu.place}.power_limit_w")
    if not case.speed.need_slowness():
        return Absent("decode is as fast as expected with these settings")
    return finding(
        case,
        f"the GPU is busy {gpu.busy.need():.0%} of the time at {_low_reading(case, gpu)}, far from its power and "
        "temperature limits",
        f"{gpu.at}.busy",
        case.cite_known(f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz", f"{gpu.place}.performance_state"),
        cure=Cure(),
        fixes=[RESET],
    )


def low_clocks_seen(case: CaseView) -> Found | Suspected | None:
    """A user saw clocks that fall or stay low under load, and no sign of an idle, hot or power-limited GPU."""
    said = case.narrative.remarks_on(Topic.GPU_CLOCK_LOW)
    if not said:
        return None
    held = [remark for remark in said if _HELD.search(remark.text)]
    elsewhere = case.narrative.remarks_on(Topic.GPU_IDLE, Topic.GPU_UNUSED, Topic.THROTTLED, Topic.POWER_LIMITED)
    changed = any({Topic.VERSION, Topic.DRIVER} & set(c.differs) for c in case.account.comparisons.get() or ())
    is_blamed = case.narrative.blames("decode") and not case.placement.cpu_computes
    if not held or elsewhere or changed or not is_blamed:
        return Suspected(said[0].text, "how busy the GPU is at these clocks", GPU_STATE)
    return finding(case, f"the GPU's clocks stay low: {held[0].text}", held[0], fixes=[RESET])


def _low_reading(case: CaseView, gpu: LoadedGpu) -> str:
    """Which reading is low, in words; empty where none is."""
    if gpu.clock_share is not None and gpu.clock_share < LOW:
        return f"{gpu.clock_share:.0%} of its clocks"
    is_now = gpu.at == gpu.place
    most, sampled = gpu.gpu.memory_clock_max_hz.get(), case.telemetry.figure_of_gpu(gpu.gpu.index, "memory_clock_hz")
    memory = gpu.gpu.memory_clock_hz.get() if is_now else sampled.mean if sampled else None
    if most and memory is not None and memory < LOW * most:
        return f"{memory / most:.0%} of its memory clock"
    state = gpu.gpu.performance_state
    is_low = is_now and isinstance(state, Known) and state.value in LOW_STATES
    return f"performance state {state.need()}" if is_low else ""


CAUSE = Cause(
    title="The GPU is held at low clocks",
    phase="decode",
    needs=all_of("run.gpus or machine.gpus or account.remarks"),
    routes=(Route("measured", fast_enough), Route("measured", clocks_under_load), Route("told", low_clocks_seen)),
    gpu_only=True,
    ask=GPU_STATE,
)
