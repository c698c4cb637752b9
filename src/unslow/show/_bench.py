"""A benchmark for a terminal or as JSON: the figures with their intervals, what the machine did, what it comes to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.bench import (
    CLIENT_DECODE,
    DECODE,
    FIRST,
    GAPS,
    LOWER_IS_BETTER,
    PREFILL,
    Bench,
    Failure,
    Requirement,
    Spread,
    dump_bench,
)
from unslow.show._bench_history import ComparedShown, compared_fields, compared_parts
from unslow.show._bench_parts import token_parts
from unslow.show._bench_sweeps import sweep_parts
from unslow.show._bench_telemetry import telemetry_parts
from unslow.show._clean import as_json, cleaned
from unslow.show._console import GREEN, RED, YELLOW, dim, head, indented, noted_table, warning
from unslow.show._kinds import ReportKind
from unslow.show._units import rate, span
from unslow.think.bench.parts import Parts

_NAMES = {
    DECODE: "Decode",
    "decode_at_4k_tokens_per_s": "Decode, context filled",
    PREFILL: "Prefill",
    CLIENT_DECODE: "Decode, client's clock",
    FIRST: "Time to first token",
    GAPS[0]: "Between tokens, p50",
    GAPS[1]: "Between tokens, p95",
    GAPS[2]: "Between tokens, p99",
}
_FAILED = {
    "refused": "nothing listened",
    "not_answered": "not answered",
    "stalled": "stalled",
    "broke_off": "broke off",
    "error": "answered with an error",
    "gone": "the server was gone",
}


class Result(Protocol):
    """A benchmark, and whatever else was asked about it."""

    @property
    def bench(self) -> Bench: ...
    @property
    def parts(self) -> Parts | None: ...
    @property
    def compared(self) -> ComparedShown | None: ...


def _fields(result: Result) -> dict[str, Any]:
    """The benchmark's own fields, and beside them what it was split into and held against."""
    fields: dict[str, Any] = msgspec.json.decode(dump_bench(result.bench))
    if result.parts:
        fields["parts"] = msgspec.to_builtins(result.parts)
    if result.compared:
        fields["compared"] = compared_fields(result.compared)
    return fields


def _all_parts(result: Result, _width: int) -> Iterator[RenderableType]:
    yield from _parts(cleaned(result.bench))
    if result.parts:
        yield from token_parts(cleaned(result.parts))
    if result.compared:
        yield from compared_parts(result.compared)


def _parts(bench: Bench) -> Iterator[RenderableType]:
    yield _head(bench)
    yield dim(_subject(bench))
    yield ""
    if bench.figures:
        yield _figures(bench)
        yield from (dim(line) for name in bench.figures if (line := _expected(bench, name)))
        yield ""
    for sweep in bench.sweeps:
        yield from sweep_parts(sweep)
    if bench.telemetry:
        yield from telemetry_parts(bench.telemetry, bench.machine.gpus)
    if bench.failures:
        yield from _failures(bench)
    yield from map(warning, bench.notes)
    for requirement in bench.requirements:
        yield _requirement(requirement)


def _head(bench: Bench) -> Text:
    if bench.interrupted:
        word, style = "STOPPED", YELLOW
    elif not bench.figures and not bench.sweeps:
        word, style = "NOTHING MEASURED", RED
    else:
        word, style = "MEASURED", GREEN
    return head(word, bench.model or "unknown model", style)


def _subject(bench: Bench) -> str:
    devices = ", ".join(bench.machine.gpus) or bench.machine.cpu
    words = [" ".join(w for w in (bench.runtime, bench.runtime_version) if w), devices]
    answered = sum(1 for done in bench.passes if done.round)
    words += [f"{answered} requests"] if answered else []
    words += [_duration(bench.seconds)] if bench.seconds else []
    return " · ".join(word for word in (*words, bench.label, bench.id) if word)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _figures(bench: Bench) -> RenderableType:
    known = [name for name in _NAMES if name in bench.figures]
    names = [*known, *(name for name in bench.figures if name not in _NAMES)]
    rows = [_row(name, bench.figures[name]) for name in names]
    return noted_table(("  FIGURE", "MEDIAN", "95 % INTERVAL", "N"), rows, [""] * len(rows))


def _row(name: str, spread: Spread) -> tuple[str, ...]:
    mark = "" if spread.agree else " ~"
    return f"  {_NAMES.get(name, name)}{mark}", amount(name, spread.median), interval(name, spread), str(spread.count)


def amount(name: str, value: float) -> str:
    """A figure in the unit that its name carries."""
    return (
        span(value)
        if name in LOWER_IS_BETTER or (name.endswith("_s") and "per_s" not in name)
        else f"{rate(value)} tok/s"
    )


def interval(name: str, spread: Spread) -> str:
    """The interval of a figure; a dash where one repeat gives none."""
    if spread.count < 2:  # noqa: PLR2004 (one value has no spread)
        return "-"
    show = span if name in LOWER_IS_BETTER else rate
    return f"{show(spread.low)} to {show(spread.high)}"


def _expected(bench: Bench, name: str) -> str:
    expected = bench.expected.get(name)
    if not expected:
        return ""
    share = bench.figures[name].median / expected
    return f"{_NAMES.get(name, name).lower()} expected here: {amount(name, expected)}; it gives {share:.0%} of that"


def _failures(bench: Bench) -> Iterator[RenderableType]:
    kinds = Counter(failure.kind for failure in bench.failures)
    asked = len(bench.passes) + len(bench.failures)
    words = ", ".join(f"{count} {_FAILED.get(kind, kind)}" for kind, count in kinds.most_common())
    yield indented(f"✗ {len(bench.failures)} of {asked} requests failed: {words}", "red")
    yield from (dim(f"  {line}") for line in _reasons(bench.failures))


def _reasons(failures: Sequence[Failure]) -> Iterator[str]:
    """Each reason once, the most frequent first."""
    for why, count in Counter(failure.why for failure in failures).most_common(3):
        yield f"{count} × {why}" if count > 1 else why


def _requirement(one: Requirement) -> Padding:
    mark, style = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}[one.holds]
    return indented(f"{mark} {one.asked}: {one.because}", style)


render_bench = ReportKind[Result](
    None, _all_parts, json=lambda result: as_json(_fields(result)), called="a benchmark", clean=False
)
