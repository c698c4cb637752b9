"""The pages that a browser opens.

The diagnosis, the buyer's questions with their answers, and what to show while there is neither.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import quote

from unslow.buy.cost import CostReport, WayShown, paid_after
from unslow.buy.offers import ChoiceReport, OfferShown, RefusedShown
from unslow.buy.report import DevicesReport, PriceShown, RigShown
from unslow.buy.tiers import MissesShown, RunsShown, TierShown, TiersReport
from unslow.facts.errors import UserError
from unslow.page.html.document import Serving, Tab, document, framed
from unslow.page.html.markup import NOTHING, Child, Markup, joined, sentence, tag
from unslow.page.server.endpoints import CHOOSE, COST, DEVICES, TIERS, Parameter
from unslow.page.server.live_run import offers_of
from unslow.page.server.runs import BusyError
from unslow.page.server.state import ServerState
from unslow.show.units import count, rate, size
from unslow.think.speed.report import RateShown

_MODEL = "qwen3-8b"
_LEAD = (
    "Speeds are predicted from the catalogue of devices by the same physics as the diagnosis. Prices are dated and may "
    "be old: your own always win."
)


class BuyerForm(NamedTuple):
    """A form: which endpoint it asks, what it shows at once, and what is folded."""

    name: str
    title: str
    words: str
    parameters: Sequence[Parameter]
    first: tuple[str, ...]
    """The fields that are shown; all others are folded."""
    example: dict[str, str]
    """What the fields hold at first."""


BUYER_FORMS = (
    BuyerForm(
        "choose",
        "Which one to buy",
        "The single or double card, Mac or small computer that reaches your speed within your budget, and why.",
        CHOOSE,
        ("model", "context", "budget", "goal"),
        {"model": _MODEL, "context": "8192", "budget": "1500", "goal": "20"},
    ),
    BuyerForm(
        "devices",
        "Compare devices",
        "Side by side for a model: does it fit, how fast, what each token per second costs, watts.",
        DEVICES,
        ("device", "model", "context", "sort"),
        {"device": "RTX 3090, RTX 4090, RTX 5090", "model": _MODEL, "context": "8192"},
    ),
    BuyerForm(
        "cost",
        "Own, rent or an API",
        "The price of a million tokens each way, and after how many months a device of your own has paid off.",
        COST,
        ("model", "device", "tokens_per_day", "electricity"),
        {"model": _MODEL, "device": "RTX 4090", "tokens_per_day": "1000000", "electricity": "0.30"},
    ),
    BuyerForm(
        "tiers",
        "What can I run",
        "The largest well-known models for each size of memory, computed for every one of the catalogue.",
        TIERS,
        ("memory", "context"),
        {"memory": "8,12,16,24,48", "context": "8192"},
    ),
)


def buyers_content() -> Markup:
    """All forms, each with a place for its answer."""
    ways = [tag("a", question.title, href=f"#{question.name}") for question in BUYER_FORMS]
    nav = tag("nav", *ways, class_="contents", aria_label="On this page")
    forms = tag("div", *map(_section, BUYER_FORMS), class_="panels")
    return joined([tag("p", _LEAD, class_="quiet"), nav, forms])


def _section(question: BuyerForm) -> Markup:
    answer = f"{question.name}-answer"
    first = [p for p in question.parameters if p.name in question.first]
    more = [p for p in question.parameters if p.name not in question.first]
    shown = sorted(first, key=lambda parameter: question.first.index(parameter.name))
    form = tag(
        "form",
        tag("div", *(_form_field(question, parameter) for parameter in shown), class_="fields"),
        tag(
            "details",
            tag("summary", "More"),
            tag("div", *(_form_field(question, parameter) for parameter in more), class_="fields"),
        ),
        tag("button", "Ask", type="submit", class_="ask"),
        data_ask=f"{question.name}.html",
        data_into=answer,
        autocomplete="off",
        aria_labelledby=f"{question.name}-title",
    )
    return tag(
        "section",
        tag("h2", question.title, id=f"{question.name}-title"),
        tag("p", question.words, class_="quiet"),
        form,
        tag("div", id=answer, aria_live="polite", class_="bought"),
        id=question.name,
        class_="panel wide",
        aria_labelledby=f"{question.name}-title",
    )


def _form_field(question: BuyerForm, parameter: Parameter) -> Markup:
    identity = f"{question.name}-{parameter.name}"
    name = parameter.name.replace("_", " ")
    if parameter.kind == "switch":
        box = tag("input", type="checkbox", id=identity, name=parameter.name, value="true")
        return tag("label", tag("span", box, f" {name}: {parameter.words}"), for_=identity)
    words = tag("small", parameter.words, id=f"{identity}-words")
    return tag("label", tag("span", name.capitalize()), _entry(question, parameter, identity), words, for_=identity)


def _entry(question: BuyerForm, parameter: Parameter, identity: str) -> Markup:
    said = f"{identity}-words"
    if parameter.choices:
        options = [tag("option", choice or "as usual", value=choice) for choice in ("", *parameter.choices)]
        return tag("select", *options, id=identity, name=parameter.name, aria_describedby=said)
    value = question.example.get(parameter.name)
    needed = parameter.needed
    return tag(
        "input", type="text", id=identity, name=parameter.name, value=value, required=needed, aria_describedby=said
    )


BUY = "buy"
WAIT_S = 0.8
"""How long a browser waits for the first look; then a page says that it takes a moment, and waits on."""


def page_of(desk: ServerState, wanted: str, serving: Serving) -> str:
    """The page of that name; one that says what is wrong, where there is nothing to show."""
    secret = quote(serving.token)
    tabs = (
        Tab("Diagnosis", f"/?token={secret}", wanted != BUY),
        Tab("What to buy", f"/?view={BUY}&token={secret}", wanted == BUY),
    )
    if wanted == BUY:
        return framed("unslow: what to buy", buyers_content(), serving=serving, tabs=tabs)
    desk.look_again()
    try:
        seen = desk.seen(WAIT_S)
    except BusyError as error:
        # A page that asks again at once, with or without a script; the next answer comes when there is something
        page = framed("unslow", tag("p", sentence(error.message), role="status", class_="empty"), serving=serving)
        return page.replace("<head>", '<head><meta http-equiv="refresh" content="0">', 1)
    except UserError as error:
        desk.was_told = True
        again = "When that is done, load this page again." if desk.is_live else ""
        said = joined([
            tag("p", sentence(error.message), role="alert"), tag("p", sentence(error.hint), " ", again)
        ])  # fmt: skip
        return framed("unslow: nothing to show", said, serving=serving, tabs=tabs)
    desk.was_opened()
    return document(
        seen.view, live=True, nonce=serving.nonce, token=serving.token, offers=offers_of(seen, desk.wanted), tabs=tabs
    )


_FLAG = re.compile(r'(`[^`]*`)|--([a-z]+(?:-[a-z]+)*)(?: "([^"]{0,80})")?')
"""A flag of the answer that the page shows; one inside backquotes is of a command to type, which stays as it is."""


def between(speed: RateShown) -> Markup:
    """The middle, and the ends below it."""
    return joined([tag("b", rate(speed.mid)), tag("small", f" {rate(speed.low)} to {rate(speed.high)}")])


def price(shown: PriceShown | None, unit: str = "") -> Markup:
    """A price with its kind and date, so that an old one is seen to be old."""
    if shown is None:
        return joined(["-"])
    kind = " ".join(word for word in (shown.kind, shown.date, "old" if shown.old else "") if word)
    return joined(
        [f"{money(shown.amount, shown.currency)}{unit}", tag("small", f" {kind}", title=shown.source or None)]
    )


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency."""
    if amount is None:
        return "price unknown"
    digits = 0 if amount >= 100 or not amount else 2  # noqa: PLR2004 (three digits)
    return f"{amount:,.{digits}f} {currency}"


def users(count: int) -> str:
    """How many talk to it at once."""
    return "one user" if count == 1 else f"{count:,} users at once"


def by_field(text: str) -> str:
    """Words of the terminal with its flags as the fields of the page: `--price "A=1"` as “Price”: A=1."""
    return _FLAG.sub(_field, text)


def _field(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    name = f"“{found[2].replace('-', ' ').capitalize()}”"
    return f"{name}: {found[3]}" if found[3] else name


def notes(said: Iterable[str]) -> Markup:
    """Remarks below a table."""
    items = [tag("li", sentence(by_field(note))) for note in said]
    return tag("ul", *items, class_="notes") if items else NOTHING


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    """A table whose first column names the row; where it is too wide it scrolls, and can be reached by key."""
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    body = tag(
        "tbody", *(tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    )
    shown = tag("table", tag("caption", caption, class_="for-ears"), head, body, class_="numbers")
    return tag("div", shown, class_="scroll", tabindex=0, role="region", aria_label=caption)


_WAYS = ("Way", "Price", "A million generated", "A month", "Electricity a month", "Busy", "Enough")
_UNIT = {"own": "", "rent": " an hour", "rent all day": " an hour", "api": " a million"}
"""Of the price."""
_RUNS = ("Model", "Size", "Quant", "Longest context", "Answers, tok/s")


def cost(report: CostReport) -> Markup:
    """Own against rent against an API, the cheapest first."""
    asked, use = report.asked, report.use
    lead = (
        f"{asked.model} {asked.quant}, {use.tokens_per_day:,.0f} tokens a day with {use.prompt_tokens_per_day:,.0f} of "
        f"prompts, {users(asked.users)}, {report.years:g} years, {report.electricity_per_kwh:g} {report.currency} a kWh"
    )
    rows = [_way(way, report.currency) for way in report.ways]
    even = [f"{one.own} {paid_after(one, report.years)}." for one in report.break_even]
    return joined([
        tag("p", lead, class_="quiet"),
        table("What tokens cost each way", _WAYS, rows),
        tag("ul", *(tag("li", said) for said in even), class_="notes") if even else NOTHING,
        notes([*report.assumptions, *report.notes]),
    ])  # fmt: skip


def _way(way: WayShown, currency: str) -> list[Child]:
    enough = {True: "✓ yes", False: "✗ no", None: "?"}[way.enough]
    busy = f"{way.busy_share:.0%}" if way.busy_share is not None else "-"
    name = joined([f"{way.how}: {way.name}", tag("small", f" {by_field(way.reason)}") if way.reason else NOTHING])
    sums = [way.per_million, way.per_month, way.power_per_month]
    return [
        name,
        price(way.price, _UNIT[way.how]),
        *(money(one, currency) if one is not None else "-" for one in sums),
        busy,
        enough,
    ]


def tiers(report: TiersReport) -> Markup:
    """What each size of memory runs."""
    lead = f"{report.models:,} models, context {report.context:,}, no quant below {report.quant_least}"
    return joined([tag("p", lead, class_="quiet"), *map(_tier, report.tiers), notes(report.notes)])


def _tier(tier: TierShown) -> Markup:
    title = f"{size(tier.memory_bytes)}{' unified' if tier.unified else ''}"
    typical = f"Speeds on {tier.device}, one of {tier.devices} with so much." if tier.device else ""
    rows = [_runs(one) for one in tier.runs]
    return joined([
        tag("h3", title),
        tag("p", typical, class_="quiet") if typical else NOTHING,
        table(f"What runs in {title}", _RUNS, rows) if rows else tag("p", "Nothing of the catalogue fits whole."),
        _misses(tier.misses),
    ])  # fmt: skip


def _runs(one: RunsShown) -> list[Child]:
    alike = f" and {one.alike} alike" if one.alike else ""
    context = f"{one.most_context:,}" if one.most_context else "-"
    speed = between(one.tokens_per_s) if one.tokens_per_s else "-"
    experts = " with experts" if one.is_sparse else ""
    return [f"{one.model}{alike}", f"{count(one.parameters)}{experts}", one.quant, context, speed]


def _misses(misses: tuple[MissesShown, ...]) -> Markup:
    items = [
        f"{one.model} {one.quant} lacks {size(one.lacks_bytes)}{f': {one.would_fit}' * bool(one.would_fit)}"
        for one in misses
    ]
    return tag("details", tag("summary", "What just does not fit"), notes(items)) if items else NOTHING


FITS = {"whole": "✓ fits", "partly": "! in part", "no": "✗ does not fit", "unknown": "? unknown"}
_HEADS = ("Device", "Memory", "Fits", "Answers, tok/s", "Prompts, tok/s", "Price", "Per tok/s", "Watts")


def devices(report: DevicesReport) -> Markup:
    """Devices side by side."""
    asked = report.asked
    lead = f"{asked.model} {asked.quant}, context {asked.context:,}, {users(asked.users)}" if asked else "The catalogue"
    rows = [_device(rig, report.currency) for rig in report.devices]
    return joined([tag("p", lead, class_="quiet"), table("Devices side by side", _HEADS, rows), notes(report.notes)])


def choose(report: ChoiceReport) -> Markup:
    """What to buy, the runners-up, what was refused, and what would have to give."""
    best = report.chosen
    head = _best(best, report) if best else _nothing(report)
    reasons = notes([*best.reasons, *best.rig.notes]) if best else NOTHING
    offers = [offer for offer in (best, *report.runners_up) if offer]
    heads = (_HEADS[0], "To pay", "Quant", *_HEADS[1:5], _HEADS[-1])
    rows = [_offer(offer, report.currency, first=offer is best) for offer in offers]
    shown = table("The choice and the runners-up", heads, rows) if rows else NOTHING
    said = notes([*report.assumptions, *report.notes])
    asked = report.asked
    each = " each" if asked.users > 1 else ""
    goal = f", goal {report.goal_tokens_per_s:g} tok/s{each}" if report.goal_tokens_per_s else ""
    budget = f", {money(report.budget, report.currency)} at most" if report.budget is not None else ""
    lead = f"{asked.model}, context {asked.context:,}, {users(asked.users)}{goal}{budget}"
    return joined(
        [head, tag("p", lead, class_="quiet"), reasons, shown, _refused(report.refused, report.currency), said]
    )


def _best(offer: OfferShown, report: ChoiceReport) -> Markup:
    pay = {None: ", whose price is not known", 0.0: ", with nothing to pay"}
    said = pay.get(offer.total, f" for {money(offer.total, report.currency)}")
    return tag("p", tag("strong", offer.rig.name), said, class_="best")


def _nothing(report: ChoiceReport) -> Markup:
    said = tag("strong", "Nothing of the catalogue does it.")
    if not report.ways:
        return tag("p", said, " What was refused says why.")
    ways = tag("ul", *(tag("li", sentence(by_field(way.words))) for way in report.ways))
    return joined([tag("p", said, " What would have to give:"), ways])


def _offer(offer: OfferShown, currency: str, *, first: bool) -> list[Child]:
    rig = offer.rig
    name = tag("strong", rig.name) if first else rig.name
    return [name, money(offer.total, currency), rig.quant, *_rig(rig), _watts(rig)]


def _refused(refused: Sequence[RefusedShown], currency: str) -> Markup:
    if not refused:
        return NOTHING
    items = [
        tag("li", sentence(by_field(f"{heap.count:,}: {heap.words}")), _nearest(heap, currency)) for heap in refused
    ]
    return tag("details", tag("summary", "What was refused, and why"), tag("ul", *items))


def _nearest(heap: RefusedShown, currency: str) -> Markup:
    names = [f"{offer.rig.name} ({money(offer.total, currency)})" for offer in heap.nearest]
    return tag("small", f" Nearest: {', '.join(names)}.") if names else NOTHING


def _device(rig: RigShown, currency: str) -> list[Child]:
    each = money(rig.price_per_token_per_s, currency) if rig.price_per_token_per_s else "-"
    return [rig.name, *_rig(rig), price(rig.price), each, _watts(rig)]


def _watts(rig: RigShown) -> str:
    return f"{rig.tdp_w:,.0f}" if rig.tdp_w else "-"


def _rig(rig: RigShown) -> list[Child]:
    """Memory, whether it fits, and the two speeds: of one conversation, and of reading."""
    memory = size(rig.memory_bytes) if rig.memory_bytes else "-"
    if not rig.speed:
        return [memory, joined([FITS[rig.fits], tag("small", rig.reason) if rig.reason else NOTHING]), "-", "-"]
    return [memory, FITS[rig.fits], between(rig.speed.each_tokens_per_s), between(rig.speed.prefill_tokens_per_s)]
