"""The buyer's page: a form for each question, answered below it."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.show._html.markup import Markup, joined, tag
from unslow.web.buyers import CHOOSE, COST, DEVICES, TIERS
from unslow.web.parameters import Parameter

_MODEL = "qwen3-8b"
_LEAD = (
    "Speeds are predicted from the catalogue of devices by the same physics as the diagnosis. Prices are dated and may "
    "be old: your own always win."
)


class Question(NamedTuple):
    """A form: which endpoint it asks, what it shows at once, and what is folded."""

    name: str
    title: str
    words: str
    parameters: Sequence[Parameter]
    first: tuple[str, ...]
    """The fields that are shown; all others are folded."""
    example: dict[str, str]
    """What the fields hold at first."""


QUESTIONS = (
    Question(
        "choose",
        "Which one to buy",
        "The single or double card, Mac or small computer that reaches your speed within your budget, and why.",
        CHOOSE,
        ("model", "context", "budget", "goal"),
        {"model": _MODEL, "context": "8192", "budget": "1500", "goal": "20"},
    ),
    Question(
        "devices",
        "Compare devices",
        "Side by side for a model: does it fit, how fast, what each token per second costs, watts.",
        DEVICES,
        ("device", "model", "context", "sort"),
        {"device": "RTX 3090, RTX 4090, RTX 5090", "model": _MODEL, "context": "8192"},
    ),
    Question(
        "cost",
        "Own, rent or an API",
        "The price of a million tokens each way, and after how many months a device of your own has paid off.",
        COST,
        ("model", "device", "tokens_per_day", "electricity"),
        {"model": _MODEL, "device": "RTX 4090", "tokens_per_day": "1000000", "electricity": "0.30"},
    ),
    Question(
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
    ways = [tag("a", question.title, href=f"#{question.name}") for question in QUESTIONS]
    nav = tag("nav", *ways, class_="contents", aria_label="On this page")
    forms = tag("div", *map(_section, QUESTIONS), class_="panels")
    return joined([tag("p", _LEAD, class_="quiet"), nav, forms])


def _section(question: Question) -> Markup:
    answer = f"{question.name}-answer"
    first = [p for p in question.parameters if p.name in question.first]
    more = [p for p in question.parameters if p.name not in question.first]
    shown = sorted(first, key=lambda parameter: question.first.index(parameter.name))
    form = tag(
        "form",
        tag("div", *(_field(question, parameter) for parameter in shown), class_="fields"),
        tag(
            "details",
            tag("summary", "More"),
            tag("div", *(_field(question, parameter) for parameter in more), class_="fields"),
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


def _field(question: Question, parameter: Parameter) -> Markup:
    identity = f"{question.name}-{parameter.name}"
    name = parameter.name.replace("_", " ")
    if parameter.kind == "switch":
        box = tag("input", type="checkbox", id=identity, name=parameter.name, value="true")
        return tag("label", tag("span", box, f" {name}: {parameter.words}"), for_=identity)
    words = tag("small", parameter.words, id=f"{identity}-words")
    return tag("label", tag("span", name.capitalize()), _entry(question, parameter, identity), words, for_=identity)


def _entry(question: Question, parameter: Parameter, identity: str) -> Markup:
    said = f"{identity}-words"
    if parameter.choices:
        options = [tag("option", choice or "as usual", value=choice) for choice in ("", *parameter.choices)]
        return tag("select", *options, id=identity, name=parameter.name, aria_describedby=said)
    value = question.example.get(parameter.name)
    needed = parameter.needed
    return tag(
        "input", type="text", id=identity, name=parameter.name, value=value, required=needed, aria_describedby=said
    )
