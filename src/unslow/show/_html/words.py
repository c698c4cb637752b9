"""The words of the page: what figures and verdicts are called, and lines to copy."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from unslow.facts.placed import Line, Place, line_of
from unslow.show._html.markup import NOTHING, Markup, joined, tag, text
from unslow.show._units import rate, span

METRICS = {
    "decode_tokens_per_s": "Answers",
    "prefill_tokens_per_s": "Prompts",
    "time_to_first_token_s": "First token",
    "load_s": "Load",
    "queue_s": "Queue",
    "request_s": "Whole request",
}
MASKED = "Names of users, keys, prompts, serial numbers and public addresses were taken out; names of files stay."


class Sign(NamedTuple):
    """A verdict as a person sees it: a word, a mark and a tone, so that colour is never the only sign."""

    word: str
    mark: str
    tone: str


VERDICTS = {
    "slow": Sign("Slow", "✗", "bad"),
    "failed": Sign("Failed", "✗", "bad"),
    "normal": Sign("Normal", "✓", "ok"),
    "cannot_tell": Sign("Can't tell", "?", "warn"),
}
CHANGES = {
    "faster": Sign("Faster", "▲", "ok"),
    "same": Sign("The same", "=", "plain"),
    "slower": Sign("Slower", "▼", "bad"),
    "answers_changed": Sign("Answers changed", "✗", "bad"),
    "broken": Sign("Broken", "✗", "bad"),
    "cannot_tell": Sign("Can't tell", "?", "warn"),
}


def badge(sign: Sign) -> Markup:
    """A verdict as a label; its mark says the same to the eye as its word."""
    return tag("span", tag("span", sign.mark, aria_hidden="true"), " ", sign.word, class_=f"badge {sign.tone}")


def metric_name(metric: str) -> str:
    """A figure as a person calls it."""
    return METRICS.get(metric) or metric.removesuffix("_tokens_per_s").removesuffix("_s").replace("_", " ")


def is_time(metric: str) -> bool:
    """Whether less of it is better."""
    return metric.endswith("_s") and not metric.endswith("_per_s")


def amount(metric: str, value: float) -> str:
    """A figure in its unit."""
    return span(value) if is_time(metric) else f"{rate(value)} tok/s"


def lines_to_copy(texts: Sequence[str]) -> Markup:
    """The lines of a fix in their order, each with its button; what belongs elsewhere than in a shell says where."""
    parts: list[Markup] = []
    for place, lines in groupby(map(line_of, texts), key=lambda line: line.place):
        parts += _of_place(place, list(lines))
    return joined(parts)


def command(said: str) -> Markup:
    """One line to copy, with its button."""
    button = tag("button", "Copy", class_="copy", type="button", data_copy=said, aria_label=f"Copy {_short(said)}")
    return tag("div", tag("pre", tag("code", said)), button, class_="command")


def _of_place(place: Place, lines: list[Line]) -> Iterator[Markup]:
    if place is Place.HAND:
        yield joined(tag("p", text(line.text), class_="by-hand") for line in lines)
    elif place is Place.FLAG:
        yield joined(_flag(line.text) for line in lines)
    else:
        label = f"{place.value[:1].upper()}{place.value[1:]}" if place is not Place.SHELL else ""
        yield tag("p", label, class_="place") if label else NOTHING
        yield joined(command(line.text) for line in lines)


def _flag(said: str) -> Markup:
    """A flag to copy; one that has to go is only named: nobody pastes it anywhere."""
    words, dash, flag = said.partition("-")
    return tag("p", words, tag("code", dash + flag), class_="by-hand") if words.strip() else command(said)


_LONGEST_NAME = 60
"""Characters of a command that a screen reader says of its button."""


def _short(said: str) -> str:
    first = said.split("\n", 1)[0]
    return first if len(first) <= _LONGEST_NAME else f"{first[:_LONGEST_NAME]}…"
