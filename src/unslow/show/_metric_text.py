"""Families of metrics as text, in the two dialects that Prometheus reads: OpenMetrics 1.0 and its own format 0.0.4."""

import math
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from unslow.facts.masking_rules import masked_text

Dialect = Literal["openmetrics", "text"]
Kind = Literal["gauge", "counter", "info"]
LONGEST_LABEL = 80
"""Letters of a label's value: what a server calls itself may be endless."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PATH = re.compile(r"^(?:~|\.{0,2})?/|^[A-Za-z]:[\\/]|\\")
_MOMENTS = 1e6
"""Larger values with a fraction are seconds since 1970, or bytes."""
_SUFFIX: dict[Kind, str] = {"gauge": "", "counter": "_total", "info": "_info"}


class Sample(NamedTuple):
    """A value with the labels that tell it from others of its family."""

    value: float
    labels: dict[str, str] = {}  # noqa: RUF012 (never written to)


class Family(NamedTuple):
    """A metric: its name without the ending that its kind has, what it means, and its samples."""

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: Kind = "gauge"
    unit: str = ""


def text_of(families: Iterable[Family], dialect: Dialect) -> str:
    """All families that have samples; OpenMetrics ends with a line that says so."""
    lines = [line for family in families if family.samples for line in _lines(family, dialect)]
    return "\n".join([*lines, *(["# EOF"] if dialect == "openmetrics" else [])]) + "\n"


def _lines(family: Family, dialect: Dialect) -> Iterable[str]:
    sample_name = family.name + _SUFFIX[family.kind]
    name, kind = (family.name, family.kind) if dialect == "openmetrics" else (sample_name, _as_text(family.kind))
    yield f"# HELP {name} {_escaped_help(family.help, dialect)}"
    yield f"# TYPE {name} {kind}"
    if family.unit and dialect == "openmetrics":
        yield f"# UNIT {name} {family.unit}"
    for sample in family.samples:
        if math.isfinite(sample.value):
            yield f"{sample_name}{_labels(sample.labels)} {_number(sample.value)}"


def _as_text(kind: Kind) -> str:
    """The older format knows no information metrics: they are gauges of 1."""
    return "gauge" if kind == "info" else kind


def _labels(labels: dict[str, str]) -> str:
    """Empty ones are left out: to Prometheus an empty label is none."""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in labels.items() if value]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escaped_help(text: str, dialect: Dialect) -> str:
    """The older format leaves quotes in a help text as they are."""
    return _escaped(text) if dialect == "openmetrics" else text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    """Six figures, of a moment its milliseconds: more are noise, and cost room in every sample that is kept."""
    if value == int(value):
        return str(int(value))
    return f"{value:.6g}" if abs(value) < _MOMENTS else f"{value:.3f}"


def label_value(text: str) -> str:
    """A text fit for a label: no path, nobody's name, no key, no letter that drives a terminal, and not long."""
    name = re.split(r"[\\/]", text.rstrip("\\/"))[-1] if _PATH.search(text) else text
    return _UNSAFE.sub("�", masked_text(name[: 4 * LONGEST_LABEL]))[:LONGEST_LABEL].strip()
