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
/setactive SCHEME_MIN`), take back a limit that a power tool such as TLP has set (`sudo cpupower frequency-set -u
5GHz`), plug the laptop in, clean the fans, give a board a heat sink and a power supply that is strong enough. A CPU
that stays at its lowest step under load needs its firmware settings (BD PROCHOT) or its power adapter looked at.

## Safety
Answers do not change. The machine gets warmer and louder.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.case.bandwidth import allowed_of
from unslow.think.case.gpus import is_apple
from unslow.think.case.narrative import blames, experiment_on, is_clear, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, cpu_dominates, host_figure
from unslow.think.causes._facts import ask_for, cite, cite_remarks, found_by_trial, must_be_slow
from unslow.think.report import Evidence

LOW = 0.6  # Of the highest: with all cores at work a sound CPU holds two thirds of its boost and more
LOW_WITHOUT_BOOST = 0.85
"""The same of an ARM CPU with cores of one kind: its highest clock is one that all of them hold."""
HOT_C = 90  # Laptop and desktop CPUs begin to slow down between 90 and 105 °C
HOT_BOARD_C = 79
"""Boards with an ARM CPU do so from 80 °C on (a Raspberry Pi: 80 and 85), and read a little less by then."""
SET = 0.9  # Of the highest clock: a setting that allows less holds the CPU down
_SAVING = ("powersave", "conservative", "userspace")
"""Governors that may hold a busy CPU down; the others raise its clock under load."""
BUSY_SHARE = 0.5  # Of the cores: a clock that was read while fewer worked is an idle one
ALL_BUSY = 0.9  # Of the cores: with so many at work, the one whose clock is read worked too
SHOW = "while it generates: {cpu_clock}"
OWN_CLOCK, ANY_CLOCK = "own_clock_hz", "cpu_clock_hz"
"""Of a fast core that the runtime may use, and of the first core, whoever uses that."""
_PERFORMANCE = Knob.POWER.to("performance", "a governor or power profile for performance, mains, cooling")
_OF_CPU = re.compile(r"(?i)governor|cpu (?:freq|clock|boost|power)|turbo boost|prochot|powersave")
_FREQUENCY = re.compile(r"\d\s?[mg]hz", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the clock under load against the highest, where the CPU computes."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU")
    return first_to_decide(case, _by_trial, _by_words, _by_samples, _by_reading)


def _by_samples(case: Case) -> Found | Absent | Suspected | None:
    """The clock of one core while most of them computed: its mean, for any CPU boosts for a moment."""
    own, busy = host_figure(case, OWN_CLOCK), host_figure(case, "busy_cpus")
    clock = own or host_figure(case, ANY_CLOCK)
    cores, most = case.machine.cpu.physical_cores.value_or(0), case.machine.cpu.frequency_max_hz.value_or(0)
    if not clock or not busy or not cores or not most or busy.mean < BUSY_SHARE * cores:
        return None
    figures = f"{clock.mean / 1e9:.1f} of {most / 1e9:.1f} GHz"
    low = _low(case)
    if clock.mean >= low * most:
        return Absent(f"the CPU ran at {figures} under load")
    # The first core may be left out: it is a slow one of two kinds, or the runtime is bound to others
    cpu, allowed = case.machine.cpu, allowed_of(case)[0]
    bound = isinstance(allowed, Known) and allowed.value < cpu.logical_cpus.value_or(0)
    works_elsewhere = bool(cpu.efficiency_cores.value_or(0)) or bound
    rested = clock.high >= low * most or (own is None and works_elsewhere)
    if rested and busy.mean < ALL_BUSY * cores and generates_slowly(case) is not False:
        words = f"a core ran at {figures}, and may have rested at times"
        return Suspected(words, "the CPU's clock while it generates", SHOW)
    return _judged(case, figures, cite_watched(case, OWN_CLOCK if own else ANY_CLOCK, figures))


def _by_words(case: Case) -> Found | Suspected | None:
    """A clock in figures that somebody saw while tokens were generated."""
    said = remarks_on(case, Topic.CPU_CLOCK_LOW)
    if not said:
        return None
    if not _FREQUENCY.search(said[0].text) or not blames(case, "decode", "prefill"):
        return Suspected(said[0].text, "the CPU's clock while it generates", SHOW)
    because = f"the CPU is held at low clocks: {said[0].text}"
    return Found(because, cite_remarks(case, said[:1]), Cure(), (Remedy(_PERFORMANCE, Cure()),))


def _by_trial(case: Case) -> Found | Suspected | None:
    """Other clocks or more power, and faster: on a machine whose CPU computes."""
    tried = experiment_on(case, Topic.CLOCKS, metrics=("decode", "prefill"))
    if tried is None or not is_clear(tried):
        return None
    if not cpu_computes(case) and not _OF_CPU.search(tried.text):
        return Suspected(tried.text, "whether the CPU computes, and its clock", SHOW)
    return found_by_trial(case, tried, "with other clocks it", Remedy(_PERFORMANCE, Cure()))


def _by_reading(case: Case) -> Found | Absent | Suspected:
    now, most = ask_for(case, "machine.cpu.frequency_hz", SHOW), ask_for(case, "machine.cpu.frequency_max_hz", SHOW)
    figures = f"{now / 1e9:.1f} of {most / 1e9:.1f} GHz"
    if now >= _low(case) * most:
        return Absent(f"the CPU runs at {figures}")
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    busy, cores = case.machine.load.busy_cpus.value_or(0), case.machine.cpu.physical_cores.value_or(0)
    clock = case.machine.cpu.frequency_hz
    nominal = isinstance(clock, Known) and clock.origin is Origin.ESTIMATED  # one that a virtual machine was told
    if not cores or busy < BUSY_SHARE * cores or nominal:
        return Suspected(f"the CPU was seen at {figures}", "its clock while it generates", SHOW)
    return _judged(case, figures, cite(case, "machine.cpu.frequency_hz", figures))


def _judged(case: Case, figures: str, evidence: Evidence) -> Found | Absent:
    """A clock that is low under load is the cause where the CPU has most to do and is slow at it."""
    if cpu_dominates(case) is False:
        return Absent("the CPU has less to do for a token than the GPU")
    if not must_be_slow(case):
        return Absent("it is as fast as this set-up should be")
    cpu, on_battery = case.machine.cpu, case.machine.system.on_battery.value_or(default=False)
    governor, most = cpu.governor.value_or(""), cpu.frequency_max_hz.value_or(0)
    limit_hz, heat_c = cpu.frequency_limit_hz.value_or(most), cpu.temperature_c.value_or(0.0)
    is_set = limit_hz < SET * most  # a setting allows no higher clock
    is_hot = heat_c >= (HOT_BOARD_C if "neon" in cpu.instruction_sets.value_or([]) else HOT_C)
    reasons = [f"governor {governor}"] if isinstance(cpu.governor, Known) else []
    reasons += [f"a setting allows {limit_hz / 1e9:.1f} GHz"] if is_set else []
    reasons += ["on battery"] if on_battery else []
    reasons += [f"{heat_c:.0f} °C"] if is_hot else []
    why = f" ({', '.join(reasons)})" if reasons else ""
    causes = {
        "machine.cpu.frequency_limit_hz": is_set,
        "machine.cpu.temperature_c": is_hot,
        "machine.system.on_battery": on_battery,
    }
    shown = (evidence, *(cite(case, path) for path, there in causes.items() if there))
    change = _PERFORMANCE
    if is_set:
        change = Knob.POWER.to(f"-u {most / 1e6:.0f}MHz", "let the clock rise: a power tool such as TLP limits it")
    elif is_hot:
        change = Knob.POWER.to(None, "cooling: a fan or heat sink, less dust, room for air")
    elif governor and not any(word in governor for word in _SAVING):
        change = Knob.POWER.to(None, f"power supply, cooling and firmware: the governor {governor} asks for full speed")
    return Found(f"under load the CPU runs at {figures}{why}", shown, Cure(), (Remedy(change, Cure()),))


def _low(case: Case) -> float:
    """The share of its highest clock below which a CPU is held down."""
    cpu = case.machine.cpu
    alike = isinstance(cpu.efficiency_cores, Known) and not cpu.efficiency_cores.value
    return LOW_WITHOUT_BOOST if alike and "neon" in cpu.instruction_sets.value_or([]) and not is_apple(case) else LOW


CAUSE = Cause(
    title="The CPU is held at low clocks",
    phase="decode",
    needs=(("machine.cpu.frequency_hz", "run.telemetry", "account.remarks", "account.comparisons"),),
    check=check,
    ask=SHOW,
)
