"""A benchmark for a terminal, as JSON or as `llama-bench` writes it: figures, sweeps, telemetry, what it comes to."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from unslow.facts.bench import CLIENT_DECODE, DECODE, FIRST, GAPS, LOAD, PREFILL, TOGETHER, Bench, Sweep
from unslow.facts.run import PhaseTelemetry, Stat, Telemetry
from unslow.facts.stored_json import dump_stored
from unslow.facts.values import GB
from unslow.show import console
from unslow.show.bench_history import compared_fields, compared_parts
from unslow.show.units import amount, is_time, rate, size, span
from unslow.think.stats.changes import BenchResult
from unslow.think.stats.llama_bench import rows_of
from unslow.think.stats.parts import Parts

_NAMES = {
    DECODE: "Decode",
    "decode_at_4k_tokens_per_s": "Decode, context filled",
    PREFILL: "Prefill",
    CLIENT_DECODE: "Decode, client's clock",
    FIRST: "Time to first token",
    GAPS[0]: "Between tokens, p50",
    GAPS[1]: "Between tokens, p95",
    GAPS[2]: "Between tokens, p99",
    TOGETHER: "Decode, all users together",
    LOAD: "Load time",
}
_FAILED = {
    "refused": "connection refused",
    "not_answered": "no response",
    "broke_off": "connection lost",
    "error": "error response",
    "gone": "server exited",
}
_TITLES = {"depth": "CONTEXT DEPTH", "users": "AT ONCE", "minutes": "MINUTE", "turns": "TURN", "load": "START"}
_COLUMNS = {
    TOGETHER: "ALL TOGETHER",
    DECODE: "DECODE",
    CLIENT_DECODE: "CLIENT",
    PREFILL: "PREFILL",
    FIRST: "FIRST TOKEN",
    LOAD: "LOAD",
}
_GOOD = frozenset({"slope", "flat", "scales", "steady", "cached", "same", "best_found", "current_is_best", "not_disk"})
_WORDS = {
    "device_step": "step on the device",
    "step_and_loop": "step and server loop",
    "delivery": "streaming to the client",
}
_PHASES = ("queue", "load", "prefill", "decode")
_SHORTEST_S = 0.05  # A phase so short has hardly a sample
_SOURCES = {"NVIDIA": "nvml", "AMD": "amdgpu", "Radeon": "amdgpu", "Intel": "intel_gpu"}
"""Whose GPUs each source reads: that one of another maker is silent is nothing to tell."""
_ONLY_IF_SEEN = {
    "swap_in_bytes_per_s": 1e5,
    "disk_read_bytes_per_s": 1e6,
    "cpu_pressure": 0.005,
    "memory_pressure": 0.005,
    "io_pressure": 0.005,
    "pcie_receive_bytes_per_s": 5e6,
    "pcie_transmit_bytes_per_s": 5e6,
}
"""Less than this is nothing worth a line."""
_GPU = {
    "busy": "busy",
    "memory_busy": "memory busy",
    "clock_hz": "clock",
    "memory_clock_hz": "memory clock",
    "power_w": "power",
    "temperature_c": "max temperature",
    "vram_used_bytes": "max VRAM used",
    "pcie_receive_bytes_per_s": "link receive",
    "pcie_transmit_bytes_per_s": "link transmit",
}
_HOST = {
    "own_cpus": "CPUs used by the server",
    "others_cpus": "CPUs used by others",
    "busiest_core": "busiest CPU",
    "memory_available_bytes": "min free RAM",
    "swap_in_bytes_per_s": "swap in",
    "disk_read_bytes_per_s": "disk reads",
    "cpu_pressure": "CPU pressure",
    "memory_pressure": "memory pressure",
    "io_pressure": "I/O pressure",
}


def _parts(result: BenchResult, _width: int) -> Iterator[RenderableType]:
    bench = console.clean_report(result.bench)
    if bench.interrupted:
        word, style = "STOPPED", console.YELLOW
    elif not bench.figures and not bench.sweeps:
        word, style = "NOTHING MEASURED", console.RED
    else:
        word, style = "MEASURED", console.GREEN
    yield console.head(word, bench.model or "unknown model", style)
    devices = ", ".join(bench.machine.gpus) or bench.machine.cpu
    words = [" ".join(w for w in (bench.runtime, bench.runtime_version) if w), devices]
    answered = sum(1 for done in bench.passes if done.round)
    words += [f"{answered} requests"] if answered else []
    minutes, seconds = divmod(round(bench.seconds), 60)
    words += [f"{minutes} min {seconds} s" if minutes else f"{seconds} s"] if bench.seconds else []
    yield console.dim(" · ".join(word for word in (*words, bench.label, bench.id) if word))
    yield ""
    if bench.figures:
        yield from _figures(bench)
        yield ""
    for sweep in bench.sweeps:
        yield from sweep_parts(sweep)
    if bench.telemetry:
        yield from telemetry_parts(bench.telemetry, bench.machine.gpus)
    if bench.failures:
        kinds = Counter(failure.kind for failure in bench.failures)
        said = ", ".join(f"{count} {_FAILED.get(kind, kind)}" for kind, count in kinds.most_common())
        asked = len(bench.passes) + len(bench.failures)
        yield console.indent_text(f"✗ {len(bench.failures)} of {asked} requests failed: {said}", "red")
        for why, count in Counter(failure.why for failure in bench.failures).most_common(3):
            yield console.dim(f"  {count} × {why}" if count > 1 else f"  {why}")
    yield from map(console.warning, bench.notes)
    for one in bench.requirements:
        mark, style = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}[one.holds]
        yield console.indent_text(f"{mark} {one.asked}: {one.because}", style)
    if result.parts:
        yield from token_parts(console.clean_report(result.parts))
    if result.compared:
        yield from compared_parts(result.compared)


def _figures(bench: Bench) -> Iterator[RenderableType]:
    """The table in the order of the names, and below it what was expected."""
    rows = []
    for name in dict.fromkeys([*(name for name in _NAMES if name in bench.figures), *bench.figures]):
        spread = bench.figures[name]
        label = f"  {_NAMES.get(name, name)}{'' if spread.agree else ' ~'}"
        show = span if is_time(name) else rate
        interval = f"{show(spread.low)} to {show(spread.high)}" if spread.count > 1 else "-"  # one repeat gives none
        rows.append((label, amount(name, spread.median), interval, str(spread.count)))
    yield console.noted_table(("  FIGURE", "MEDIAN", "95 % INTERVAL", "N"), rows, [""] * len(rows))
    for name, spread in bench.figures.items():
        if expected := bench.expected.get(name):
            reached = f"({spread.median / expected:.0%} reached)"
            yield console.dim(f"{_NAMES.get(name, name).lower()} expected here: {amount(name, expected)} {reached}")


def sweep_parts(sweep: Sweep) -> Iterator[RenderableType]:
    """The verdict, the table, and why it ended early."""
    style = "yellow" if sweep.verdict == "cannot_tell" else "green" if sweep.verdict in _GOOD else "red"
    title = _TITLES.get(sweep.axis, sweep.axis.upper())
    verdict = Text(f"{sweep.verdict.replace('_', ' ')}: ", style=f"bold {style}")
    yield Padding(verdict.append(sweep.because, "not bold default"), (0, 0, 0, 2))
    points = sweep.points
    names = [name for name in _COLUMNS if any(name in point.figures for point in points)]
    expected = [name for name in names if any(name in point.expected for point in points)]
    failed = any(point.failures for point in points)
    columns = [column for name in names for column in (_COLUMNS[name], *(["EXPECTED"] if name in expected else []))]
    rows = []
    for point in points:
        cells = []
        for name in names:
            spread = point.figures.get(name)
            mark = "" if spread is None or spread.agree else " ~"
            cells.append("-" if spread is None else amount(name, spread.median) + mark)
            if name in expected:
                cells.append(amount(name, point.expected[name]) if name in point.expected else "")
        label = point.label.removeprefix("depth ").removeprefix("minute ") or f"{point.at:g}"
        rows.append((f"  {label}", *cells, *([str(point.failures or "")] if failed else [])))
    yield console.noted_table((f"  {title}", *columns, *(["FAILED"] if failed else [])), rows, [p.note for p in points])
    if any(not spread.agree for point in sweep.points for spread in point.figures.values()):
        yield console.dim("~ repeats disagree")
    if sweep.stopped_early:
        yield console.dim(f"stopped early: {sweep.stopped_early}")
    yield ""


def token_parts(parts: Parts) -> Iterator[RenderableType]:
    """The table, and below it how each part was measured."""
    table = console.plain_table("  A TOKEN", "MS", "SHARE", "95 % INTERVAL")
    table.add_row("  total, seen by the client", f"{parts.seconds * 1e3:.3f}", "100%", "")
    for part in parts.parts:
        took, share = f"{part.seconds * 1e3:.3f}", f"{part.seconds / parts.seconds:.1%}" if parts.seconds else "-"
        if not part.told_apart and not part.seconds:
            took, share = "-", "none detected"
        interval = f"{part.low_s * 1e3:.3f} to {part.high_s * 1e3:.3f}"
        table.add_row(f"  {_WORDS.get(part.name, part.name)}", took, share, interval)
    yield table
    if parts.gpu_idle_s is not None:
        yield console.dim(f"the GPU was idle for {parts.gpu_idle_s * 1e3:.3f} ms")
    for part in parts.parts:
        yield console.dim(f"{_WORDS.get(part.name, part.name)}: {part.how}")
    yield from (console.dim(f"! {note}") for note in parts.notes)
    yield ""


def telemetry_parts(telemetry: Telemetry, gpus: Sequence[str]) -> Iterator[RenderableType]:
    """The table, and what watching itself cost."""
    sampled = [phase for phase in telemetry.phases if phase.seconds >= _SHORTEST_S and phase.samples]
    phases = [phase for name in _PHASES for phase in sampled if phase.phase == name]
    if phases:
        table = console.plain_table("  DURING THE RUN", *(phase.phase.upper() for phase in phases))
        for row in (*_gpu_rows(phases), *_rows("", _HOST, [phase.host for phase in phases])):
            table.add_row(*row)
        yield table
    cost = f"{telemetry.cost.seconds_per_sample * 1e3:.2f} ms each, {telemetry.cost.cpus:.2%} of a processor"
    yield console.dim(f"sampled {telemetry.got_hz:.0f} times per second: {cost}")
    for source in sorted({_SOURCES[maker] for maker in _SOURCES if any(maker in gpu for gpu in gpus)}):
        if source in telemetry.unread:
            yield console.dim(f"not sampled: {source}: {telemetry.unread[source]}")
    yield ""


def _gpu_rows(phases: Sequence[PhaseTelemetry]) -> Iterator[tuple[str, ...]]:
    indexes = sorted({gpu.index for phase in phases for gpu in phase.gpus})
    for index in indexes:
        gpus = [next((g for g in phase.gpus if g.index == index), None) for phase in phases]
        name = f"GPU {index}" if len(indexes) > 1 else "GPU"
        yield from _rows(name, _GPU, [gpu.figures if gpu else {} for gpu in gpus])
        for reason in sorted({reason for gpu in gpus if gpu for reason in gpu.reasons}):
            shares = [gpu.reasons.get(reason, 0.0) if gpu else 0.0 for gpu in gpus]
            yield (f"  {name} {reason.replace('_', ' ')}", *(f"{share:.0%} of the time" for share in shares))


def _rows(prefix: str, names: dict[str, str], stats: Sequence[dict[str, Stat]]) -> Iterator[tuple[str, ...]]:
    for name, words in names.items():
        cells = [s.get(name) for s in stats]
        if any(cell and (name not in _ONLY_IF_SEEN or cell.mean > _ONLY_IF_SEEN[name]) for cell in cells):
            texts = (_stat_text(name, cell) if cell else "-" for cell in cells)
            yield (f"  {prefix} {words}".replace("   ", "  "), *texts)


def _stat_text(name: str, stat: Stat) -> str:
    """In the unit that the name carries: the mean, but the extreme of what may run out or grow too hot."""
    if name.endswith("_hz"):
        return f"{stat.mean / 1e6:,.0f} MHz"
    if name.endswith("_bytes_per_s"):
        return f"{stat.mean / GB:.2f} GB/s"
    if name.endswith("_bytes"):
        return size(stat.low if name == "memory_available_bytes" else stat.high)
    if name.endswith("_cpus"):
        return f"{stat.mean:.1f}"
    if name in {"power_w", "temperature_c"}:
        return f"{stat.mean:.0f} W" if name == "power_w" else f"{stat.high:.0f} °C"
    return f"{stat.mean:.0%}"


def _json(result: BenchResult) -> str:
    """The benchmark's own fields, and beside them what it was split into and held against."""
    fields: dict[str, Any] = msgspec.json.decode(dump_stored(result.bench))
    if result.parts:
        fields["parts"] = msgspec.to_builtins(result.parts)
    if result.compared:
        fields["compared"] = compared_fields(result.compared)
    return console.as_json(fields)


def render_llama_bench(bench: Bench) -> str:
    """A benchmark in the form of `llama-bench -o json`: one object for each test, for tools that read that.

    Names, types and their order are those of llama-bench. The speeds are this program's: of the tokens after the first,
    through the server, with its sampler. Lengths are real counts, such as a prompt of 3,571 tokens; what is not known
    has the value that llama-bench writes where nothing is set.
    """
    return console.as_json(list(rows_of(bench)))


render_bench = console.ReportKind[BenchResult](None, _parts, json=_json, called="a benchmark", clean=False)
