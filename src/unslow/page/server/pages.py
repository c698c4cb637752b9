"""The pages that a browser opens: the diagnosis, and the forms that ask what to buy."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from unslow.facts.errors import UserError
from unslow.page.html.document import Serving, Tab, document, frame_page
from unslow.page.html.markup import Markup, join_markup, sentence, tag
from unslow.page.server.endpoints import CHOOSE, COST, DEVICES, TIERS
from unslow.page.server.live_run import offers_of
from unslow.page.server.parameters import Parameter
from unslow.page.server.runs import BusyError
from unslow.page.server.state import ServerState

BUY = "buy"
WAIT_S = 0.8  # How long a browser waits for the first look; then a page says that it takes a moment, and waits on
_MODEL = "qwen3-8b"
_LEAD = (
    "Speeds are predicted from the device catalog with the same physics as the diagnosis. Prices are dated and may "
    "be old: those that you enter take precedence."
)


class BuyerForm(NamedTuple):
    """A form: which endpoint it asks, what it shows at once, and what is folded."""

    name: str
    title: str
    words: str
    parameters: Sequence[Parameter]
    first: dict[str, str]  # The fields that are shown, and what they hold at first; all others are folded


BUYER_FORMS = (
    BuyerForm(
        "choose",
        "Choose hardware",
        "The one- or two-card PC, Mac or mini PC that reaches your speed within your budget, and why.",
        CHOOSE,
        {"model": _MODEL, "context": "8192", "budget": "1500", "goal": "20"},
    ),
    BuyerForm(
        "devices",
        "Compare devices",
        "Side by side for one model: whether it fits, speed, price per tok/s, power.",
        DEVICES,
        {"device": "RTX 3090, RTX 4090, RTX 5090", "model": _MODEL, "context": "8192", "sort": ""},
    ),
    BuyerForm(
        "cost",
        "Own, rent or use an API",
        "The price per million tokens each way, and after how many months your own device pays off.",
        COST,
        {"model": _MODEL, "device": "RTX 4090", "tokens_per_day": "1000000", "electricity": "0.30"},
    ),
    BuyerForm(
        "tiers",
        "What can I run",
        "The largest well-known models for each memory size, computed for the whole catalog.",
        TIERS,
        {"memory": "8,12,16,24,48", "context": "8192"},
    ),
)


def page_of(state: ServerState, wanted: str, serving: Serving) -> str:
    """The page of that name; one that says what is wrong, where there is nothing to show."""
    secret = quote(serving.token)
    tabs = (
        Tab("Diagnosis", f"/?token={secret}", wanted != BUY),
        Tab("What to buy", f"/?view={BUY}&token={secret}", wanted == BUY),
    )
    if wanted == BUY:
        ways = [tag("a", question.title, href=f"#{question.name}") for question in BUYER_FORMS]
        nav = tag("nav", *ways, class_="contents", aria_label="On this page")
        forms = tag("div", *map(_section, BUYER_FORMS), class_="panels")
        content = join_markup([tag("p", _LEAD, class_="quiet"), nav, forms])
        return frame_page("unslow: what to buy", content, serving=serving, tabs=tabs)
    state.look_again()
    try:
        seen = state.machine(WAIT_S)
    except BusyError as error:
        # A page that asks again at once, with or without a script; the next answer comes when there is something
        page = frame_page("unslow", tag("p", sentence(error.message), role="status", class_="empty"), serving=serving)
        return page.replace("<head>", '<head><meta http-equiv="refresh" content="0">', 1)
    except UserError as error:
        state.was_told = True
        again = "Then reload this page." if state.is_live else ""
        hint = tag("p", sentence(error.hint), " ", again)
        said = join_markup([tag("p", sentence(error.message), role="alert"), hint])
        return frame_page("unslow: nothing to show", said, serving=serving, tabs=tabs)
    state.was_opened()
    return document(seen.view, serving=serving, offers=offers_of(seen, state.wanted), tabs=tabs)


def _section(question: BuyerForm) -> Markup:
    answer = f"{question.name}-answer"
    named = {p.name: p for p in question.parameters}
    first = [named[name] for name in question.first]
    more = [p for p in question.parameters if p.name not in question.first]
    shown, folded = (
        tag("div", *(_form_field(question, one) for one in some), class_="fields") for some in (first, more)
    )
    form = tag(
        "form",
        shown,
        tag("details", tag("summary", "More options"), folded),
        tag("button", "Calculate", type="submit", class_="ask"),
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
    said = f"{identity}-words"
    if parameter.choices:
        options = [tag("option", choice or "default", value=choice) for choice in ("", *parameter.choices)]
        entry = tag("select", *options, id=identity, name=parameter.name, aria_describedby=said)
    else:
        given = {"value": question.first.get(parameter.name), "required": parameter.needed}
        entry = tag("input", type="text", id=identity, name=parameter.name, **given, aria_describedby=said)
    words = tag("small", parameter.words, id=said)
    return tag("label", tag("span", name.capitalize()), entry, words, for_=identity)
