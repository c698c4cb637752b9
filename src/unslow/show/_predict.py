"""The answer of `unslow predict`, for a person or a program: the speeds, and where the time of a token goes."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.errors import UserError
from unslow.show._clean import as_json, cleaned
from unslow.show._console import TextConsole
from unslow.show._memory_wall import memory_wall, walls_table
from unslow.show._units import count, rate, size, span
from unslow.think.speed.report import PlacementShown, PredictionReport, RateShown

FORMATS = ("terminal", "json")


def check_predict_format(form: str) -> None:
    """UserError where the answer has no such format."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of this answer", f"try one of {', '.join(FORMATS)}")


def render_predict(report: PredictionReport, form: str, *, width: int, color: bool) -> str:
    """The answer in that format."""
    if form == "json":
        return as_json(report)
    console = TextConsole(width=width, color=color)
    console.print(_answer(cleaned(report), console.width))
    return console.text


def _answer(report: PredictionReport, width: int) -> RenderableType:
    if report.decode is None:
        return Group(*_abstained(report))
    parts: list[RenderableType] = [_head(report), _dim(_subject(report)), "", _speeds(report), ""]
    parts += [walls_table(report.decode, width, explain=report.explain is not None)]
    if report.explain:
        parts += ["", *memory_wall(report.explain, report.model.quant, width)]
    if report.basis:
        parts += ["", _dim(report.basis.text)]
    parts += [_dim(note) for note in report.notes]
    return Group(*parts)


def _abstained(report: PredictionReport) -> Iterator[RenderableType]:
    head = Text(" CAN'T TELL ", style="bold black on yellow")
    yield head.append(f"  {report.model.name} {report.model.quant}: {report.reason}", "bold not reverse")
    if report.hint:
        yield Padding(Text(report.hint), (0, 0, 0, 2))
    yield from (_dim(note) for note in report.notes)


def _dim(text: str) -> Padding:
    return Padding(Text(text, style="dim"), (0, 0, 0, 2))


def _head(report: PredictionReport) -> Text:
    place, decode = report.place, report.decode
    speed = rate(decode.tokens_per_s.mid) if decode else "?"
    where = "" if place is None else f"{place.gpus}x {place.device}" if place.gpus > 1 else place.device
    text = Text(f" {speed} tok/s ", style="bold black on cyan")
    return text.append(f"  {report.model.name} {report.model.quant} · {where}", "bold not reverse")


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
