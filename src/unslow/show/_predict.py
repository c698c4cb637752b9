"""The answer of `unslow predict`, for a person or a program: the speeds, and where the time of a token goes."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unslow.show._console import YELLOW, dim, head, indented
from unslow.show._kinds import ReportKind
from unslow.show._memory_wall import memory_wall, walls_table
from unslow.show._units import count, rate, size, span
from unslow.think.speed.report import PlacementShown, PredictionReport, RateShown


def _answer(report: PredictionReport, width: int) -> RenderableType:
    if report.decode is None:
        return Group(*_abstained(report))
    parts: list[RenderableType] = [_head(report), dim(_subject(report)), "", _speeds(report), ""]
    parts += [walls_table(report.decode, width, explain=report.explain is not None)]
    if report.explain:
        parts += ["", *memory_wall(report.explain, report.model.quant, width)]
    if report.basis:
        parts += ["", dim(report.basis.text)]
    parts += [dim(note) for note in report.notes]
    return Group(*parts)


def _abstained(report: PredictionReport) -> Iterator[RenderableType]:
    yield head("CAN'T TELL", f"{report.model.name} {report.model.quant}: {report.reason}", YELLOW)
    if report.hint:
        yield indented(report.hint)
    yield from (dim(note) for note in report.notes)


def _head(report: PredictionReport) -> Text:
    place, decode = report.place, report.decode
    speed = rate(decode.tokens_per_s.mid) if decode else "?"
    where = "" if place is None else f"{place.gpus}x {place.device}" if place.gpus > 1 else place.device
    return head(f"{speed} tok/s", f"{report.model.name} {report.model.quant} · {where}")


def _subject(report: PredictionReport) -> str:
    model, settings, place = report.model, report.settings, report.place
    said = [f"{count(model.parameters)} parameters, {size(model.weights_bytes)}"]
    if place:
        said.append(f"{place.runtime} on {place.backend}")
    depth, batch = int(settings.get("depth", 0)), int(settings.get("batch", 1))
    said.append(f"{depth:,} tokens in the context" if depth else "an empty context")
    if batch > 1:
        said.append(f"{batch:,} conversations")
    said.append(f"{settings.get('kv_type', 'f16')} KV cache")
    if place and place.gpus > 1:
        said.append(f"split by {settings.get('split', 'layer')}")
    if report.placement:
        said.append(_placement(report.placement))
    return " · ".join(said)


def _placement(placement: PlacementShown) -> str:
    everything = placement.all_gpu_layers
    why = ", as much as fits" if placement.chosen else ""
    experts = f"the experts of {placement.experts_on_cpu} layers on the host"
    if placement.gpu_layers >= everything:
        return experts + why if placement.experts_on_cpu else f"all {everything} layers on the GPU"
    rest = f"the rest and {experts}" if placement.experts_on_cpu else "the rest on the host"
    return f"{placement.gpu_layers} of {everything} layers on the GPU{why}, {rest}"


def _speeds(report: PredictionReport) -> Table:
    """A line for each speed, with the ends of its interval."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(no_wrap=True, justify="right", style="bold")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in _speed_rows(report):
        grid.add_row(*row)
    return grid


def _speed_rows(report: PredictionReport) -> Iterator[tuple[str, str, str, str]]:
    decode, prefill, drafted = report.decode, report.prefill, report.speculative
    if decode is None or prefill is None:
        return
    batch = int(report.settings.get("batch", 1))
    together = " all together" if batch > 1 else ""
    yield f"  decode{together}", rate(decode.tokens_per_s.mid), "tok/s", _ends(decode.tokens_per_s) + " (80 % interval)"
    if batch > 1:
        yield "  each conversation", rate(decode.each_tokens_per_s), "tok/s", ""
    if decode.ceiling_tokens_per_s:
        share = decode.tokens_per_s.mid / decode.ceiling_tokens_per_s
        yield "  ceiling", rate(decode.ceiling_tokens_per_s), "tok/s", f"by bandwidth alone; {share:.0%} of it reached"
    if drafted:
        said = f"{_ends(drafted.tokens_per_s)}, x{drafted.speedup:.2f}: {drafted.accepted_per_step:.1f} tokens a step"
        yield (
            "  with the draft",
            rate(drafted.tokens_per_s.mid),
            "tok/s",
            f"{said} at {drafted.acceptance:.0%} accepted",
        )
        yield "", "", "", _break_even(drafted.break_even_acceptance, drafted.draft)
    yield f"  prompt of {prefill.prompt_tokens:,}", rate(prefill.tokens_per_s.mid), "tok/s", _ends(prefill.tokens_per_s)
    first = prefill.time_to_first_token_s
    number, unit = span(first.mid).split(" ")
    yield "  first token after", number, unit, f"{span(first.low)} to {span(first.high)}"


def _break_even(acceptance: float | None, draft: str) -> str:
    if acceptance is None:
        return f"{draft} never pays here, whatever is accepted"
    return f"{draft} pays from {acceptance:.0%} accepted on"


def _ends(interval: RateShown) -> str:
    return f"{rate(interval.low)} to {rate(interval.high)}"


render_predict = ReportKind(PredictionReport, _answer)
