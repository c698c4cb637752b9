"""The CPU computes tokens at a fraction of its clock.

## Why it is slow
What the CPU computes goes at its clock, and far below it even memory is read slower. A power-saving governor, a laptop
on battery, a package that is too hot, or firmware that holds the CPU at its lowest step keep it there.

## How to confirm
While tokens are generated with most of the model on the CPU, `grep MHz /proc/cpuinfo` (or Task Manager, or `sudo
powermetrics --samplers cpu_power`) shows the busy cores far under the maximum.

## What it is not
The clock of an idle core, which says nothing, or that of a virtual machine, which is not its own. Where the GPU
computes everything, the CPU's clock hardly matters; and where memory bandwidth is used up, a higher clock gives
little.

## How to fix
On any runtime: set the governor to performance (`sudo cpupower frequency-set -g performance`; Windows: `powercfg
/setactive SCHEME_MIN`), plug the laptop in, clean the fans; a CPU that stays at its lowest step under load needs its
firmware settings (BD PROCHOT) or its power adapter looked at.

## Safety
Answers do not change. The machine gets warmer and louder.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.adapt.account import gain_of, remarks_on, times_as_fast
from unslow.think.adapt.experiments import blames, experiment_on, is_clear
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.adapt.work import Cure
from unslow.think.causes._asking import ask_for, must_be_slow
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.causes._shares import cpu_dominates
from unslow.think.causes._watched import cite_watched, host_figure
from unslow.think.report import Evidence
from unslow.think.slowness import generates_slowly

LOW = 0.6
"""Of the highest: with all cores at work a sound CPU holds two thirds of its boost and more."""
HOT_C = 90
"""Laptop and desktop CPUs begin to slow down between 90 and 105 °C."""
BUSY_SHARE = 0.5
"""Of the cores: a clock that was read while fewer worked is an idle one."""
ALL_BUSY = 0.9
"""Of the cores: with so many at work, the one whose clock is read worked too."""
SHOW = "while it generates: {cpu_clock}"
_OF_CPU = re.compile(r"(?i)governor|cpu (?:freq|clock|boost|power)|turbo boost|prochot|powersave")
_FREQUENCY = re.compile(r"\d\s?[mg]hz", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the clock under load against the highest, where the CPU computes."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU")
    return first_to_decide(case, _by_trial, _by_words, _by_samples, _by_reading)


def _by_samples(case: Case) -> Found | Absent | Suspected | None:
    """The clock of one core while most of them computed: its mean, for any CPU boosts for a moment."""
    clock, busy = host_figure(case, "cpu_clock_hz"), host_figure(case, "busy_cpus")
    cores, most = case.machine.cpu.physical_cores.value_or(0), case.machine.cpu.frequency_max_hz.value_or(0)
    if not clock or not busy or not cores or not most or busy.mean < BUSY_SHARE * cores:
        return None
    figures = f"{clock.mean / 1e9:.1f} of {most / 1e9:.1f} GHz"
    if clock.mean >= LOW * most:
        return Absent(f"the CPU ran at {figures} under load")
    if clock.high >= LOW * most and busy.mean < ALL_BUSY * cores and generates_slowly(case) is not False:
        words = f"a core ran at {figures}, and may have rested at times"
        return Suspected(words, "the CPU's clock while it generates", SHOW)
    return _judged(case, figures, cite_watched(case, "cpu_clock_hz", figures))


def _by_words(case: Case) -> Found | Suspected | None:
    """A clock in figures that somebody saw while tokens were generated."""
    said = remarks_on(case, Topic.CPU_CLOCK_LOW)
    if not said:
        return None
    if not _FREQUENCY.search(said[0].text) or not blames(case, "decode", "prefill"):
        return Suspected(said[0].text, "the CPU's clock while it generates", SHOW)
    return _found(f"the CPU is held at low clocks: {said[0].text}", cite_remarks(case, said[:1]))


def _by_trial(case: Case) -> Found | Suspected | None:
    """Other clocks or more power, and faster: on a machine whose CPU computes."""
    tried = experiment_on(case, Topic.CLOCKS, metrics=("decode", "prefill"))
    if tried is None or not is_clear(tried):
        return None
    if not cpu_computes(case) and not _OF_CPU.search(tried.text):
        return Suspected(tried.text, "whether the CPU computes, and its clock", SHOW)
    words = f"with other clocks it is {times_as_fast(tried)}"
    return _found(words, (cite_comparison(case, tried),))._replace(cure=None, speedup=gain_of(tried))


def _by_reading(case: Case) -> Found | Absent | Suspected:
    now, most = ask_for(case, "machine.cpu.frequency_hz", SHOW), ask_for(case, "machine.cpu.frequency_max_hz", SHOW)
    figures = f"{now / 1e9:.1f} of {most / 1e9:.1f} GHz"
    if now >= LOW * most:
        return Absent(f"the CPU runs at {figures}")
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    busy, cores = case.machine.load.busy_cpus.value_or(0), case.machine.cpu.physical_cores.value_or(0)
    if not cores or busy < BUSY_SHARE * cores or _is_nominal(case):
        return Suspected(f"the CPU was seen at {figures}", "its clock while it generates", SHOW)
    return _judged(case, figures, cite(case, "machine.cpu.frequency_hz", figures))


def _judged(case: Case, figures: str, evidence: Evidence) -> Found | Absent:
    """A clock that is low under load is the cause where the CPU has most to do and is slow at it."""
    if cpu_dominates(case) is False:
        return Absent("the CPU has less to do for a token than the GPU")
    if not must_be_slow(case):
        return Absent("it is as fast as this set-up should be")
    return _found(f"under load the CPU runs at {figures}{_why(case)}", (evidence,))


def _is_nominal(case: Case) -> bool:
    """Whether the clock is one that a virtual machine was told, rather than one that was read."""
    clock = case.machine.cpu.frequency_hz
    return isinstance(clock, Known) and clock.origin is Origin.ESTIMATED


def _why(case: Case) -> str:
    """What keeps it there, as far as it shows."""
    governor, heat = case.machine.cpu.governor, case.machine.cpu.temperature_c
    hot = f", {heat.value:.0f} °C" if isinstance(heat, Known) and heat.value >= HOT_C else ""
    return f" (governor {governor.value}{hot})" if isinstance(governor, Known) else hot


def _found(because: str, evidence: tuple[Evidence, ...]) -> Found:
    change = Knob.POWER.to("performance", "a governor or power profile for performance, mains, cooling")
    return Found(because, evidence, Cure(), (Remedy(change, Cure()),))


CAUSE = Cause(
    title="The CPU is held at low clocks",
    phase="decode",
    needs=(("machine.cpu.frequency_hz", "run.telemetry", "account.remarks", "account.comparisons"),),
    check=check,
    ask=SHOW,
)
