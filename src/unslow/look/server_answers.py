"""Values out of a server's answers, JSON or Prometheus metrics: sane and of the right type, or unknown with the reason.

An answer that is not there may be given as Unknown; then so is everything in it.
"""

import math
import re
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from unslow.facts.runtime import SO_FAR
from unslow.facts.values import (
    LARGEST_COUNT,
    Fact,
    Known,
    Unknown,
    estimated_fact,
    failed_fact,
    is_reading,
    not_found,
    reported_fact,
)

T = TypeVar("T")
MOST_AMOUNT = 1e15
LONGEST_TEXT = 500

MOST_LINES = 20_000
MOST_SAMPLES = 5_000
LARGEST_RATIO = 1e8
"""Of tokens or seconds by one another: a hundred times the prompt tokens per second of a rack of the fastest GPUs."""
_LONGEST_LINE = 16_384
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]{0,120})(?:\{(.{0,12000})\})?[ \t]{1,8}(\S{1,40})(?:[ \t].{0,40})?")
_LABEL = re.compile(r'\b([a-zA-Z_]\w{0,80})="((?:[^"\\]|\\.){0,2000})"')
_ESCAPED = re.compile(r'\\[n"\\]')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


class Sample(NamedTuple):
    """One value and its labels."""

    name: str
    labels: dict[str, str]
    value: float


def value_at(data: Any, *keys: str | int) -> Any:
    """What lies at the end of a path; None where it leads nowhere."""
    for key in keys:
        if isinstance(key, str) and isinstance(data, dict):
            data = data.get(key)
        elif isinstance(key, int) and isinstance(data, list) and 0 <= key < len(data):
            data = data[key]
        else:
            return None
    return data


def objects_at(data: Any, *keys: str | int, most: int = 1000) -> list[dict[str, Any]]:
    """The objects of a list at the end of a path, limited in number; none where there is no such list."""
    found = value_at(data, *keys)
    return [part for part in found[:most] if isinstance(part, dict)] if isinstance(found, list) else []


def word_at(data: Any, *keys: str | int) -> str:
    """A text, cut where it is endless; empty where there is none."""
    value = value_at(data, *keys)
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def text_fact(data: Any, source: str, *keys: str | int) -> Fact[str]:
    """A text that is not empty."""
    value = word_at(data, *keys)
    return reported_fact(value, source) if value else missing_field(data, source, keys[-1])


def count_fact(data: Any, source: str, *keys: str | int) -> Fact[int]:
    """A whole number, zero or more."""
    value = value_at(data, *keys)
    sane = type(value) is int and 0 <= value < LARGEST_COUNT
    return reported_fact(value, source) if sane else missing_field(data, source, keys[-1])


def amount_fact(data: Any, source: str, *keys: str | int) -> Fact[float]:
    """A finite number, zero or more."""
    value = value_at(data, *keys)
    sane = type(value) in (int, float) and 0 <= value < MOST_AMOUNT and is_reading(value)
    return reported_fact(float(value), source) if sane else missing_field(data, source, keys[-1])


def truth_fact(data: Any, source: str, *keys: str | int) -> Fact[bool]:
    """True or false."""
    value = value_at(data, *keys)
    return reported_fact(value, source) if isinstance(value, bool) else missing_field(data, source, keys[-1])


def missing_field(data: Any, source: str, what: str | int) -> Unknown:
    """Why something is not in an answer: the reason of the answer itself, where that is Unknown."""
    return data if isinstance(data, Unknown) else failed_fact(f"{source} holds no {what}")


class Metrics(NamedTuple):
    """The samples of one answer; `source` names it."""

    samples: tuple[Sample, ...]
    source: str

    def values(self, *names: str, **labels: str) -> list[float]:
        """The values of the first of these names that is there, with these labels."""
        for name in names:
            if found := [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]:
                return found
        return []

    def total(self, *names: str, **labels: str) -> Fact[float]:
        """All values together, as of several engines behind one server."""
        found = self.values(*names, **labels)
        return self._fact(names, math.fsum(found) if found else None)

    def integer(self, *names: str, **labels: str) -> Fact[int]:
        total = self.total(*names, **labels).value_or(math.inf)
        return self._fact(names, int(total) if total < LARGEST_COUNT else None)

    def largest_share(self, *names: str) -> Fact[float]:
        """The largest value of those that are shares of one."""
        return self._fact(names, max((value for value in self.values(*names) if value <= 1), default=None))

    def ratio(self, upper: str, lower: str, least: float = 1) -> Fact[float]:
        """One sum by another, where that is at least so much."""
        above, below = math.fsum(self.values(upper)), math.fsum(self.values(lower))
        if not self.values(upper) or below < max(least, math.ulp(0)):
            return not_found(f"{self.source} has counted too little of {lower}")
        if above / below > LARGEST_RATIO:
            return not_found(f"{self.source}: {upper} / {lower} is more than any server has")
        return estimated_fact(above / below, f"{self.source}: {upper} / {lower}")

    def rate(self, *means: str, least: float) -> Fact[float]:
        """A rate per second, by the first of these means that covers enough samples."""
        for mean in means:
            seconds = self.ratio(f"{mean}_sum", f"{mean}_count", least)
            if isinstance(seconds, Known) and seconds.value > 1 / LARGEST_RATIO:
                return estimated_fact(1 / seconds.value, f"{self.source}: {mean}, {SO_FAR}")
        return not_found(f"{self.source} has counted too few of {means[0]}")

    def labels(self, name: str) -> dict[str, str]:
        """The labels of an information metric, of which the value is nothing."""
        return next((sample.labels for sample in self.samples if sample.name == name), {})

    def _fact(self, names: tuple[str, ...], value: T | None) -> Fact[T]:
        """A value of the first of these names that is there; None where it has none."""
        if value is None:
            return not_found(f"{self.source} has no {names[0]}")
        present = {sample.name for sample in self.samples}
        return reported_fact(value, f"{self.source}: {next(name for name in names if name in present)}")


def parse_metrics(text: str, source: str, prefix: str = "") -> Metrics:
    """The sane values that are not negative and whose names begin so; buckets of histograms are left out."""
    samples: list[Sample] = []
    for line in text.split("\n", MOST_LINES)[:MOST_LINES]:
        if line.startswith("#") or not line.startswith(prefix) or len(line) > _LONGEST_LINE:
            continue
        found = _SAMPLE.fullmatch(line.rstrip("\r"))
        if not found or found[1].endswith(("_bucket", "_created")) or len(samples) >= MOST_SAMPLES:
            continue
        with suppress(ValueError):
            value = float(found[3])
            written = _LABEL.findall(found[2] or "")
            labels = {n: _ESCAPED.sub(lambda escape: _ESCAPES[escape[0]], words) for n, words in written}
            if is_reading(value) and value >= 0 and (labels or not found[2]):
                samples.append(Sample(found[1], labels, value))
    return Metrics(tuple(samples), source)
