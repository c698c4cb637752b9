"""The answers of `unslow devices`, `choose`, `cost` and `tiers`, for a person or a program."""

from rich.console import Group, RenderableType
from rich.text import Text

from unslow.buy.cost import CostReport, WayShown, break_even_words
from unslow.buy.devices import NOTE_ON_JOULES
from unslow.buy.offers import ChoiceReport, OfferShown
from unslow.buy.report import AskedShown, DevicesReport, PriceShown, RigShown
from unslow.buy.tiers import RunsShown, TiersReport
from unslow.show.console import YELLOW, Column, ReportKind, dim, head, indent_text, item, table_of, verdict_head
from unslow.show.units import GB, GIB, count, rate, size, span
from unslow.think.speed.report import RateShown

_TEN = 10
_HUNDRED = 100
_LITTLE = 0.01  # Of a day: a share that is not worth a figure
_UNIT = {"own": "", "rent": "/h", "rent all day": "/h", "api": "/M"}  # Of the price
_PLAIN = (
    Column("DEVICE", right=False), Column("GB"), Column("GB/s"), Column("W"), Column("YEAR"),
    Column("PRICE"), Column("MAKER", right=False, spare=1), Column("KIND", right=False, spare=2),
)  # fmt: skip
_FULL = (
    Column("DEVICE", right=False), Column("GB"), Column("GB/s", spare=5), Column("FITS", right=False),
    Column("TOK/S"), Column("80 %", right=False, spare=1), Column("PREFILL", spare=3),
    Column("80 %", right=False, spare=3), Column("WITH", right=False, spare=3), Column("TTFT", spare=4),
    Column("PRICE"), Column("PER T/S"), Column("W", spare=2), Column("TOK/J", spare=6), Column("YEAR", spare=7),
)  # fmt: skip
_COLUMNS = (
    Column("", right=False), Column("BUY", right=False), Column("GB"), Column("QUANT", right=False),
    Column("TOK/S"), Column("80 %", right=False), Column("PREFILL", spare=2),
    Column("80 %", right=False, spare=2), Column("WITH", right=False, spare=4), Column("PAY"),
    Column("PRICE", right=False, spare=3), Column("W", spare=1),
)  # fmt: skip
_COST_COLUMNS = (
    Column("WAY", right=False), Column("WITH", right=False), Column("PER MILLION"), Column("PER MONTH"),
    Column("BUSY"), Column("TOK/S", spare=2), Column("W", spare=3), Column("DEVICE", spare=4),
    Column("POWER", spare=5), Column("PRICE", right=False, spare=1),
)  # fmt: skip
_TIERS_COLUMNS = (
    Column("  MODEL", right=False), Column("PARAMS", spare=2), Column("QUANT", right=False), Column("WEIGHTS"),
    Column("MAX CONTEXT"), Column("TOK/S"), Column("80 %", right=False, spare=1),
    Column("PREFILL", spare=3), Column("80 %", right=False, spare=4), Column("WITH", right=False, spare=5),
)  # fmt: skip


def _devices_answer(report: DevicesReport, width: int) -> RenderableType:
    asked, count = report.asked, len(report.devices)
    if asked is None:
        every = report.catalogue_devices
        of_all = f" of {every:,} in the catalog (--all lists them)" if every and count < every else ""
        title = head(f"{count}", f"device{'' if count == 1 else 's'}{of_all}")
        rows = (
            (
                rig.name, memory_words(rig.memory_bytes), _whole_number(rig.bytes_per_s, GB), _whole_number(rig.tdp_w),
                str(rig.year or "?"), price_words(rig.price), rig.vendor, rig.kind,
            )
            for rig in report.devices
        )  # fmt: skip
        table = table_of(_PLAIN, rows, width)
        return Group(title, "", table, "", *(dim(note) for note in report.notes))
    order = f", by {report.sorted_by}" if report.sorted_by else ""
    title = head(f"{asked.model} {asked.quant}", f"on {count} device{'' if count == 1 else 's'}{order}")
    table = table_of(_FULL, (_full_row(rig, asked.users) for rig in report.devices), width)
    about = dim(
        f"{work_words(asked)}; first token after a {asked.prompt_tokens:,}-token prompt; prices in {report.currency}"
    )
    names: dict[str, list[str]] = {}
    for rig in report.devices:
        if rig.reason:
            names.setdefault(rig.reason, []).append(rig.name)
    notes = []
    for reason, those in names.items():
        more = f" and {len(those) - 3} more" if len(those) > 3 else ""  # noqa: PLR2004 (a line's worth)
        notes.append(f"{', '.join(those[:3])}{more}: {reason}")
    is_shown = any(column.header == "TOK/J" for column in table.columns)  # it goes first where there is no room
    notes += [note for note in report.notes if is_shown or note != NOTE_ON_JOULES]
    return Group(title, about, "", table, "", *map(dim, notes))


def _full_row(rig: RigShown, users: int) -> tuple[str, ...]:
    found, fits = rig.speed, str(rig.fits).replace("unknown", "?")
    if found and rig.fits == "partly" and found.gpu_layers is not None:
        fits = f"{found.gpu_layers} layers"
    each = found.each_tokens_per_s if found and users > 1 else found.decode_tokens_per_s if found else None
    middle, ends = speed_words(each)
    prompt, prompt_ends = speed_words(found.prefill_tokens_per_s if found else None)
    return (
        rig.name, memory_words(rig.memory_bytes), _whole_number(rig.bytes_per_s, GB), fits, middle, ends, prompt,
        prompt_ends, found.backend if found else "", span(found.first_token_s.mid) if found else "-",
        price_words(rig.price), money_words(rig.price_per_token_per_s) if rig.price_per_token_per_s else "-",
        _whole_number(rig.tdp_w), f"{rig.tokens_per_joule_by_tdp:.2g}" if rig.tokens_per_joule_by_tdp else "-",
        str(rig.year or "?"),
    )  # fmt: skip


def _whole_number(number: float | None, unit: int = 1) -> str:
    return f"{number / unit:,.0f}" if number else "?"


render_devices = ReportKind(DevicesReport, _devices_answer)


def _answer(report: ChoiceReport, width: int) -> RenderableType:
    said = [f"{report.asked.context:,} tokens of context"] if report.chosen else [work_words(report.asked)]
    if report.asked.users > 1 and report.chosen:
        said.append(f"{report.asked.users} concurrent requests")
    if report.goal_tokens_per_s:
        said.append(f"goal {report.goal_tokens_per_s:g} tok/s{' each' if report.asked.users > 1 else ''}")
    if report.budget is not None:
        said.append(f"budget {money_words(report.budget)} {report.currency}")
    if report.have:
        said.append(f"you have {report.have}")
    parts: list[RenderableType] = [_head(report), dim(" · ".join(said))]
    offers = ([report.chosen] if report.chosen else []) + list(report.runners_up)
    if report.chosen:
        parts += ["", *(item(reason) for reason in (*report.chosen.reasons, *report.chosen.rig.notes))]
    if offers:
        rows = (_row(offer, chosen=offer is report.chosen) for offer in offers)
        parts += ["", table_of(_COLUMNS, rows, width, name=1)]
    if report.ways:
        parts += ["", Text("What would make it possible", style="bold"), *(item(way.words) for way in report.ways)]
    if report.refused:
        parts += ["", Text("Ruled out", style="bold")]
    for heap in report.refused:
        near = []
        for offer in heap.nearest:
            cost = "" if offer.total is None else f" ({money_words(offer.total)})"
            speed = offer.rig.speed.each_tokens_per_s if offer.rig.speed and heap.why != "does_not_fit" else None
            told = f" {rate(speed.mid)} tok/s, low end {rate(speed.low)}" if speed else ""
            near.append(f"{offer.rig.name}{cost}{told}")
        parts += [item(f"{heap.count}: {heap.words}"), indent_text(f"closest: {'; '.join(near)}", "dim", 4)]
    parts += ["", *(dim(text) for text in (*report.assumptions, *report.notes))]
    return Group(*parts)


def _head(report: ChoiceReport) -> Text:
    best = report.chosen
    if best is None:
        where = f" within {money_words(report.budget)} {report.currency}" if report.budget is not None else ""
        goal = f" reaches {report.goal_tokens_per_s:g} tok/s" if report.goal_tokens_per_s else " fits it"
        return head("NOTHING", f"{report.asked.model}: nothing{where}{goal}", YELLOW)
    pay = "nothing to buy" if best.total == 0 else f"{money_words(best.total)} {report.currency}"
    pay = "price unknown" if best.total is None else pay
    middle = f", {rate(best.rig.speed.each_tokens_per_s.mid)} tok/s" if best.rig.speed else ""
    return head(best.rig.name, f"{report.asked.model} {best.rig.quant}{middle} · {pay}")


def _row(offer: OfferShown, *, chosen: bool) -> tuple[str, ...]:
    rig = offer.rig
    middle, ends = speed_words(rig.speed.each_tokens_per_s if rig.speed else None)
    prompt, prompt_ends = speed_words(rig.speed.prefill_tokens_per_s if rig.speed else None)
    return (
        "→" if chosen else "", rig.name, memory_words(rig.memory_bytes), rig.quant, middle, ends,
        prompt, prompt_ends, rig.speed.backend if rig.speed else "", money_words(offer.total), price_words(rig.price),
        _whole_number(rig.tdp_w),
    )  # fmt: skip


render_choose = ReportKind(ChoiceReport, _answer)


def _cost_answer(report: CostReport, width: int) -> RenderableType:
    best = report.ways[0] if report.ways else None
    if best is None or best.per_million is None or not best.enough:
        untold = f"{report.asked.model} {report.asked.quant}: no option has a price and enough capacity"
        title = verdict_head("cannot_tell", untold)
    else:
        what = f"{best.name}, {best.how}" if best.how != "api" else best.name
        price = f"{money_words(best.per_million)} {report.currency}"
        title = head(price, f"per million generated tokens of {report.asked.model}: {what}")
    generated, read = count(report.use.tokens_per_day), count(report.use.prompt_tokens_per_day)
    use = (
        f"per day {generated} generated and {read} prompt tokens, {report.asked.context:,} tokens of context; "
        f"prices in {report.currency}, electricity {report.electricity_per_kwh:g} per kWh"
    )
    table = table_of(_COST_COLUMNS, (_cost_row(way) for way in report.ways), width, name=1)
    parts: list[RenderableType] = [title, dim(use), "", table]
    if report.break_even:
        paid = (item(f"{pair.own} {break_even_words(pair, report.years)}") for pair in report.break_even)
        parts += ["", Text("Break-even", style="bold"), *paid]
    reasons = [f"{way.name}, {way.how}: {way.reason}" for way in report.ways if way.reason]
    parts += ["", *(dim(text) for text in (*dict.fromkeys(reasons), *report.assumptions, *report.notes))]
    return Group(*parts)


def _cost_row(way: WayShown) -> tuple[str, ...]:
    rig, share = way.rig, way.busy_share
    busy = "-" if share is None else "<1%" if share < _LITTLE else f"{share:.0%}"
    return (
        way.how, way.name, money_words(way.per_million), money_words(way.per_month),
        busy, rate(rig.speed.decode_tokens_per_s.mid) if rig and rig.speed else "-",
        money_words(way.watts) if way.watts else "-",
        money_words(way.capital_per_month) if way.capital_per_month is not None else "-",
        money_words(way.power_per_month) if way.power_per_month is not None else "-",
        price_words(way.price, _UNIT[way.how]),
    )  # fmt: skip


render_cost = ReportKind(CostReport, _cost_answer)


def _tiers_answer(report: TiersReport, width: int) -> RenderableType:
    room = f"with {report.context:,} tokens of context, in {report.quant_least} or finer"
    asked = f"the largest models that fit completely, one per family, {room}"
    parts: list[RenderableType] = [head(f"{report.models} models", "what each memory size runs"), dim(asked)]
    for tier in report.tiers:
        kind = " shared" if tier.unified else ""
        text = Text(f"{memory_words(tier.memory_bytes)} GB{kind}", style="bold")
        if tier.device and tier.bytes_per_s:
            typical = f"  {tier.device}, {tier.bytes_per_s / GB:,.0f} GB/s, typical of {tier.devices} devices"
            text.append(typical, "dim not bold")
        nothing = dim("no model in the catalog fits")
        runs = table_of(_TIERS_COLUMNS, map(_tiers_row, tier.runs), width) if tier.runs else nothing
        parts += ["", text, runs]
        for missed in tier.misses:
            instead = f"; fits {missed.would_fit}" if missed.would_fit else ""
            parts.append(dim(f"too large by {size(missed.lacks_bytes)}: {missed.model} {missed.quant}{instead}"))
    return Group(*parts, "", *(dim(note) for note in report.notes))


def _tiers_row(one: RunsShown) -> tuple[str, ...]:
    middle, ends = speed_words(one.tokens_per_s)
    prompt, prompt_ends = speed_words(one.prefill_tokens_per_s)
    alike = f" +{one.alike} alike" if one.alike else ""
    longest = f"{one.most_context:,}" if one.most_context else "?"
    return (
        f"  {one.model}{alike}", count(one.parameters), one.quant, size(one.weights_bytes), longest, middle, ends,
        prompt, prompt_ends, one.backend,
    )  # fmt: skip


render_tiers = ReportKind(TiersReport, _tiers_answer)


def work_words(asked: AskedShown) -> str:
    """What was asked of every device."""
    users = f", {asked.users} concurrent requests" if asked.users > 1 else ""
    kv = "" if asked.kv_type == "f16" else f", {asked.kv_type} KV cache"
    return f"{size(asked.weights_bytes)} of weights, {asked.context:,} tokens of context{users}{kv}"


def speed_words(found: RateShown | None) -> tuple[str, str]:
    """The middle, and the ends beside it."""
    return (rate(found.mid), f"{rate(found.low)}-{rate(found.high)}") if found else ("-", "")


def memory_words(count: int | None) -> str:
    """As memory is sold."""
    return "?" if not count else f"{count / GIB:,.0f}" if count >= _HUNDRED * GIB else f"{count / GIB:.3g}"


def price_words(found: PriceShown | None, unit: str = "") -> str:
    """A price with what kind it is; a star where it was seen long ago."""
    if found is None:
        return "?"
    star = "*" if found.old and found.kind not in ("launch", "yours") else ""
    return f"{money_words(found.amount)}{unit} {found.kind}{star}"


def money_words(amount: float | None) -> str:
    """An amount with as many digits as are worth reading."""
    if amount is None:
        return "?"
    if amount >= _HUNDRED or not amount:
        return f"{amount:,.0f}"
    return f"{amount:,.1f}" if amount >= _TEN else f"{amount:,.2f}"
