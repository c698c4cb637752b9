"""HTML written so that text stays text; the words of the page, lines to copy, and the buttons of the served page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.commands import Place, parse_line

Attribute = str | float | bool | None
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
METRICS = {
    "decode_tokens_per_s": "Decode",
    "prefill_tokens_per_s": "Prefill",
    "time_to_first_token_s": "Time to first token",
    "load_s": "Load",
    "queue_s": "Queue",
    "request_s": "Whole request",
}
MASKED = "User names, keys, prompts, serial numbers and public addresses are masked; file names are kept."
_LONGEST_NAME = 60  # Characters of a command that a screen reader says of its button
RunKind = Literal["diagnose", "bench", "depth", "users"]
_MEASURES = re.compile(
    r"(?:run )?`?unslow(?: [^\s`]*://[^\s`]+)?`?(?: while the runtime is idle, without --passive)?\.?"
)
_EVICTS = re.compile(r"measure with --evict\.?")
_COMPARES = re.compile(r"unslow bench(?: \S+)? --compare LAST")
NO_BUTTONS: Mapping[str, str] = MappingProxyType({})  # Of a file, which can start nothing


class Markup(str):
    """HTML that is ready: whoever makes one has escaped what is in it."""

    __slots__ = ()


Child = str | Markup | None
NOTHING = Markup("")


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
    "same": Sign("No change", "=", "plain"),
    "slower": Sign("Slower", "▼", "bad"),
    "answers_changed": Sign("Output changed", "✗", "bad"),
    "broken": Sign("Broken", "✗", "bad"),
    "cannot_tell": Sign("Can't tell", "?", "warn"),
}


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do, shown before it starts."""

    kind: RunKind
    subject: int | None = None  # Its number in the view; None if no server runs and the embedded engine is measured
    label: str
    words: str  # What is sent, and to which server
    refused: str = ""  # Why it can't start now; empty if it can


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; `class_` and `data_copy` are the attributes class and data-copy, None and False leave one out."""
    start = f"<{name}"
    for key, value in attributes.items():
        if value is not None and value is not False:
            start += f" {key.removesuffix('_').replace('_', '-')}"
            if value is not True:
                start += f'="{escape(f"{value:.6g}" if isinstance(value, float) else str(value))}"'
    return Markup(f"{start}>") if name in _VOID else Markup(f"{start}>{join_markup(children)}</{name}>")


def join_markup(children: Iterable[Child]) -> Markup:
    """Children one after the other, plain text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children if child))


def text(said: str) -> Markup:
    """A sentence in which single backticks mark code."""
    parts = said.split("`")
    if len(parts) % 2 == 0:  # one that is never closed is a character like any other
        return join_markup([said])
    return join_markup(tag("code", part) if number % 2 else part for number, part in enumerate(parts))


def sentence(said: str) -> Markup:
    """A sentence that begins with a capital and ends with a stop."""
    said = said.strip()
    end = "" if not said or said.endswith((".", "!", "?", "…", ":")) else "."
    return text(f"{capitalize_first(said)}{end}")


def capitalize_first(said: str) -> str:
    """What begins with a capital, unless that would spoil an address or a name of a program's own."""
    first = said.partition(" ")[0]
    return said if "://" in first or "_" in first else f"{said[:1].upper()}{said[1:]}"


def badge(sign: Sign) -> Markup:
    """A verdict as a label; its mark says the same to the eye as its word."""
    return tag("span", tag("span", sign.mark, aria_hidden="true"), " ", sign.word, class_=f"badge {sign.tone}")


def metric_name(metric: str) -> str:
    """A figure as a person calls it."""
    return METRICS.get(metric) or metric.removesuffix("_tokens_per_s").removesuffix("_s").replace("_", " ")


def lines_to_copy(texts: Sequence[str]) -> Markup:
    """The lines of a fix in their order, each with its button; what belongs elsewhere than in a shell says where."""
    parts: list[Markup] = []
    for place, lines in groupby(map(parse_line, texts), key=lambda line: line.place):
        if place is Place.HAND:
            parts += [tag("p", text(line.text), class_="by-hand") for line in lines]
        elif place is Place.FLAG:
            for line in lines:  # one that has to go is only named, not pasted
                words, dash, flag = line.text.partition("-")
                named = tag("p", words, tag("code", dash + flag), class_="by-hand")
                parts.append(named if words.strip() else command(line.text))
        else:
            label = f"{place.value[:1].upper()}{place.value[1:]}"
            parts.append(tag("p", label, class_="place") if place is not Place.SHELL else NOTHING)
            parts += [command(line.text) for line in lines]
    return join_markup(parts)


def command(said: str) -> Markup:
    """One line to copy, with its button."""
    name = said.split("\n", 1)[0]
    name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
    button = tag("button", "Copy", class_="copy", type="button", data_copy=said, aria_label=f"Copy {name}")
    return tag("div", tag("pre", tag("code", said)), button, class_="command")


def run_buttons(offers: Sequence[Offer], number: int) -> Markup:
    """The runs of a subject, each with what it would send."""
    rows = []
    for offer in offers:
        if offer.subject in (number, None):
            identity = f"offer-{number}-{offer.kind}"
            starts = {"id": f"start-{number}-{offer.kind}", "type": "button", "class_": "start"}
            run = {"data_run": offer.kind, "data_subject": offer.subject, "aria_describedby": identity}
            button = tag("button", offer.label, **starts, **run, disabled=bool(offer.refused))
            rows.append(tag("li", button, tag("span", offer.refused or offer.words, id=identity, class_="quiet")))
    if not rows:
        return NOTHING
    name = f"runs-{number}"
    content = (tag("h3", "Measure", id=f"{name}-title"), tag("ul", *rows))
    return tag("section", *content, id=name, class_="panel wide runs", aria_labelledby=f"{name}-title")


def run_bar() -> Markup:
    """How the run goes, at the foot of the window; hidden until there is one."""
    anyway = "run-anyway-words"
    words = (
        tag("strong", "", id="run-title"),
        tag("span", "", id="run-text"),
        tag("ul", id="run-remarks"),
        tag("span", "", id=anyway, class_="quiet", hidden=True),
    )
    parts = (
        tag("div", *words, class_="run-words"),
        tag("progress", id="run-share", max="1", value="0", aria_label="Run progress"),
        tag("button", "Stop", type="button", id="run-stop"),
        tag("button", "Measure anyway", type="button", id="run-anyway", hidden=True, aria_describedby=anyway),
        tag("button", "Close", type="button", id="run-close", hidden=True),
    )
    return tag("aside", *parts, id="run", hidden=True, aria_label="Current run")


def buttons_of(offers: Iterable[Offer], number: int, *, alone: bool) -> dict[str, str]:
    """The buttons of a subject that can be pressed: what each says, by its kind."""
    own = (offer for offer in offers if offer.subject in (number, None) and not offer.refused)
    found: dict[str, str] = {offer.kind: offer.label for offer in own}
    if alone and "bench" in found:  # before and after are compared where there is no doubt of what
        found["compare"] = found["bench"]
    return found


def button_words(command: str, buttons: Mapping[str, str]) -> str:
    """The button that does the same as a command, in words; empty where there is none."""
    if "diagnose" in buttons and _MEASURES.fullmatch(command):
        return f"press {buttons['diagnose']}."
    if "diagnose" in buttons and _EVICTS.fullmatch(command):
        return f"press {buttons['diagnose']}, then Measure anyway."
    if "compare" in buttons and _COMPARES.fullmatch(command):
        label = buttons["compare"]
        return f"press {label}, make your change, then press {label} again."
    return ""
