"""The CPU computes tokens at a fraction of its clock.

## Why it is slow
The CPU computes in proportion to its clock, and far below its maximum it reads memory more slowly too. A power-saving
governor, a laptop on battery, a package that is too hot, or firmware that holds the CPU at its lowest step keeps the
clock down.

## How to confirm
During decode, with most of the model on the CPU, `grep MHz /proc/cpuinfo` (or Task Manager, or `sudo powermetrics
--samplers cpu_power`) shows the busy cores far below the maximum.

## What it is not
The clock of an idle core, which says nothing, or that of a virtual machine, which is not its own. Where the GPU
computes everything, the CPU's clock hardly matters; where memory bandwidth is saturated, a higher clock gains little.

## How to fix
On any runtime: set the governor to performance (`sudo cpupower frequency-set -g performance`; Windows: `powercfg
/setactive SCHEME_MIN`), lift a limit that a power tool such as TLP has set (`sudo cpupower frequency-set -u 5GHz`),
plug the laptop in, clean the fans, give a board a heat sink and a strong enough power supply. If a CPU stays at its
lowest step under load, check its firmware settings (BD PROCHOT) and its power adapter.

## Safety
Answers do not change. The machine gets warmer and louder.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known, Origin
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import is_clear, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Evidence

LOW = 0.6  # Of the highest: with all cores busy a sound CPU holds two thirds of its boost and more
LOW_WITHOUT_BOOST = 0.85  # The same of an ARM CPU with cores of one kind: all of them hold its highest clock
HOT_C = 90  # Laptop and desktop CPUs throttle between 90 and 105 °C
HOT_BOARD_C = 79
"""Boards with an ARM CPU throttle from 80 °C on (a Raspberry Pi: 80 and 85), and read a little less by then."""
SET = 0.9  # Of the highest clock: a limit below it holds the CPU down
SAVING_GOVERNORS = ("powersave", "conservative", "userspace")
"""Governors that may hold a busy CPU down; the others raise its clock under load."""
BUSY_SHARE = 0.5  # Of the cores: with fewer busy, the clock that was read is an idle one
ALL_BUSY = 0.9  # Of the cores: with this many busy, the core whose clock was read was busy too
ASK = "while it generates: {cpu_clock}"
OWN_CLOCK, ANY_CLOCK = "own_clock_hz", "cpu_clock_hz"
"""Of a fast core that the runtime may use, and of the first core, whoever uses it."""
PERFORMANCE = Knob.POWER.to("performance", "a performance governor or power profile, mains power, cooling")
_CPU_WORDS = re.compile(r"(?i)governor|cpu (?:freq|clock|boost|power)|turbo boost|prochot|powersave")
_FREQUENCY = re.compile(r"\d\s?[mg]hz", re.IGNORECASE)


def all_on_gpu(case: CaseView) -> Absent | None:
    """The CPU's clock matters only where the CPU computes a part of the model."""
    return Absent("all layers are on the GPU") if case.placement.cpu_computes is False else None


def other_clocks_were_faster(case: CaseView) -> Found | Suspected | None:
    """A user tried other clocks or more power, and it was faster, with layers on the CPU."""
    trial = case.narrative.experiment_on(Topic.CLOCKS, metrics=("decode", "prefill"))
    if trial is None or not is_clear(trial):
        return None
    if not case.placement.cpu_computes and not _CPU_WORDS.search(trial.text):
        return Suspected(trial.text, "whether the CPU computes, and its clock", ASK)
    because = f"with other clocks it is {times_as_fast(trial)}"
    return finding(case, because, fixes=[Remedy(PERFORMANCE, Cure())], trial=trial)


def clock_seen_by_person(case: CaseView) -> Found | Suspected | None:
    """A user saw a low clock, with its figure, during decode or prefill."""
    said = case.narrative.remarks_on(Topic.CPU_CLOCK_LOW)
    if not said:
        return None
    if not _FREQUENCY.search(said[0].text) or not case.narrative.blames("decode", "prefill"):
        return Suspected(said[0].text, "the CPU's clock while it generates", ASK)
    because = f"the CPU is held at low clocks: {said[0].text}"
    return finding(case, because, said[0], cure=Cure(), fixes=[PERFORMANCE])


def sampled_clock(case: CaseView) -> Found | Absent | Suspected | None:
    """The mean clock of a core, sampled during decode while most cores were busy, against the highest clock."""
    own, busy = case.telemetry.host_figure(OWN_CLOCK), case.telemetry.host_figure("busy_cpus")
    clock = own or case.telemetry.host_figure(ANY_CLOCK)
    cores, most = case.machine.cpu.physical_cores.get(), case.machine.cpu.frequency_max_hz.get()
    if not clock or not busy or not cores or not most or busy.mean < BUSY_SHARE * cores:
        return None
    figures = f"{clock.mean / 1e9:.1f} of {most / 1e9:.1f} GHz"
    low_hz = _low_share(case) * most
    if clock.mean >= low_hz:
        return Absent(f"the CPU ran at {figures} under load")
    # The first core may be idle: it is a slow one of two kinds, or the runtime is bound to others
    works_elsewhere = bool(case.machine.cpu.efficiency_cores.get()) or case.host.is_confined
    may_be_idle = clock.high >= low_hz or (own is None and works_elsewhere)
    if may_be_idle and busy.mean < ALL_BUSY * cores and case.speed.is_slow is not False:
        words = f"a core ran at {figures}, but may have been idle at times"
        return Suspected(words, "the CPU's clock while it generates", ASK)
    return _judge_low_clock(case, figures, case.telemetry.cite(OWN_CLOCK if own else ANY_CLOCK, figures))


def single_reading(case: CaseView) -> Found | Absent | Suspected:
    """One reading of the clock against the highest; it decides only while most cores are busy."""
    now, most = case.need("machine.cpu.frequency_hz"), case.need("machine.cpu.frequency_max_hz")
    figures = f"{now / 1e9:.1f} of {most / 1e9:.1f} GHz"
    if now >= _low_share(case) * most:
        return Absent(f"the CPU runs at {figures}")
    if case.speed.is_slow is False:
        return Absent("decode is as fast as expected with these settings")
    busy, cores = case.machine.load.busy_cpus.get(), case.machine.cpu.physical_cores.get()
    clock = case.machine.cpu.frequency_hz
    is_nominal = isinstance(clock, Known) and clock.origin is Origin.ESTIMATED  # what a virtual machine was told
    if not cores or busy is None or busy < BUSY_SHARE * cores or is_nominal:
        return Suspected(f"one reading of the CPU's clock: {figures}", "its clock while it generates", ASK)
    return _judge_low_clock(case, figures, case.cite("machine.cpu.frequency_hz", figures))


def _judge_low_clock(case: CaseView, figures: str, evidence: Evidence) -> Found | Absent:
    """A low clock under load is the cause where the CPU has most of the work and is slow at it."""
    if case.speed.cpu_dominates is False:
        return Absent("the CPU takes less of a token's time than the GPU")
    if not case.speed.need_slowness():
        return Absent("decode is as fast as expected with these settings")
    cpu, most = case.machine.cpu, case.machine.cpu.frequency_max_hz.need()
    governor, limit_hz, heat_c = cpu.governor.get(), cpu.frequency_limit_hz.get(), cpu.temperature_c.get()
    reasons = dict[str, str]()
    if limit_hz is not None and limit_hz < SET * most:
        reasons["machine.cpu.frequency_limit_hz"] = f"a setting limits it to {limit_hz / 1e9:.1f} GHz"
    if heat_c is not None and heat_c >= (HOT_BOARD_C if case.host.is_arm else HOT_C):
        reasons["machine.cpu.temperature_c"] = f"{heat_c:.0f} °C"
    if case.machine.system.on_battery.get():
        reasons["machine.system.on_battery"] = "on battery"
    change = PERFORMANCE
    if "machine.cpu.frequency_limit_hz" in reasons:
        change = Knob.POWER.to(f"-u {most / 1e6:.0f}MHz", "lift the limit, which a power tool such as TLP sets")
    elif "machine.cpu.temperature_c" in reasons:
        change = Knob.POWER.to(None, "cooling: a fan or heat sink, less dust, room for air")
    elif governor and not any(word in governor for word in SAVING_GOVERNORS):
        change = Knob.POWER.to(
            None, f"check power supply, cooling and firmware: governor {governor} asks for full speed"
        )
    words = [*([f"governor {governor}"] if governor is not None else ()), *reasons.values()]
    because = f"the CPU runs at {figures} under load" + (f" ({', '.join(words)})" if words else "")
    return finding(case, because, evidence, *reasons, cure=Cure(), fixes=[change])


def _low_share(case: CaseView) -> float:
    """The share of its highest clock below which a CPU is held down."""
    one_kind = case.machine.cpu.efficiency_cores.get() == 0
    return LOW_WITHOUT_BOOST if one_kind and case.host.is_arm and not case.gpus.is_apple else LOW


CAUSE = Cause(
    title="The CPU is held at low clocks",
    phase="decode",
    needs=all_of("machine.cpu.frequency_hz or run.telemetry or account.remarks or account.comparisons"),
    routes=(
        Route("counted", all_on_gpu),
        Route("told", other_clocks_were_faster),
        Route("told", clock_seen_by_person),
        Route("measured", sampled_clock),
        Route("measured", single_reading),
    ),
    ask=ASK,
)
