"""The answer of `unslow choose`, for a person or a program: what to buy, and why not something else."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._buy import memory, money, price, speed, work
from unslow.show._console import YELLOW, Column, dim, head, indented, item, table_of
from unslow.show._kinds import ReportKind
from unslow.show._units import rate
from unslow.think.buy.choice_report import ChoiceReport, OfferShown, RefusedShown

_COLUMNS = (
    Column("", right=False), Column("BUY", right=False), Column("GB"), Column("QUANT", right=False),
    Column("TOK/S"), Column("80 %", right=False), Column("PROMPT", spare=2),
    Column("80 %", right=False, spare=2), Column("WITH", right=False, spare=4), Column("PAY"),
    Column("PRICE", right=False, spare=3), Column("W", spare=1),
)  # fmt: skip


def _answer(report: ChoiceReport, width: int) -> RenderableType:
    parts: list[RenderableType] = [_head(report), dim(_asked(report))]
    offers = ([report.chosen] if report.chosen else []) + list(report.runners_up)
    if report.chosen:
        parts += ["", *(item(reason) for reason in (*report.chosen.reasons, *report.chosen.rig.notes))]
    if offers:
        rows = (_row(offer, chosen=offer is report.chosen) for offer in offers)
        parts += ["", table_of(_COLUMNS, rows, width, name=1)]
    if report.ways:
        parts += ["", Text("What would have to give", style="bold"), *(item(way.words) for way in report.ways)]
    if report.refused:
        parts += ["", Text("Refused", style="bold"), *_refused(report)]
    parts += ["", *(dim(text) for text in (*report.assumptions, *report.notes))]
    return Group(*parts)


def _head(report: ChoiceReport) -> Text:
    best = report.chosen
    if best is None:
        where = f" within {money(report.budget)} {report.currency}" if report.budget is not None else ""
        goal = f" reaches {report.goal_tokens_per_s:g} tok/s" if report.goal_tokens_per_s else " holds it"
        return head("NOTHING", f"{report.asked.model}: nothing{where}{goal}", YELLOW)
    pay = "nothing to pay" if best.total == 0 else f"{money(best.total)} {report.currency}"
    pay = "price not known" if best.total is None else pay
    middle = f", {rate(best.rig.speed.each_tokens_per_s.mid)} tok/s" if best.rig.speed else ""
    return head(best.rig.name, f"{report.asked.model} {best.rig.quant}{middle} · {pay}")


def _asked(report: ChoiceReport) -> str:
    said = [f"{report.asked.context:,} tokens in the context"] if report.chosen else [work(report.asked)]
    if report.asked.users > 1 and report.chosen:
        said.append(f"{report.asked.users} conversations at once")
    if report.goal_tokens_per_s:
        said.append(
            f"goal {report.goal_tokens_per_s:g} tok/s each"
            if report.asked.users > 1
            else f"goal {report.goal_tokens_per_s:g} tok/s"
        )
    if report.budget is not None:
        said.append(f"budget {money(report.budget)} {report.currency}")
    if report.have:
        said.append(f"there is {report.have}")
    return " · ".join(said)


def _row(offer: OfferShown, *, chosen: bool) -> tuple[str, ...]:
    rig = offer.rig
    middle, ends = speed(rig.speed.each_tokens_per_s if rig.speed else None)
    prompt, prompt_ends = speed(rig.speed.prefill_tokens_per_s if rig.speed else None)
    return (
        "→" if chosen else "", rig.name, memory(rig.memory_bytes), rig.quant, middle, ends,
        prompt, prompt_ends, rig.speed.backend if rig.speed else "", money(offer.total), price(rig.price),
        f"{rig.tdp_w:,.0f}" if rig.tdp_w else "?",
    )  # fmt: skip


def _refused(report: ChoiceReport) -> Iterator[RenderableType]:
    for heap in report.refused:
        yield item(f"{heap.count}: {heap.words}")
        near = "; ".join(_near(offer, heap) for offer in heap.nearest)
        yield indented(f"nearest: {near}", "dim", 4)


def _near(offer: OfferShown, heap: RefusedShown) -> str:
    cost = "" if offer.total is None else f" ({money(offer.total)})"
    if heap.why == "does_not_fit" or offer.rig.speed is None:
        return f"{offer.rig.name}{cost}"
    each = offer.rig.speed.each_tokens_per_s
    return f"{offer.rig.name}{cost} {rate(each.low)} low, {rate(each.mid)} middle"


render_choose = ReportKind(ChoiceReport, _answer)
