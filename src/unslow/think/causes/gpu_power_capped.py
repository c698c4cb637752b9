"""The GPU may not draw the power that its clocks would need, and tokens come slower for it.

## Why it is slow
The driver holds the GPU under its power limit by lowering the clocks. A limit that was set low, a laptop on battery,
or a supply that can't deliver leaves clocks too low even for the memory to be read at full speed.

## How to confirm
All four at once, while tokens are generated: "SW Power Cap" or "HW Power Brake" is active, the power is at its limit,
the clocks are well under their maximum, **and** the speed lies below what this hardware should give: `nvidia-smi -q -d
PERFORMANCE,POWER,CLOCK` (AMD: `rocm-smi --showpower --showmaxpower --showclocks`).

Guides say that a GPU at its power limit is throttled, but a power cap at full speed is normal: any well used GPU runs
into its limit, and decoding waits for memory, not for clocks.

## What it is not
A power cap at full speed, or while prompts are read, which need all the power there is.

## How to fix
On any runtime: raise the limit (`sudo nvidia-smi -pl W`, `sudo rocm-smi --setpoweroverdrive W`), plug the laptop in
and choose its performance profile, or use a cable of the supply for each connector.

## Safety
Answers do not change. More power is more heat; stay within the default limit of the card.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.case.gpus import POWER, LoadedGpu, explains, starved
from unslow.think.case.narrative import blames, experiment_on, is_clear, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly, shortfall
from unslow.think.case.vram import gpus_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import cpu_dominates
from unslow.think.causes._facts import (
    GPU_STATE,
    ask_gpu_state,
    at_work,
    cite,
    cite_known,
    cite_remarks,
    found_by_trial,
    must_be_slow,
)

LOW_CLOCK = 0.85  # Of the highest clock: a cap that leaves more than this costs next to nothing
_POWER_WORDS = re.compile(r"(?i)\b\d+ ?w\b|watt|power|battery|plugged|mains")
_OF_A_LAPTOP = re.compile(r"\b(?:laptop|mobile|max-q)\b|\b\d{3,4}M\b", re.IGNORECASE)
_RAISE = "raise the power limit; a laptop: plug it in"
_RAISED = Remedy(Knob.POWER.to(None, _RAISE), None, "heat")
AT_LIMIT = 0.93  # Of the limit: samples of the power lie a little under it


def _by_trial(case: Case) -> Found | None:
    """The same with more power, and faster."""
    tried = experiment_on(case, Topic.CLOCKS, metrics=("decode", "prefill"))
    if tried is None or not is_clear(tried) or not _POWER_WORDS.search(tried.text) or not gpus_of(case):
        return None
    return found_by_trial(case, tried, "with more power it", _RAISED)


def _by_words(case: Case) -> Found | Suspected | None:
    """The driver's own word for it, or a battery, read out by somebody."""
    said = remarks_on(case, Topic.POWER_LIMITED)
    if not said:
        return None
    if not gpus_of(case) or cpu_computes(case) or not blames(case, "decode", "prefill"):
        return Suspected(said[0].text, "the reasons of the clocks under load", GPU_STATE)
    return Found(f"power holds the GPU back: {said[0].text}", cite_remarks(case, said[:1]), None, (_RAISED,))


def _by_readings(case: Case) -> Found | Absent:
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    loaded = at_work(case)
    if not loaded:
        return Absent("the GPU was idle while tokens were generated")
    ask_gpu_state(case, *(f"{gpu.at}.event_reasons" for gpu in loaded))
    capped = [gpu for gpu in loaded if POWER & set(gpu.reasons.value_or([]))]
    if not capped:
        return Absent("no power reason is set under load")
    return _judged(case, capped[0])


def _judged(case: Case, gpu: LoadedGpu) -> Found | Absent:
    ask_gpu_state(case, f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz")
    clock = gpu.clock_share or 1.0
    if clock > LOW_CLOCK:
        return Absent(f"at its power limit the clocks are still {clock:.0%} of their maximum")
    if starved(gpu) or cpu_dominates(case):
        return Absent("the GPU waits for something else most of the time: its clocks are a consequence")
    power = f"{gpu.at}.power_w" if gpu.at == gpu.place else f"{gpu.at}.power_max_w"
    is_cut = "hw_power_brake_slowdown" in gpu.reasons.value_or([])  # from outside: it is low then, not at its limit
    if not is_cut:
        ask_gpu_state(case, power, f"{gpu.place}.power_limit_w")
    if not is_cut and gpu.power_share is not None and gpu.power_share < AT_LIMIT:
        return Absent(f"it draws {gpu.power_share:.0%} of its limit")
    if not must_be_slow(case) or not explains(clock, shortfall(case)):
        return Absent(f"clocks at {clock:.0%} of their maximum do not explain the speed")
    # A higher limit; that of a laptop is set by its firmware, for the battery or the mains
    limit, usual = gpu.gpu.power_limit_w.value_or(0), gpu.gpu.power_limit_default_w.value_or(0)
    change = Knob.POWER.to(usual if usual > limit else None, _RAISE)
    if _OF_A_LAPTOP.search(gpu.gpu.name.value_or("")):
        change = Knob.POWER.to(None, "plug the laptop in, and choose its performance profile")
    allowed = f"{limit:.0f} W allowed" if limit else None
    below = f", {usual:.0f} W by default" if usual > limit else ""
    told = f" ({limit:.0f} W{below})" if limit else ""
    return Found(
        because=f"the power limit{told} holds the clocks at {clock:.0%} of their maximum",
        evidence=(
            cite(case, f"{gpu.at}.event_reasons"),
            cite(case, f"{gpu.at}.clock_hz", f"{clock:.0%} of the maximum"),
            *cite_known(case, power, reference=allowed),
        ),
        cure=Cure(),
        remedies=(Remedy(change, Cure(), "heat"),),
    )


CAUSE = Cause(
    title="The power limit holds the GPU back",
    phase="decode",
    needs=(("run.gpus", "machine.gpus", "account.comparisons", "account.remarks"),),
    check=check_by(_by_trial, _by_readings, _by_words),
    gpu_only=True,
    ask=GPU_STATE,
)
