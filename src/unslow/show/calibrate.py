"""What a calibration measured, and the list of those that are kept."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from unslow.facts.calibration import Calibration, KeptReport
from unslow.facts.stored_json import dump_stored
from unslow.facts.values import GB
from unslow.show import console
from unslow.show.units import rate, size, span


def _parts(calibration: Calibration, _width: int) -> Iterator[RenderableType]:
    word, style = ("DISTURBED", console.YELLOW) if calibration.disturbed else ("CALIBRATED", console.GREEN)
    device = calibration.machine.cpu if calibration.backend == "cpu" else calibration.device
    yield console.head(word, device or "this machine", style)
    words = [f"{calibration.engine} {calibration.engine_version}"]
    words += [f"{calibration.threads} thread{'' if calibration.threads == 1 else 's'}"] if calibration.threads else []
    words += [f"RAM {calibration.ram_read_bytes_per_s / GB:.1f} GB/s"] if calibration.ram_read_bytes_per_s else []
    words += [f"last-level cache {size(calibration.cache_bytes)}"] if calibration.cache_bytes else []
    yield console.dim(" · ".join([*words, f"{calibration.seconds:.0f} s"]))
    yield ""
    if calibration.rates:
        rates = calibration.rates
        table = console.plain_table("  WEIGHT TYPE", "DECODE", "PREFILL")
        for one in sorted(rates.types, key=lambda t: -t.decode_bytes_per_s):
            prompt = f"{one.prefill_bytes_per_s / GB:,.0f} GB·tok/s" if one.prefill_bytes_per_s else "-"
            table.add_row(f"  {one.type}", f"{one.decode_bytes_per_s / GB:.1f} GB/s", prompt)
        table.add_row("  per server step", span(rates.step_s), "")
        table.add_row("  per operation", span(rates.operation_s), "")
        table.add_row("  per 1,000 matrix rows", span(1e3 * rates.row_s), "")
        table.add_row("  per 1,000 vocabulary entries", span(1e3 * rates.vocabulary_entry_s), "")
        table.add_row("  per 1,000,000 attention elements", span(1e6 * rates.attention_element_s), "")
        yield table
        yield ""
        table = console.plain_table("  SYNTHETIC MODEL", "READS", "DECODE TOK/S", "PREFILL TOK/S", "SAMPLES")
        for point in calibration.points:
            prompt = rate(point.prompt_tokens / point.prefill_s) if point.prefill_s else "-"
            reads = size(sum(point.demand.bytes_by_type.values()))
            table.add_row(f"  {point.name}", reads, rate(1 / max(point.decode_s, 1e-9)), prompt, str(point.samples))
        yield table
        yield ""
        yield console.dim(f"These costs explain the measured times within {rates.error:.1%} (median).")
    if calibration.scale:
        scale = calibration.scale
        measured, expected = 1 / max(scale.measured_decode_s, 1e-9), 1 / max(scale.expected_decode_s, 1e-9)
        against = f"expected {rate(expected)} (×{1 / scale.factor:.2f})"
        yield Text(f"  {scale.model}: {rate(measured)} tok/s, {against}.")
        each = "the embedded engine's synthetic models give a rate per part"
        yield console.dim(f"One model gives a single factor; {each}.")
    if calibration.disturbed:
        yield Text(f"  Less reliable: {calibration.disturbed}. Measure again when the machine is idle.", "yellow")


def _kept_parts(report: KeptReport, _width: int) -> Iterator[RenderableType]:
    for one in report.calibrations:
        if one.calibration is None:
            yield Text(f"✗ {console.safe_text(one.problem)}", style="red")
            continue
        known = console.clean_report(one.calibration)
        what = "rates per type" if known.rates else f"one factor, from {known.scale.model if known.scale else '?'}"
        device = known.machine.cpu if known.backend == "cpu" else known.device
        state = Text("stale  ", style="yellow") if one.stale else Text("valid  ", style="green")
        threads = f"{known.threads} thread{'' if known.threads == 1 else 's'}"
        yield state.append(f"{device} · {known.engine} {known.engine_version} · {threads}", "bold")
        yield console.dim(f"{known.taken_at} · {what} · {console.safe_text(one.path)}")
        yield from (console.dim(f"because {console.safe_text(reason)}") for reason in one.stale)
        if known.disturbed:
            yield console.dim(f"less reliable: {known.disturbed}")
    if not report.calibrations:
        yield f"No calibrations in {console.safe_text(report.folder)}; `unslow calibrate` measures this machine."


render_calibration = console.ReportKind(
    Calibration, _parts, json=lambda one: console.safe_json(dump_stored(one).decode()), called="a calibration"
)
render_kept = console.ReportKind[KeptReport](None, _kept_parts, called="a calibration", clean=False)


def render_forgotten(paths: Sequence[str], form: str) -> str:
    """The files that were removed."""
    if form == "json":
        return console.as_json({"forgotten": paths})
    return "\n".join(f"removed {console.safe_text(path)}" for path in paths)
