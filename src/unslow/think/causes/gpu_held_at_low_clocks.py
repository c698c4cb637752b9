"""The GPU works all the time, neither hot nor at its power limit, and stays at low clocks all the same.

## Why it is slow
A driver, a power profile or a locked clock keeps the GPU in a low performance state under load. Memory that is clocked
at an idle state reads a tenth of what it could.

## How to confirm
While tokens are generated the GPU is busy, its clocks (or its memory's) are less than half of the maximum, or its
state is P5 or lower, and power and temperature are low.

## What it is not
A GPU that is **not** busy: low clocks are what a GPU that waits for work does, so look for what it waits for. Nor one
that is hot or at its power limit: those have causes of their own.

## How to fix
On any runtime. NVIDIA: take locked clocks back (`sudo nvidia-smi -rgc` and `-rmc`). AMD: `sudo rocm-smi --setperflevel
auto`. Set the power profile of the system to performance, restart the driver or the machine; after sleep or
hibernation drivers are known to stay in a low state.

## Safety
Answers do not change.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import POWER, THERMAL, LoadedGpu
from unslow.think.case.narrative import blames, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import figure_of
from unslow.think.causes._facts import GPU_STATE, ask_gpu_state, at_work, cite, cite_known, cite_remarks, must_be_slow

AT_WORK = 0.7  # Of the time: one that works less may lower its clocks by itself
LOW = 0.5  # Of the highest clock: boost comes and goes, half of it does not
MUCH_POWER = 0.8  # Of the limit: then it is power that holds it down
HOT_C = 75  # Where the driver tells no limit: cards slow down from 80 °C on
MARGIN_C = 5  # Below the limit: drivers lower the clocks before it is reached
_HELD = re.compile(r"(?i)100 ?%|\b(?:falls?|fell|drops?|dropped|stuck|locked|pinned|held|capped|under load|p[5-8])\b")
"""Clocks that are low under load, or that sink: those of a GPU without work are low as well."""
_FREE = "take locked clocks back, set the power profile to performance, or restart the driver"
_LOW_STATES = tuple(f"P{n}" for n in range(5, 13))


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a GPU at work whose clocks are low without a reason."""
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    return first_to_decide(case, _by_readings, _by_words)


def _by_words(case: Case) -> Found | Suspected | None:
    """Clocks that fall or stay low, where nobody says that the GPU is idle or hot: idle ones are low as well."""
    said = remarks_on(case, Topic.GPU_CLOCK_LOW)
    elsewhere = remarks_on(case, Topic.GPU_IDLE, Topic.GPU_UNUSED, Topic.THROTTLED, Topic.POWER_LIMITED)
    changed = any({Topic.VERSION, Topic.DRIVER} & set(c.differs) for c in case.account.comparisons.value_or(()))
    held = [r for r in said if _HELD.search(r.text)]
    if held and not elsewhere and not changed and not cpu_computes(case) and blames(case, "decode"):
        change = Knob.CLOCKS.to(None, _FREE)
        return Found(
            f"the GPU's clocks stay low: {held[0].text}", cite_remarks(case, held[:1]), remedies=(Remedy(change),)
        )
    return Suspected(said[0].text, "how busy the GPU is at these clocks", GPU_STATE) if said else None


def _by_readings(case: Case) -> Found | Absent:
    loaded = at_work(case)
    if not loaded:
        return Absent("the GPU was idle while tokens were generated")
    ask_gpu_state(case, *(f"{gpu.at}.busy" for gpu in loaded))
    working = [g for g in loaded if g.busy.value_or(0) >= AT_WORK]
    if not working:
        return Absent(f"the GPU is busy {loaded[0].busy.value_or(0):.0%} of the time: it waits for something else")
    gpu = next((g for g in working if _low(case, g)), None)
    if gpu is None:
        ask_gpu_state(case, f"{working[0].at}.clock_hz", f"{working[0].place}.clock_max_hz")
        return Absent(f"clocks at {working[0].clock_share or 1:.0%} of their maximum under load")
    if gpu.power_share is None or not isinstance(
        gpu.temperature_c, Known
    ):  # drivers that name no reasons still tell power and temperature
        ask_gpu_state(case, f"{gpu.at}.event_reasons")
    # Near the temperature at which it slows down, where the driver tells that one, else just hot
    slows_at_c = gpu.gpu.temperature_slowdown_c.value_or(HOT_C + MARGIN_C)
    is_hot = isinstance(gpu.temperature_c, Known) and gpu.temperature_c.value > slows_at_c - MARGIN_C
    if set(gpu.reasons.value_or([])) & (POWER | THERMAL) or (gpu.power_share or 0) > MUCH_POWER or is_hot:
        return Absent("heat or power holds the clocks down")
    if gpu.power_share is None and not isinstance(gpu.temperature_c, Known):
        power = f"{gpu.at}.power_w" if gpu.at == gpu.place else f"{gpu.at}.power_max_w"
        ask_gpu_state(case, power, f"{gpu.place}.power_limit_w")
    if not must_be_slow(case):
        return Absent("it is as fast as this set-up should be")
    busy = f"the GPU is busy {gpu.busy.value_or(0):.0%} of the time"
    clocks = (f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz", f"{gpu.place}.performance_state")
    return Found(
        because=f"{busy} at {_low(case, gpu)}, with power and heat to spare",
        evidence=(cite(case, f"{gpu.at}.busy"), *cite_known(case, *clocks)),
        cure=Cure(),
        remedies=(Remedy(Knob.CLOCKS.to(None, _FREE), Cure()),),
    )


def _low(case: Case, gpu: LoadedGpu) -> str:
    """Which reading is low, in words; empty where none is."""
    share, state = gpu.clock_share, gpu.gpu.performance_state.value_or("")
    if share is not None and share < LOW:
        return f"{share:.0%} of its clocks"
    most, sampled = gpu.gpu.memory_clock_max_hz.value_or(0), figure_of(case, gpu.gpu.index, "memory_clock_hz")
    under_load = sampled.mean if sampled else None
    memory = gpu.gpu.memory_clock_hz.value_or(None) if gpu.at == gpu.place else under_load
    if most and memory is not None and memory < LOW * most:
        return f"{memory / most:.0%} of its memory's clocks"
    return f"performance state {state}" if gpu.at == gpu.place and state in _LOW_STATES else ""


CAUSE = Cause(
    title="The GPU is held at low clocks",
    phase="decode",
    needs=(("run.gpus", "machine.gpus", "account.remarks"),),
    check=check,
    gpu_only=True,
    ask=GPU_STATE,
)
