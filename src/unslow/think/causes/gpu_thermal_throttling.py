"""The GPU lowers its clocks because it is too hot.

## Why it is slow
Above its limit the chip, or its memory, protects itself: the driver or the hardware lowers the clocks until the
temperature holds. The speed starts well and falls over minutes, with the clocks.

## How to confirm
During decode, `nvidia-smi -q -d PERFORMANCE` shows "SW Thermal Slowdown" or "HW Thermal Slowdown" as active, the clocks
are well below their maximum, and speed and clocks fall together in a long answer. The plain table shows it too: 91 °C
at 118 of 350 W and 99 % busy is a card that can't cool even a third of its power. AMD: `rocm-smi --showclocks
--showtemp`. Apple: `sudo powermetrics --samplers gpu_power,thermal`.

Guides say that GPUs throttle above 83 °C, but every model has a limit of its own: the driver's reason decides.

## What it is not
A high temperature alone, which proves nothing (83 °C at 340 of 350 W is a card under full load), or low clocks on a GPU
that waits for work: those are a consequence.

## How to fix
On any runtime: clean fans and filters, improve the airflow, lower the power limit (`sudo nvidia-smi -pl W`, `sudo
rocm-smi --setpoweroverdrive W`) or undervolt the card: a steady lower power is faster than throttling. If its memory is
too hot, replace the thermal pads. A Mac: keep the vents free and the lid open.

## Safety
Answers do not change. The next restart resets a lower power limit.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.cure import Cure
from unslow.think.case.telemetry import GPU_STATE, HOT_C, THERMAL, LoadedGpu, explains, is_held_back_by_heat, is_starved
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, fast_enough, finding
from unslow.think.report import Evidence

LOW = 0.9  # Of the clock or the speed before it got hot: a smaller fall is noise
WARM_C = 80  # From here on a hardware slowdown, which does not name its reason, is one of heat
SERIOUS_PRESSURE = ("Heavy", "Trapping", "Sleeping")
_READ_OUT = re.compile(r"(?i)thermal[ _]slowdown\W{0,4}(?:active|yes|true|1\b)")
_CLOCK = re.compile(
    r"(?i)\d{3,4} ?mhz|\d ?w\b|\b(?:drops?|falls?|fell|sinks?|reduced|clocks? down)\b|pressure"
    r"|after (?:a )?(?:few|some|several|\d+) (?:minutes|runs|seconds)"
)
_HOT = re.compile(r"(?i)\b(?:8[3-9]|9\d|10\d) ?(?:°|deg|c\b)")
"""Clocks or a temperature in figures beside the word: a user read them off."""


def thermal_pressure(case: CaseView) -> Found | None:
    """The thermal pressure that macOS reports for the whole chip."""
    pressure = case.machine.cpu.thermal_pressure.get()
    if pressure not in SERIOUS_PRESSURE or not case.speed.is_slow:
        return None
    return _overheating(case, f"macOS reports thermal pressure: {pressure}", case.cite("machine.cpu.thermal_pressure"))


def thermal_reasons(case: CaseView) -> Found | Absent:
    """The driver's reasons for the clocks, the clocks against their maximum, and the speed, during decode."""
    loaded = case.telemetry.gpus_at_work
    if not loaded:
        return Absent("the GPU was idle during decode")
    case.telemetry.need_gpu_state(*(f"{gpu.at}.event_reasons" for gpu in loaded))
    hot = [
        gpu
        for gpu in loaded
        if gpu.reason_names & THERMAL
        or ("hw_slowdown" in gpu.reason_names and (gpu.temperature_c.get() or 0.0) >= WARM_C)
    ]
    if not hot:
        heat_c = loaded[0].temperature_c.get()
        degrees = f"{heat_c:.0f} °C, " if heat_c is not None else ""
        return Absent(f"{degrees}no thermal reason is set under load")
    if is_starved(hot[0]) or case.speed.cpu_dominates:
        return Absent("the GPU waits for something else most of the time: its low clocks are a consequence")
    gpu = min(hot, key=lambda gpu: gpu.clock_share or 1.0)
    case.telemetry.need_gpu_state(f"{gpu.at}.clock_hz", f"{gpu.place}.clock_max_hz")
    share = gpu.clock_share or 1.0
    if share > LOW:
        return Absent(f"a thermal reason is set, but the clocks are at {share:.0%} of their maximum")
    if not (case.narrative.is_report or case.speed.need_slowness()) or not explains(share, case.speed.shortfall):
        return Absent(f"clocks at {share:.0%} of their maximum do not explain the speed")
    evidence = [case.cite(f"{gpu.at}.event_reasons"), case.cite(f"{gpu.at}.clock_hz", f"{share:.0%} of the maximum")]
    clock, decay, fell = case.telemetry.figure_of_gpu(gpu.gpu.index, "clock_hz"), case.run.decode_decay.get(), ""
    if clock is not None and clock.last <= LOW * clock.high:
        last, before = f"{clock.last / 1e6:.0f} MHz at the end", f"{clock.high / 1e6:.0f} MHz before"
        evidence.append(case.telemetry.cite("clock_hz", last, before))
        fell = ", and they fell during the measurement"
        if decay is not None and decay <= LOW:
            evidence.append(case.cite("run.decode_decay"))
            fell = ", and the speed falls with them"
    which, others = _which(case, gpu)
    return _overheating(case, f"heat throttles {which} to {share:.0%} of its clocks{fell}{others}", *evidence)


def heat_without_power(case: CaseView) -> Found | None:
    """A temperature above the target while the GPU is fully busy far below its power limit."""
    hot = [gpu for gpu in case.telemetry.loaded_gpus if is_held_back_by_heat(gpu)]
    if not hot or case.speed.cpu_dominates:
        return None
    gpu = max(hot, key=lambda one: one.temperature_c.need())
    power, limit = gpu.power_w.need(), gpu.gpu.power_limit_w.need()
    which, others = _which(case, gpu)
    return _overheating(
        case,
        f"{which} draws only {power:.0f} of {limit:.0f} W while fully busy: heat holds it back{others}",
        case.cite(f"{gpu.at}.temperature{'' if gpu.at == gpu.place else '_max'}_c", f"below {HOT_C} °C"),
        case.cite(gpu.power_path, f"{limit:.0f} W"),
    )


def throttling_seen(case: CaseView) -> Found | Suspected | None:
    """A user read out the driver's thermal reason, clocks or a temperature; an opinion does not decide."""
    said = case.narrative.remarks_on(Topic.THROTTLED)
    if not said:
        return None
    read_out = [r for r in said if _READ_OUT.search(r.text)]
    seen = read_out or [r for r in said if _CLOCK.search(r.text) or _HOT.search(r.text)]
    if seen and case.narrative.blames("decode", "prefill") and not case.placement.cpu_computes:
        return _overheating(case, f"heat throttles the GPU: {seen[0].text}", *case.narrative.cite_remarks(seen))
    return Suspected(said[0].text, "the driver's reasons for the clocks under load", GPU_STATE)


def _which(case: CaseView, gpu: LoadedGpu) -> tuple[str, str]:
    """What to call a GPU, with its temperature, and what the others do meanwhile, where several compute."""
    heat_c, several = gpu.temperature_c.get(), len(case.gpus.in_use) > 1
    named = (f"GPU {gpu.gpu.index}" if several else "the GPU") + (f" ({heat_c:.0f} °C)" if heat_c is not None else "")
    return named, ", and the others wait for it" if several and case.gpus.split_tensors else ""


def _overheating(case: CaseView, because: str, *evidence: Evidence) -> Found:
    why = "more air, or a lower power limit that it can hold"
    if case.system.family == "macOS":  # it has no power limit to set
        why = "more air: free vents, an open lid, a cooler place"
    return finding(case, because, *evidence, cure=Cure(), fixes=[Knob.POWER.to(None, why)])


CAUSE = Cause(
    title="The GPU is throttled by heat",
    phase="decode",
    needs=all_of("run.gpus or machine.gpus or account.remarks or machine.cpu.thermal_pressure"),
    routes=(
        Route("measured", fast_enough),
        Route("measured", thermal_pressure),
        Route("measured", thermal_reasons),
        Route("measured", heat_without_power),
        Route("told", throttling_seen),
    ),
    gpu_only=True,
    ask=GPU_STATE,
)
