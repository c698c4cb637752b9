"""What the diagnosis says.

The verdict, each cause with its price, what was ruled out, what could not be told, the checklist.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from unslow.page.html.markup import (
    NO_BUTTONS,
    NOTHING,
    VERDICTS,
    Markup,
    badge,
    command,
    joined,
    lines_to_copy,
    pressed,
    sentence,
    tag,
    text,
)
from unslow.show.labels import label, price_of, promised, worded_value
from unslow.show.units import rate
from unslow.think.judge.chains import Chain, chains_of
from unslow.think.report import (
    ChecklistItem,
    Contradicted,
    Evidence,
    Finding,
    Fix,
    Question,
    RuledOut,
    SubjectReport,
    Untold,
)

_SENTENCES = re.compile(r"(?<=[^\W_][.!?])\s+(?=[A-Z`])")
_NEXT = re.compile(r"(?:^|\s)(?P<name>First|To find out): (?P<what>.+)$", re.DOTALL)
"""What to do, which a summary ends with."""
_DECODE = "decode_tokens_per_s"
_NO_DEVICE = "unknown hardware"


def render_verdict(subject: SubjectReport, number: int, buttons: Mapping[str, str] = NO_BUTTONS) -> Markup:
    """The head of a subject; `buttons` are what the page can start."""
    told, found = _parted(subject.summary)
    first, *rest = _SENTENCES.split(told, maxsplit=1)
    sign, title = VERDICTS[subject.verdict], f"verdict-{number}-title"
    return tag(
        "section",
        tag("p", badge(sign), " ", tag("span", subject_name(subject), class_="subject"), class_="kicker"),
        tag("div", _figure(subject), tag("h2", text(first), id=title), class_="headline"),
        tag("p", text(rest[0]), class_="lead") if rest else NOTHING,
        _next(*found, buttons) if found else NOTHING,
        tag("p", _server(subject), class_="quiet") if subject.url else NOTHING,
        id=f"verdict-{number}",
        class_=f"verdict {sign.tone}",
        data_panel="verdict",
        aria_labelledby=title,
        tabindex="-1",
    )


def _parted(summary: str) -> tuple[str, tuple[str, str] | None]:
    """What is, and what to do about it."""
    found = _NEXT.search(summary)
    return (summary[: found.start()], (found["name"], found["what"])) if found and found.start() else (summary, None)


def _next(name: str, what: str, buttons: Mapping[str, str]) -> Markup:
    """What to do next, on a line of its own: it is what most came for."""
    said = (pressed(what, buttons) or what) if name != "First" else what
    return tag("p", tag("b", f"{'Do this first' if name == 'First' else name}: "), text(said), class_="next")


def subject_name(subject: SubjectReport) -> str:
    """Runtime, model and device on a line."""
    return " · ".join(name for name in (subject.runtime, subject.model, device_name(subject)) if name)


def device_name(subject: SubjectReport) -> str:
    """The first device, with how many are like it; empty where none is known."""
    if not subject.devices or subject.devices[0] == _NO_DEVICE:
        return ""
    alike, device = subject.devices.count(subject.devices[0]), subject.devices[0]
    device = device.replace("(R)", "").replace("(TM)", "")
    return f"{alike} x {device}" if alike > 1 else device


def _figure(subject: SubjectReport) -> Markup:
    """The measured speed in large figures."""
    speed = subject.measured.get(_DECODE)
    if speed is None:
        return NOTHING
    return tag("p", tag("strong", rate(speed)), " ", tag("span", "tok/s", class_="unit"), class_="figure")


def _server(subject: SubjectReport) -> Markup:
    process = f", process {subject.pid}" if subject.pid else ""
    return joined([subject.url, process])


def findings(subject: SubjectReport) -> Markup:
    """Every chain, numbered."""
    chains = chains_of(subject.findings)
    if not chains:
        return tag("p", _NOTHING_FOUND[subject.verdict])
    items = [_chain(number, chain, subject) for number, chain in enumerate(chains, 1)]
    return tag("ol", *items, class_="findings")


_NOTHING_FOUND = {
    "normal": "Nothing is wrong: it is as fast as this hardware allows.",
    "slow": "It is slower than it should be, and no cause is proven yet. Below is what would settle it.",
    "failed": "Why it fails is not proven yet. Below is what would settle it.",
    "cannot_tell": "No cause is proven yet. Below is what would settle it.",
}


def _chain(number: int, chain: Chain, subject: SubjectReport) -> Markup:
    root = chain.root
    price = price_of(number, root, subject)
    return tag(
        "li",
        tag("h4", tag("span", str(number), class_="number", aria_hidden="true"), root.title),
        tag("p", tag("b", "Costs "), price, class_="price") if price else NOTHING,
        tag("p", sentence(root.because)),
        _fixes(root.fixes),
        _evidence(root),
        tag("ul", *map(_link, chain.after), class_="links") if chain.after else NOTHING,
        tag("p", *_sure(root), class_="quiet"),
    )


def _sure(finding: Finding) -> Iterator[Markup]:
    yield text(f"{finding.confidence:.0%} sure. More: `unslow explain {finding.cause}`")


def _link(finding: Finding) -> Markup:
    """What follows from the cause: its own fixes are other ways out."""
    head = joined([tag("b", f"Hence: {finding.title[:1].lower()}{finding.title[1:]}. "), sentence(finding.because)])
    return tag("li", tag("p", head), _fixes(finding.fixes, "Or"), _evidence(finding))


def _fixes(fixes: tuple[Fix, ...], name: str = "Fix") -> Markup:
    return joined(_fix(fix, name if not number else "Or") for number, fix in enumerate(fixes))


def _fix(fix: Fix, name: str) -> Markup:
    then = promised(fix.predicted)
    gives = tag("span", tag("span", "→", aria_hidden="true"), f" {then}", class_="promise") if then else NOTHING
    said = tag("p", tag("b", f"{name} "), text(fix.why or fix.knob.replace("_", " ")), " ", gives)
    risk = tag("p", tag("b", "Careful: "), sentence(fix.risk), class_="risk") if fix.risk else NOTHING
    return tag("div", said, risk, lines_to_copy(fix.commands), class_="fix")


def _evidence(finding: Finding) -> Markup:
    if not finding.evidence:
        return NOTHING
    return tag("dl", *map(_evidence_item, finding.evidence), class_="evidence")


def _evidence_item(item: Evidence) -> Markup:
    against = f" ({item.reference})" if item.reference else ""
    origin = tag("span", f"{item.origin}: {item.source}", class_="source")
    said = joined([tag("span", worded_value(item.fact, item.value), class_="fact"), against, " ", origin])
    return tag("div", tag("dt", label(item.fact)), tag("dd", said))


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
        tag(
            "div",
            tag("dt", label(i.fact)),
            tag(
                "dd",
                worded_value(i.fact, i.value),
                " ",
                tag("span", f"{i.source}{', in words' if i.origin == 'told' else ''}", class_="source"),
            ),
        )
        for i in items
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


_MARKS = {"ok": ("✓", "Yes: "), "bad": ("✗", "No: "), "unknown": ("?", "Not known: ")}
_NO_GPU = "there is no GPU"
"""As the judge says it: five such answers are one."""


def checklist(items: Sequence[ChecklistItem]) -> Markup:
    """Every question with its answer; a mark says it to the eye, a word to the ear."""
    without_gpu = [item for item in items if item.because == _NO_GPU]
    rows = [_item(item) for item in items if item not in without_gpu]
    if without_gpu:
        many = f"{len(without_gpu)} questions" if len(without_gpu) > 1 else "A question"
        rows.append(_row("–", "", f"{many} about the GPU", "there is none", "plain"))
    return tag("ul", *rows, class_="checklist")


def _item(item: ChecklistItem) -> Markup:
    mark, word = _MARKS[item.state]
    return _row(mark, word, item.item, item.because, item.state)


def _row(mark: str, word: str, item: str, because: str, state: str) -> Markup:
    sign = tag("span", mark, class_="mark", aria_hidden="true")
    said = tag("span", tag("span", word, class_="for-ears") if word else NOTHING, text(because), class_="because")
    return tag("li", sign, tag("span", tag("span", item, class_="item"), " ", said), class_=state)
