"""What macOS's `powermetrics` prints, which needs root: GPU clock, power and residency, and the thermal pressure."""

import re
from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.machine import Cpu, Gpu, Machine
from unslow.facts.units import MHZ
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_machine
from unslow.look.logs.gpu_builder import gpu_of
from unslow.look.logs.labelled import Labelled
from unslow.look.logs.numbered import numbered_lines

SOURCE = "powermetrics"

_FORMS = (
    form(r"GPU (?:HW )?active (?:frequency|residency):|GPU Power: \d|Current pressure level:", r":\s+\S|\*{3}|^\W*$"),
)
_ROW = re.compile(
    r"(GPU active frequency|GPU active residency|GPU HW active frequency|GPU HW active residency|GPU idle residency|"
    r"GPU Power|Current pressure level|CPU die temperature|GPU die temperature):\s*(\S.*)"
)
_STEPS = re.compile(r"(\d{2,5}) MHz:")
_SHARE = re.compile(r"(\d{0,3}(?:\.\d{1,4})?)\s*%")
_PERCENT = 100


def parse_machine(text: str, source: str = SOURCE, first_line: int = 1) -> Machine:
    """The last sample in the text; facts stay unlooked-for where it is something else."""
    rows = Labelled(numbered_lines(text, source, first_line), _ROW)
    gpus = _gpus(rows)
    machine = Machine(
        cpu=Cpu(
            thermal_pressure=rows.word("Current pressure level"), temperature_c=rows.amount("CPU die temperature", "C")
        ),
        gpus=reported(gpus, source) if gpus else NOT_LOOKED,
    )
    return bounded(machine)


def _gpus(rows: Labelled) -> tuple[Gpu, ...]:
    """The GPU of an Apple chip; none where the sample does not speak of it."""
    facts: dict[str, Fact[Any]] = {
        "clock_hz": _either(rows, "frequency", "MHz"),
        "clock_max_hz": _highest_step(rows),
        "busy": _busy(rows),
        "power_w": rows.amount("GPU Power", "mW"),
        "temperature_c": rows.amount("GPU die temperature", "C"),
    }
    if all(fact == NOT_LOOKED for fact in facts.values()):
        return ()
    source = next(source for label, (_, source) in rows.rows.items() if label.startswith("GPU"))
    return (gpu_of(0, "Apple", source, {**facts, "kind": reported("integrated", source)}),)


def _either(rows: Labelled, what: str, unit: str) -> Fact[Any]:
    """MacOS 13 added the HW to the label."""
    old, new = f"GPU active {what}", f"GPU HW active {what}"
    return rows.amount(new if new in rows.rows else old, unit)


def _busy(rows: Labelled) -> Fact[Any]:
    idle = _SHARE.match(rows.text("GPU idle residency"))
    if idle and idle[1]:
        return reported(round(max(0.0, 1 - float(idle[1]) / _PERCENT), 6), rows.source("GPU idle residency"))
    return _either(rows, "residency", "%")


def _highest_step(rows: Labelled) -> Fact[Any]:
    """The residency lists every step that the clock can take."""
    labels = ("GPU HW active residency", "GPU active residency")
    steps = [int(mhz) for mhz in _STEPS.findall(rows.text(*labels))]
    return reported(max(steps) * MHZ, rows.source(*labels)) if steps else NOT_LOOKED


def parse_text(text: Text) -> Seen:
    """The last sample of powermetrics in a text."""
    return seen_machine(text, _FORMS, parse_machine)
