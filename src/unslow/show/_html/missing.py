"""What could not be told and how to find out, what was ruled out, and what sources contradict each other about."""

import re
from collections.abc import Mapping, Sequence

from unslow.show._html.buttons import NO_BUTTONS, pressed
from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag, text
from unslow.show._html.words import command
from unslow.show._labels import label, worded_value
from unslow.think.report import Contradicted, Evidence, Question, RuledOut, SubjectReport, Untold

_COMMAND = re.compile(r"unslow(?: [\w:/.@=\[\]-]+){0,6}")


def untold(subject: SubjectReport, buttons: Mapping[str, str] = NO_BUTTONS) -> Markup:
    """The commands, or the buttons, that would settle most first, then every cause that is open."""
    suspected = [item for item in subject.cannot_tell if item.suspected]
    others = [item for item in subject.cannot_tell if not item.suspected]
    questions = joined(_question(question, buttons) for question in subject.ask_next)
    head = tag("h4", "Suspected, not proven") if suspected else NOTHING
    rest = folded(f"{_many(others)} could not be judged", _causes(others, buttons)) if others else NOTHING
    return joined([questions, head, _causes(suspected, buttons), rest])


def ruled_out(items: Sequence[RuledOut]) -> Markup:
    """Every cause that is not there, folded away."""
    rows = [tag("div", tag("dt", _cause(item.cause)), tag("dd", sentence(item.because))) for item in items]
    is_ = "is" if len(items) == 1 else "are"
    return folded(f"{_many(items)} {is_} ruled out", tag("dl", *rows, class_="causes"))


def contradictions(items: Sequence[Contradicted]) -> Markup:
    """Sources that can't all be right."""
    rows = [joined([tag("b", f"{i.about}: "), sentence("; ".join(i.says)), " ", sentence(i.meaning)]) for i in items]
    return tag("ul", *(tag("li", row) for row in rows))


def understood(items: Sequence[Evidence]) -> Markup:
    """What a text was understood to say."""
    rows = [
        tag("div", tag("dt", label(i.fact)), tag("dd", worded_value(i.fact, i.value), " ", _source(i))) for i in items
    ]
    return folded("What was understood", tag("dl", *rows, class_="evidence"))


def not_there(why: str, names: Sequence[str], ways: Sequence[str], buttons: Mapping[str, str] = NO_BUTTONS) -> Markup:
    """Which panels are not there, why, and how to get them."""
    said = tag("p", tag("b", f"{', '.join(names)}: "), text(f"{why}."))
    return tag("div", said, *(_way(way, buttons) for way in dict.fromkeys(ways) if way), class_="not-there")


def _way(way: str, buttons: Mapping[str, str]) -> Markup:
    if button := pressed(way, buttons):
        return tag("p", "To get it: ", button)
    return command(way) if _COMMAND.fullmatch(way) else tag("p", "To get it: ", text(way))


def folded(title: str, content: Markup) -> Markup:
    """Something that is there for whoever wants it."""
    return tag("details", tag("summary", title), content)


def _question(question: Question, buttons: Mapping[str, str]) -> Markup:
    button = pressed(question.command, buttons)
    how = tag("p", sentence(button)) if button else command(question.command)
    return tag("div", tag("p", sentence(question.why)), how, class_="fix")


def _causes(items: Sequence[Untold], buttons: Mapping[str, str]) -> Markup:
    return tag("dl", *(_untold(item, buttons) for item in items), class_="causes") if items else NOTHING


def _untold(item: Untold, buttons: Mapping[str, str]) -> Markup:
    lacks = f" ({item.missing})" if item.missing != item.because and not item.suspected else ""
    way = pressed(item.how_to_get, buttons) or item.how_to_get
    how = tag("p", "To find out: ", text(way)) if way else NOTHING
    return tag("div", tag("dt", _cause(item.cause)), tag("dd", tag("p", sentence(f"{item.because}{lacks}")), how))


def _many(items: Sequence[object]) -> str:
    return "1 cause" if len(items) == 1 else f"{len(items)} causes"


def _cause(name: str) -> str:
    return name.replace("_", " ")


def _source(item: Evidence) -> Markup:
    return tag("span", f"{item.source}{', in words' if item.origin == 'told' else ''}", class_="source")
