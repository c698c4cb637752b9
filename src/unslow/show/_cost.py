"""The answer of `unslow cost`, for a person or a program: own against rent against API."""

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.show._buy import money, price
from unslow.show._console import YELLOW, Column, dim, head, item, table_of
from unslow.show._kinds import ReportKind
from unslow.show._units import count, rate
from unslow.think.buy.cost_report import CostReport, WayShown
from unslow.think.buy.cost_words import paid_after

_COLUMNS = (
    Column("WAY", right=False), Column("WITH", right=False), Column("PER MILLION"), Column("A MONTH"),
    Column("BUSY"), Column("TOK/S", spare=2), Column("W", spare=3), Column("DEVICE", spare=4),
    Column("POWER", spare=5), Column("PRICE", right=False, spare=1),
)  # fmt: skip
_LITTLE = 0.01
"""Of a day: a share that is not worth a figure."""
_UNIT = {"own": "", "rent": "/h", "rent all day": "/h", "api": "/M"}
"""Of the price."""


def _answer(report: CostReport, width: int) -> RenderableType:
    parts: list[RenderableType] = [_head(report), dim(_use(report)), ""]
    parts.append(table_of(_COLUMNS, (_row(way) for way in report.ways), width, name=1))
    if report.break_even:
        paid = (item(f"{pair.own} {paid_after(pair, report.years)}") for pair in report.break_even)
        parts += ["", Text("When owning pays", style="bold"), *paid]
    reasons = [f"{way.name}, {way.how}: {way.reason}" for way in report.ways if way.reason]
    parts += ["", *(dim(text) for text in (*dict.fromkeys(reasons), *report.assumptions, *report.notes))]
    return Group(*parts)


def _head(report: CostReport) -> Text:
    best = report.ways[0] if report.ways else None
    if best is None or best.per_million is None or not best.enough:
        return head(
            "CAN'T TELL", f"{report.asked.model} {report.asked.quant}: no way has a price and can do it", YELLOW
        )
    what = f"{best.name}, {best.how}" if best.how != "api" else best.name
    return head(
        f"{money(best.per_million)} {report.currency}", f"a million generated tokens of {report.asked.model}: {what}"
    )


def _use(report: CostReport) -> str:
    use = report.use
    return (
        f"{count(use.tokens_per_day)} tokens a day are generated and {count(use.prompt_tokens_per_day)} read, "
        f"{report.asked.context:,} tokens in the context; {report.currency}, a kWh {report.electricity_per_kwh:g}"
    )


def _row(way: WayShown) -> tuple[str, ...]:
    rig = way.rig
    return (
        way.how, way.name, money(way.per_million), money(way.per_month),
        _share(way.busy_share),
        rate(rig.speed.decode_tokens_per_s.mid) if rig and rig.speed else "-", money(way.watts) if way.watts else "-",
        money(way.capital_per_month) if way.capital_per_month is not None else "-",
        money(way.power_per_month) if way.power_per_month is not None else "-",
        price(way.price, _UNIT[way.how]),
    )  # fmt: skip


def _share(share: float | None) -> str:
    return "-" if share is None else "<1%" if share < _LITTLE else f"{share:.0%}"


render_cost = ReportKind(CostReport, _answer)
