"""The answer of `unslow plan`, for a person or a program: what to do, what it gives and costs, why not the others."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.show import console
from unslow.show.units import rate, size, span
from unslow.think.plan.report import OptionShown, PlanReport, SpeedShown

_HEADS = {
    "better": ("PLAN", console.GREEN),
    "already_best": ("NOTHING TO GAIN", console.GREEN),
    "impossible": ("NO PLAN", console.RED),
    "cannot_tell": ("CANNOT TELL", console.YELLOW),
}
_BROKEN = 10.0
_OF_DEFAULTS = ("DEFAULTS ARE BEST", console.GREEN)  # Where nothing runs that something could be gained of


def _answer(report: PlanReport, _width: int) -> RenderableType:
    fresh = report.verdict == "already_best" and not report.of_running
    word, style = _OF_DEFAULTS if fresh else _HEADS[report.verdict]
    title = console.head(word, f"{report.model} · {report.machine}", style)
    parts: list[RenderableType] = [title, console.dim(_goal(report))]
    if report.reason:
        parts += ["", console.indent_text(report.reason, "bold")]
    if report.hint:
        parts += [console.dim(report.hint)]
    best = None if report.recommended is None else report.options[report.recommended]
    now = report.current
    if now and _stays(report):
        parts += ["", Text(now.name, style="bold"), console.indent_text(_as_it_is(report, now))]
        if now.commands and not report.of_running:
            parts += ["", *map(console.command_text, now.commands)]
    elif best:
        parts += ["", *_recommendation_parts(report, best)]
    if report.options:
        table = console.bare_table()
        table.add_column("", no_wrap=True)
        table.add_column("", overflow="fold", ratio=1)
        for name in _columns(report):
            table.add_column(name, justify="right", no_wrap=True)
        for mark, name, *figures in _rows(report):
            table.add_row(f" {mark}", name, *figures)
        parts += ["", Text("Pareto front of speed, context and quality", style="bold"), table]
    if report.rejected:
        parts += ["", Text("Rejected", style="bold")]
        parts += [Padding(Text(r.what).append(f": {r.because}", "dim"), (0, 0, 0, 2)) for r in report.rejected]
    if report.notes:
        parts += ["", *(console.dim(note) for note in report.notes)]
    return Group(*parts)


def _stays(report: PlanReport) -> bool:
    """Whether what is now is what to take: what runs, or what a runtime does by itself where nothing runs."""
    now = report.current
    return report.verdict == "already_best" and bool(now and not (report.of_running and now.changes))


def _goal(report: PlanReport) -> str:
    goal = report.goal
    floors = [f"at least {goal.least_tokens_per_s:g} tok/s"] if goal.least_tokens_per_s else []
    kept = f" after {goal.kept_tokens:,} cached" if goal.kept_tokens else ""
    users = f", {goal.users} concurrent conversations" if goal.users > 1 else ""
    work = f"{goal.prompt_tokens:,} prompt tokens{kept}, {goal.answer_tokens:,} generated{users}"
    context = [f"context {goal.context:,}"] if goal.context else []
    if goal.context and goal.users > 1 and not (report.of_running or report.runtime in ("vllm", "transformers")):
        # Of all slots together where each has a part of its own, as `unslow fit` says it
        context = [f"context {goal.users * goal.context:,} in {goal.users} slots of {goal.context:,} tokens"]
    return " · ".join((report.runtime, f"goal: {goal.aim}", *context, work, *floors))


def _recommendation_parts(report: PlanReport, best: OptionShown) -> Iterator[RenderableType]:
    yield Text(best.name, style="bold")
    yield console.indent_text(_gain(report, best))
    if best.changes:
        yield ""
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_column(style="dim")
        for change in best.changes:
            was = f" (was {_value(change.was)})" if change.was is not None else ""
            table.add_row(f"  {change.knob.replace('_', ' ')}", f"{_value(change.value, change.knob)}{was}", change.why)
        yield table
    if best.commands:
        yield ""
        yield from map(console.command_text, best.commands)
    for cost in best.costs:
        yield console.dim(f"costs: {cost}")
    if best.risk:
        yield console.dim(f"risk: {best.risk}")


def _speeds(speed: SpeedShown) -> str:
    """What the work takes; of several conversations for each and for all."""
    decode, all_ = speed.decode_tokens_per_s, speed.together_tokens_per_s
    each, together = (" each", f", {rate(all_)} total") if all_ else ("", "")
    said = f"{rate(decode.mid)} tok/s{each} ({rate(decode.low)} to {rate(decode.high)}){together}"
    return f"{said}, prefill {rate(speed.prefill_tokens_per_s.mid)} tok/s, request in {span(speed.request_s.mid)}"


def _gain(report: PlanReport, best: OptionShown) -> str:
    if best.speed is None:
        return ""
    said = _speeds(best.speed)
    now = report.current
    if now and not now.speed and now.measured_tokens_per_s and best.speedup:
        said += f"; {best.speedup:.2f}× the measured {rate(now.measured_tokens_per_s)} tok/s"
    if now and now.speed and best.speedup:
        decode, request_s = now.speed.decode_tokens_per_s.mid, now.speed.request_s.mid
        measured = f", measured {rate(now.measured_tokens_per_s)}" if now.measured_tokens_per_s else ""
        before = f"{rate(decode)} tok/s{measured}, request in {span(request_s)}"
        said += f"; {best.speedup:.2f}× {'the current settings' if report.of_running else now.name} ({before})"
    return said


def _as_it_is(report: PlanReport, now: OptionShown) -> str:
    """What is as good as anything that was found."""
    if now.speed is None:
        return "no better settings found"
    if not report.of_running:
        return f"{_speeds(now.speed)}; the defaults are already the best: no other setting gains 5 %"
    measured = f", measured {rate(now.measured_tokens_per_s)}" if now.measured_tokens_per_s else ""
    each = " each" if now.speed.together_tokens_per_s else ""
    return f"{rate(now.speed.decode_tokens_per_s.mid)} tok/s{each}{measured}: no other setting gains 5 %"


def _value(value: object, knob: str = "") -> str:
    if value is None or (knob, value) == ("gpu_layers", -1):
        return "not set" if value is None else "all"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _columns(report: PlanReport) -> tuple[str, ...]:
    return "tok/s each" if report.goal.users > 1 else "tok/s", "prefill", "request", "quality loss", "VRAM"


def _rows(report: PlanReport) -> Iterator[tuple[str, ...]]:
    """What is now and every option: a mark at what is now and at the one to take, the name, the figures."""
    now, stays = report.current, _stays(report)
    if now:
        is_taken = stays and report.recommended is not None
        yield "now" if report.of_running else "→" if is_taken else "", now.name, *_figures(now)
    for n, option in enumerate(report.options):  # one that is what is now is shown once
        if not (now and now.name.endswith(option.name) and _figures(option) == _figures(now)):
            yield "→" if n == report.recommended and not stays else "", option.name, *_figures(option)


def _figures(option: OptionShown) -> tuple[str, ...]:
    speed, worse = option.speed, option.quality.perplexity_increase
    held = sum(device.total_bytes for device in option.devices)
    costs = "?" if worse is None else _loss(worse), size(held) if held else "-"
    if speed is None:
        return "?", "?", "?", *costs
    rates = rate(speed.decode_tokens_per_s.mid), rate(speed.prefill_tokens_per_s.mid)
    return *rates, span(speed.request_s.mid), *costs


def _loss(increase: float) -> str:
    """An increase of the perplexity; that of a model that is broken as a factor."""
    return f"{increase:.1%}" if increase < _BROKEN else f"×{1 + increase:,.0f}"


def _markdown(report: PlanReport) -> Iterator[str]:
    yield f"# {report.model} on {report.machine}\n\n{_goal(report)}"
    if report.reason:
        yield f"\n**{report.reason}** {report.hint}"
    best = None if report.recommended is None else report.options[report.recommended]
    now = report.current
    if now and _stays(report):
        yield f"\n**{now.name}**: {_as_it_is(report, now)}\n"
        yield from console.commands(() if report.of_running else now.commands)
    elif best:
        yield f"\n**{best.name}**: {_gain(report, best)}\n"
        yield from (f"- {c.knob}: `{_value(c.value, c.knob)}`" + (f" ({c.why})" if c.why else "") for c in best.changes)
        yield from console.commands(best.commands)
        yield from (f"- costs: {cost}" for cost in best.costs)
        yield from ([f"- risk: {best.risk}"] if best.risk else [])
    yield f"\n| | {' | '.join(_columns(report))} |\n|---|---|---|---|---|---|"
    for mark, name, *figures in _rows(report):
        yield f"| {f'{mark} {name}'.strip()} | {' | '.join(figures)} |"
    if report.rejected:
        yield "\nRejected:\n"
        yield from (f"- {r.what}: {r.because}" for r in report.rejected)
    yield from (f"\n{note}" for note in report.notes)


render_plan = console.ReportKind(
    PlanReport, _answer, markdown=lambda report: "\n".join([*_markdown(report), ""]), crop=False
)
