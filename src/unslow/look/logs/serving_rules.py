"""Logs of serving engines, read by rules: which kinds of line there are, what each means, what they add up to.

vLLM, SGLang and TGI write such logs.
"""

import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.units import GIB, MIB
from unslow.facts.values import NOT_LOOKED, Known, estimated, reported
from unslow.look.logs.dialect import Seen
from unslow.look.logs.serving_state import MOST_BYTES, MOST_COUNT, Reading

NUMBER = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15}(?:\.\d{1,9})?)"
"""A count with or without thousands' marks, or a decimal number."""

_UNITS = {"GiB": GIB, "GB": GIB, "MiB": MIB, "MB": MIB}  # these programs count in powers of two and write either


class Rule(NamedTuple):
    """A kind of line: texts of which it must hold one, what to read from it, and what that means."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    take: Callable[[Reading, re.Match[str], str], None]
    own: bool = True
    """Whether no other program writes it."""


class RuleReader:
    """One pass over one text by the rules of one program."""

    def __init__(self, name: str, rules: Sequence[Rule], *, alone: bool) -> None:
        self._name = name
        self._rules = rules
        self._numbered = [(needle, number) for number, rule in enumerate(rules) for needle in rule.needles]
        self._alone = alone
        self._reading = Reading()
        self._lines = 0

    def take(self, line: str, where: str) -> bool:
        """Read a line; a line may be of several kinds."""
        known = False
        for number in sorted({number for needle, number in self._numbered if needle in line}):
            rule = self._rules[number]
            if found := rule.pattern.search(line):
                known = True
                rule.take(self._reading, found, where)
                self._reading.named = self._reading.named or (where if rule.own else "")
        self._lines += known
        return known

    def skip(self, needle: str, count: int) -> None:
        """Lines that are left out say what others say; how often is not added up here."""

    def seen(self, source: str) -> Seen:  # noqa: ARG002 (every fact has the line it stands in)
        """The last process of the log; `alone` says whether lines that others write too are enough to speak."""
        if not self._lines or not (self._alone or self._reading.named):
            return Seen()
        subject = subject_of(self._reading, self._name)
        return Seen(subject=subject, lines=self._lines) if subject != Subject() else Seen()


def nothing(_reading: Reading, _found: re.Match[str], _where: str) -> None:
    """A line of the program that tells nothing here; but it is no prose."""


def needles_of(rules: Sequence[Rule]) -> tuple[str, ...]:
    """All needles, once each."""
    return tuple(dict.fromkeys(needle for rule in rules for needle in rule.needles))


def subject_of(reading: Reading, name: str) -> Subject:
    """What the lines add up to."""
    facts: dict[str, Any] = {**reading.facts, **_work(reading), **_memory(reading)}
    if "preemptions" in reading.counted:
        facts["preemptions"] = reported(*reading.counted["preemptions"])
    facts |= _hits(reading)
    if reading.warnings:
        facts["warnings"] = reported(list(reading.warnings.values()), reading.warnings_where)
    runtime = Runtime(name=reported(name, reading.named) if reading.named else NOT_LOOKED, **facts)
    return Subject(runtime=runtime, model=Model(**reading.model))


def _work(reading: Reading) -> dict[str, Known[Any]]:
    facts: dict[str, Known[Any]] = {}
    rates = reading.steady_rates or reading.rates
    if rates:
        source = f"{reading.rates_where}: tokens a second of one request, the middle of {len(rates)} lines"
        facts["decode_tokens_per_s"] = estimated(median(rates), source)
    if moment := reading.fullest:
        pairs = (
            ("running_requests", moment.running),
            ("deferred_requests", moment.waiting),
            ("kv_usage", moment.usage),
        )
        facts |= {name: reported(value, moment.where) for name, value in pairs if value is not None}
    return facts


def _hits(reading: Reading) -> dict[str, Known[Any]]:
    """The share of prompt tokens that came from the cache, where every line counts both."""
    prompt, where = reading.counted.get("prompt_tokens", (0, ""))
    cached, _ = reading.counted.get("cached_tokens", (0, ""))
    return {"prefix_hit_rate": estimated(cached / prompt, f"{where} and on")} if prompt else {}


def _memory(reading: Reading) -> dict[str, Known[Any]]:
    facts: dict[str, Known[Any]] = {}
    if reading.buffers:
        buffers = list(reading.buffers.values())
        facts["buffers"] = reported([buffer for buffer, _ in buffers], buffers[0][1])
    caches = [(buffer.bytes, where) for buffer, where in reading.buffers.values() if buffer.kind == "kv"]
    if caches:
        facts["kv_bytes"] = reported(min(sum(size for size, _ in caches), MOST_BYTES), caches[0][1])
    if reading.devices:
        facts["devices"] = reported(
            [d for d, _ in reading.devices.values()], next(where for _, where in reading.devices.values())
        )
    return facts


def whole(text: str) -> int:
    """A count as written, within bounds."""
    return min(int(float(text.replace(",", ""))), MOST_COUNT)


def share(text: str) -> float:
    """A percentage as a share of one; above a hundred is a hundred."""
    return min(float(text) / 100, 1.0)


def size(text: str, unit: str = "GiB") -> int:
    """A size in bytes, within bounds."""
    return min(round(float(text.replace(",", "")) * _UNITS[unit]), MOST_BYTES)
