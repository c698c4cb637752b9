"""The GPU lowers its clocks because it is too hot.

## Why it is slow
Above its limit the chip, or its memory, protects itself: the driver or the hardware takes the clocks down until the
temperature holds. Speed starts well and falls over minutes, with the clocks.

## How to confirm
While tokens are generated, `nvidia-smi -q -d PERFORMANCE` shows "SW Thermal Slowdown" or "HW Thermal Slowdown" as
active, the clocks lie well under their maximum, and speed and clocks fall together in a long answer. The plain table
shows it too: 91 °C at 118 of 350 W and 99 % busy is a card that can't cool even a third of its power. AMD: `rocm-smi
--showclocks --showtemp`. Apple: `sudo powermetrics --samplers gpu_power,thermal`.

Guides say that GPUs throttle above 83 °C, but every model has a limit of its own: the driver's reason decides.

## What it is not
A high temperature alone, which proves nothing (83 °C at 340 of 350 W is a card at full work), or low clocks on a GPU
that waits for work: those are a consequence.

## How to fix
On any runtime: clean fans and filters, give the card air, lower its power limit (`sudo nvidia-smi -pl W`, `sudo
rocm-smi --setpoweroverdrive W`) or undervolt it: a steady lower power is faster than throttling. On memory that is too
hot, new thermal pads. A Mac: free vents, and no closed lid.

## Safety
Answers do not change. A lower power limit is taken back by the next restart.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.bandwidth import splits_tensors
from unslow.think.case.gpus import HOT_C, THERMAL, LoadedGpu, explains, is_held_back_by_heat, loaded_gpus, starved
from unslow.think.case.instructions import system_of
from unslow.think.case.narrative import blames, is_report, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly, shortfall
from unslow.think.case.vram import gpus_used
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, cpu_dominates, figure_of
from unslow.think.causes._facts import GPU_STATE, ask_gpu_state, at_work, cite, cite_remarks, must_be_slow

LOW = 0.9  # Of the clock or the speed before it got hot: less of a fall is noise
WARM_C = 80  # A slowdown of the hardware, which does not name its reason, is one of heat from here on
_READ_OUT = re.compile(r"(?i)thermal[ _]slowdown\W{0,4}(?:active|yes|true|1\b)")
_CLOCK = re.compile(
    r"(?i)\d{3,4} ?mhz|\d ?w\b|\b(?:drops?|falls?|fell|sinks?|reduced|clocks? down)\b|pressure"
    r"|after (?:a )?(?:few|some|several|\d+) (?:minutes|runs|seconds)"
)
_HOT = re.compile(r"(?i)\b(?:8[3-9]|9\d|10\d) ?(?:°|deg|c\b)")
"""Clocks or a temperature in figures beside the word: somebody who read them off."""
_ANYWHERE = "more air, or a lower power limit that it can hold"
_ON_A_MAC = "more air: free vents, an open lid, a cooler place"  # it has no power limit to set
_SERIOUS = ("Heavy", "Trapping", "Sleeping")


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a thermal reason under load, clocks that follow it, and a speed that suffers."""
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    return first_to_decide(case, _by_pressure, _by_reasons, _by_power, _by_words)


def _by_pressure(case: Case) -> Found | None:
    """What macOS says of the whole chip."""
    pressure = case.machine.cpu.thermal_pressure.value_or("")
    if pressure not in _SERIOUS or not generates_slowly(case):
        return None
    return _found(case, f"macOS reports thermal pressure: {pressure}", (cite(case, "machine.cpu.thermal_pressure"),))


def _by_reasons(case: Case) -> Found | Absent:
    loaded = at_work(case)
    if not loaded:
        return Absent("the GPU was idle while tokens were generated")
    ask_gpu_state(case, *(f"{gpu.at}.event_reasons" for gpu in loaded))
    named = [(gpu, set(gpu.reasons.value_or([]))) for gpu in loaded]
    warm = [gpu for gpu, names in named if "hw_slowdown" in names and gpu.temperature_c.value_or(0) >= WARM_C]
    hot = [gpu for gpu, names in named if names & THERMAL or gpu in warm]
    if not hot:
        heat = loaded[0].temperature_c
        degrees = f"{heat.value:.0f} °C, " if isinstance(heat, Known) else ""
        return Absent(f"{degrees}no thermal reason is set under load")
    if starved(hot[0]) or cpu_dominates(case):
        return Absent("the GPU waits for something else most of the time: its clocks are a consequence")
    gpu = min(hot, key=lambda gpu: gpu.clock_share or 1.0)
    ask_gpu_state(case, f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz")
    share = gpu.clock_share or 1.0
    if share > LOW:
        return Absent(f"a thermal reason is set, and the clocks are at {share:.0%} of their maximum")
    if not (is_report(case) or must_be_slow(case)) or not explains(share, shortfall(case)):
        return Absent(f"clocks at {share:.0%} of their maximum do not explain the speed")
    evidence = [cite(case, f"{gpu.at}.event_reasons"), cite(case, f"{gpu.at}.clock_hz", f"{share:.0%} of the maximum")]
    clock, fell = figure_of(case, gpu.gpu.index, "clock_hz"), ""
    if clock is not None and clock.last <= LOW * clock.high:
        last, before = f"{clock.last / 1e6:.0f} MHz at last", f"{clock.high / 1e6:.0f} MHz before"
        evidence.append(cite_watched(case, "clock_hz", last, before))
        fell = ", and they fell while it was watched"
        if case.run.decode_decay.value_or(1.0) <= LOW:
            evidence.append(cite(case, "run.decode_decay"))
            fell = ", and the speed falls with them"
    which, waits = _which(case, gpu)
    words = f"{_at(gpu)}{which} is throttled by heat to {share:.0%} of its clocks{fell}{waits}"
    return _found(case, words, tuple(evidence))


def _by_power(case: Case) -> Found | None:
    """Where the driver's reasons are not shown: heat beyond the target, at a power that can't be what heats it."""
    hot = [gpu for gpu in loaded_gpus(case) if is_held_back_by_heat(gpu)]
    if not hot or cpu_dominates(case):
        return None
    gpu = max(hot, key=lambda one: one.temperature_c.value_or(0.0))
    power, limit = gpu.power_w.need(), gpu.gpu.power_limit_w.need()
    which, waits = _which(case, gpu)
    words = f"{_at(gpu)}{which} takes only {power:.0f} of {limit:.0f} W while it is fully busy: heat holds it back"
    at = "temperature_c" if gpu.at == gpu.place else "temperature_max_c"
    watts = "power_w" if gpu.at == gpu.place else "power_max_w"
    evidence = (cite(case, f"{gpu.at}.{at}", f"below {HOT_C} °C"), cite(case, f"{gpu.at}.{watts}", f"{limit:.0f} W"))
    return _found(case, words + waits, evidence)


def _by_words(case: Case) -> Found | Suspected | None:
    """The driver's own words for it, read out by somebody, decide; an opinion does not."""
    said = remarks_on(case, Topic.THROTTLED)
    if not said:
        return None
    read_out = [r for r in said if _READ_OUT.search(r.text)]
    seen = read_out or [r for r in said if _CLOCK.search(r.text) or _HOT.search(r.text)]
    if seen and blames(case, "decode", "prefill") and not cpu_computes(case):
        return _found(case, f"the GPU is throttled by heat: {seen[0].text}", cite_remarks(case, seen))
    return Suspected(said[0].text, "the reasons of the clocks under load", GPU_STATE)


def _which(case: Case, gpu: LoadedGpu) -> tuple[str, str]:
    """What to call it, and what the others do meanwhile, where several compute."""
    if len(gpus_used(case)) < 2:  # noqa: PLR2004 (several)
        return "the GPU", ""
    return f"GPU {gpu.gpu.index}", ", and the others wait for it" if splits_tensors(case) else ""


def _found(case: Case, because: str, evidence: Citations) -> Found:
    change = Knob.POWER.to(None, _ON_A_MAC if system_of(case) == "macOS" else _ANYWHERE)
    return Found(because, evidence, Cure(), (Remedy(change, Cure()),))


def _at(gpu: LoadedGpu) -> str:
    return f"at {gpu.temperature_c.value:.0f} °C " if isinstance(gpu.temperature_c, Known) else ""


CAUSE = Cause(
    title="The GPU is throttled by heat",
    phase="decode",
    needs=(("run.gpus", "machine.gpus", "account.remarks", "machine.cpu.thermal_pressure"),),
    check=check,
    gpu_only=True,
    ask=GPU_STATE,
)
