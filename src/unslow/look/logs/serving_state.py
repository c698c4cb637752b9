"""What one pass over the log of a serving engine remembers, and numbers as these programs write them."""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from unslow.facts.masking import masked_text
from unslow.facts.runtime import AllocationFailure, Buffer, SeenDevice
from unslow.facts.values import GIB, MIB, Known, estimated_fact, reported_fact

MOST_COUNT = 2**53
MOST_BYTES = 2**60
_KEPT_RATES = 1000
_KEPT_WARNINGS = 40
_KEPT_DEVICES = 64
_LONGEST_TEXT = 300
NUMBER = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15}(?:\.\d{1,9})?)"
"""A count with or without thousands' marks, or a decimal number."""
_UNITS = {"GiB": GIB, "GB": GIB, "MiB": MIB, "MB": MIB}  # these programs count in powers of two and write either


class Moment(NamedTuple):
    """What an engine says of its work at one time; None where it does not say."""

    where: str
    running: int | None = None
    waiting: int | None = None
    usage: float | None = None
    tokens_per_s: float | None = None
    prefills: bool = False  # Whether prompts were read meanwhile, which takes time from the answers


@dataclass
class Reading:
    """Everything known after the lines so far."""

    facts: dict[str, Known[Any]] = field(default_factory=dict)
    model: dict[str, Known[Any]] = field(default_factory=dict)
    buffers: dict[tuple[str, str], tuple[Buffer, str]] = field(default_factory=dict)
    devices: dict[str, tuple[SeenDevice, str]] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    warnings_where: str = ""
    fullest: Moment | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_RATES))
    steady_rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_RATES))
    last_running: int | None = None
    rates_where: str = ""
    counted: dict[str, tuple[int, str]] = field(default_factory=dict)
    worked: bool = False
    named: str = ""  # The first line that only this program writes

    def start(self) -> None:
        """A process starts: what an earlier one did no longer holds."""
        if self.worked:
            vars(self).update(vars(Reading(named=self.named)))

    def note(self, name: str, value: Any, where: str) -> None:
        """The runtime says a fact."""
        self.facts[name] = reported_fact(value, where)

    def guess(self, name: str, value: Any, where: str) -> None:
        """A fact that follows from a line, unless one says it outright."""
        self.facts.setdefault(name, estimated_fact(value, where))

    def count(self, name: str, more: int, where: str) -> None:
        before, first = self.counted.get(name, (0, where))
        self.counted[name] = (min(before + more, MOST_COUNT), first)

    def add_buffer(self, kind: Literal["model", "kv"], device: str, size: int, where: str) -> None:
        """Memory of one kind on one device; said again, the later size counts."""
        if len(self.buffers) < _KEPT_DEVICES or (device, kind) in self.buffers:
            buffer = Buffer(device=device, kind=kind, bytes=size, on_gpu=not device.startswith("CPU"))
            self.buffers[device, kind] = (buffer, where)

    def device(self, device: SeenDevice, where: str) -> None:
        if len(self.devices) < _KEPT_DEVICES or device.name in self.devices:
            self.devices[device.name] = (device, where)

    def warn(self, text: str, where: str) -> None:
        """A complaint, once of each kind."""
        kind = re.sub(r"\d+", "", text)[:60]
        if len(self.warnings) < _KEPT_WARNINGS:
            self.warnings.setdefault(kind, masked_text(text)[:_LONGEST_TEXT])
            self.warnings_where = self.warnings_where or where

    def fail(self, text: str, where: str, failure: AllocationFailure | None = None) -> None:
        """The program could not start; the first reason is the root, what follows only repeats it."""
        self.worked = True
        self.facts.setdefault("state", reported_fact("failed", where))
        self.facts.setdefault("load_error", reported_fact(masked_text(text)[:_LONGEST_TEXT], where))
        known = self.facts.get("allocation_failure")
        if failure and (known is None or not isinstance(known.value.asked_bytes, Known)):
            self.facts["allocation_failure"] = reported_fact(failure, where)

    def works(self, moment: Moment) -> None:
        """One line about the work; of many, the one with the fullest cache is kept, and every speed."""
        self.worked = True
        for name in ("state", "load_error", "allocation_failure"):
            self.facts.pop(name, None)
        moments = [moment, self.fullest] if self.fullest else [moment]
        self.fullest = max(moments, key=lambda each: (each.usage or 0, each.waiting or 0, each.running or 0))
        if moment.tokens_per_s is None:
            return
        before, self.last_running = self.last_running, moment.running
        if moment.tokens_per_s and moment.running != 0:
            # The speed of one request is surely known only where as many ran before, and no prompts were read meanwhile
            steady = not moment.prefills and before in (None, moment.running)
            kept = self.steady_rates if steady else self.rates
            kept.append(moment.tokens_per_s / max(1, moment.running or 1, before or 1))
            self.rates_where = moment.where


def parse_whole_number(text: str) -> int:
    """A count as written, within bounds."""
    return min(int(float(text.replace(",", ""))), MOST_COUNT)


def parse_share(text: str) -> float:
    """A percentage as a share of one; above a hundred is a hundred."""
    return min(float(text) / 100, 1.0)


def parse_fraction(text: str) -> float:
    """A share of one; above one is one."""
    return min(float(text), 1.0)


def parse_size(text: str, unit: str = "GiB") -> int:
    """A size in bytes, within bounds."""
    return min(round(float(text.replace(",", "")) * _UNITS[unit]), MOST_BYTES)
