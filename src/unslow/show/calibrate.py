"""What a calibration measured, and the list of those that are kept."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from unslow.facts.calibration import Calibration, KeptReport
from unslow.facts.stored_json import dump_stored
from unslow.facts.values import GB
from unslow.show.clean import as_json, cleaned, safe, safe_json
from unslow.show.console import GREEN, YELLOW, ReportKind, dim, head, plain_table
from unslow.show.units import rate, size, span


def _parts(calibration: Calibration, _width: int) -> Iterator[RenderableType]:
    word, style = ("DISTURBED", YELLOW) if calibration.disturbed else ("CALIBRATED", GREEN)
    device = calibration.machine.cpu if calibration.backend == "cpu" else calibration.device
    yield head(word, device or "this machine", style)
    words = [f"{calibration.engine} {calibration.engine_version}"]
    words += [_threads(calibration.threads)] if calibration.threads else []
    words += [f"memory {calibration.ram_read_bytes_per_s / GB:.1f} GB/s"] if calibration.ram_read_bytes_per_s else []
    words += [f"last cache {size(calibration.cache_bytes)}"] if calibration.cache_bytes else []
    yield dim(" · ".join([*words, f"{calibration.seconds:.0f} s"]))
    yield ""
    if calibration.rates:
        rates = calibration.rates
        table = plain_table("  WEIGHTS IN", "DECODE", "PROMPT")
        for one in sorted(rates.types, key=lambda t: -t.decode_bytes_per_s):
            prompt = f"{one.prefill_bytes_per_s / GB:,.0f} GB·tok/s" if one.prefill_bytes_per_s else "-"
            table.add_row(f"  {one.type}", f"{one.decode_bytes_per_s / GB:.1f} GB/s", prompt)
        table.add_row("  each step of the server", span(rates.step_s), "")
        table.add_row("  each operation", span(rates.operation_s), "")
        table.add_row("  a thousand rows of a matrix", span(1e3 * rates.row_s), "")
        table.add_row("  a thousand words of vocabulary", span(1e3 * rates.vocabulary_entry_s), "")
        table.add_row("  attention, a million elements", span(1e6 * rates.attention_element_s), "")
        yield table
        yield ""
        table = plain_table("  MADE-UP MODEL", "READS", "TOKENS/S", "PROMPT TOKENS/S", "SAMPLES")
        for point in calibration.points:
            prompt = rate(point.prompt_tokens / point.prefill_s) if point.prefill_s else "-"
            reads = size(sum(point.demand.bytes_by_type.values()))
            table.add_row(f"  {point.name}", reads, rate(1 / max(point.decode_s, 1e-9)), prompt, str(point.samples))
        yield table
        yield ""
        yield dim(f"These costs explain the measured times within {rates.error:.1%} (median).")
    if calibration.scale:
        scale = calibration.scale
        measured, expected = 1 / max(scale.measured_decode_s, 1e-9), 1 / max(scale.expected_decode_s, 1e-9)
        against = f"{rate(expected)} were expected (×{1 / scale.factor:.2f})"
        yield Text(f"  {scale.model}: {rate(measured)} tokens/s, and {against}.")
        yield dim("One model gives one factor for all; made-up models of the embedded engine tell the parts apart.")
    if calibration.disturbed:
        yield Text(f"  Take it with care: {calibration.disturbed}. Measure again when the machine is idle.", "yellow")


def _kept_parts(report: KeptReport, _width: int) -> Iterator[RenderableType]:
    for one in report.calibrations:
        if one.calibration is None:
            yield Text(f"✗ {safe(one.problem)}", style="red")
            continue
        known = cleaned(one.calibration)
        what = "rates of each type" if known.rates else f"one factor, from {known.scale.model if known.scale else '?'}"
        device = known.machine.cpu if known.backend == "cpu" else known.device
        state = Text("stale  ", style="yellow") if one.stale else Text("holds  ", style="green")
        yield state.append(f"{device} · {known.engine} {known.engine_version} · {_threads(known.threads)}", "bold")
        yield dim(f"{known.taken_at} · {what} · {safe(one.path)}")
        yield from (dim(f"because {safe(reason)}") for reason in one.stale)
        if known.disturbed:
            yield dim(f"with care: {known.disturbed}")
    if not report.calibrations:
        yield f"Nothing is kept in {safe(report.folder)}; `unslow calibrate` measures this machine."


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


render_calibration = ReportKind(
    Calibration, _parts, json=lambda one: safe_json(dump_stored(one).decode()), called="a calibration"
)
render_kept = ReportKind[KeptReport](None, _kept_parts, called="a calibration", clean=False)


def render_forgotten(paths: Sequence[str], form: str) -> str:
    """The files that were removed."""
    if form == "json":
        return as_json({"forgotten": paths})
    return "\n".join(f"removed {safe(path)}" for path in paths)
