"""What the diagnosis says: the verdict, each cause with its price, what was ruled out or not told, the checklist."""

import re
from collections.abc import Mapping, Sequence

from unslow.page.html import markup
from unslow.page.html.markup import NOTHING, Markup, join_markup, sentence, tag, text
from unslow.show.units import cause_cost_text, fix_effect, label, rate, subject_title, value_text
from unslow.think import report
from unslow.think.judge.verdict import chains_of
from unslow.think.report import SubjectReport

_SENTENCES = re.compile(r"(?<=[^\W_][.!?])\s+(?=[A-Z`])")
_NEXT = re.compile(r"(?:^|\s)(?P<name>First|Fix|To find out): (?P<what>.+)$", re.DOTALL)
"""What to do, which a summary ends with."""
_EXPECTED = re.compile(r"\breach about \d|\babout [\d,.]+ is normal\.$")
"""The sentence after the measured speed that says what to hold it against."""
_NOTHING_FOUND = {
    "normal": "Nothing is wrong: it runs as fast as this hardware allows.",
    "slow": "It is slower than it should be, but no cause is proven yet. See below for what would settle it.",
    "failed": "The cause of the failure is not proven yet. See below for what would settle it.",
    "cannot_tell": "No cause is proven yet. See below for what would settle it.",
}
_MARKS = {"ok": ("✓", "Yes: "), "bad": ("✗", "No: "), "unknown": ("?", "Unknown: ")}
_NO_GPU = ("there is no GPU", "no GPU")  # As the judge says it: five such answers are one


def render_verdict(subject: SubjectReport, number: int, buttons: Mapping[str, str] = markup.NO_BUTTONS) -> Markup:
    """The head of a subject; `buttons` are what the page can start."""
    told, then = subject.summary, NOTHING
    if (found := _NEXT.search(told)) and found.start():  # what to do next: it is what most came for
        name, what = found["name"], found["what"]
        said = markup.button_words(what, buttons) or what if name == "To find out" else what
        then = tag("p", tag("b", f"{'Fix' if name == 'First' else name}: "), text(said), class_="next")
        told = told[: found.start()]
    first, *rest = _SENTENCES.split(told, maxsplit=2)
    if rest and _EXPECTED.search(rest[0]):
        first, *rest = f"{first} {rest[0]}", *rest[1:]
    sign, title = markup.VERDICTS[subject.verdict], f"verdict-{number}-title"
    speed, figure = subject.measured.get("decode_tokens_per_s"), NOTHING
    if speed is not None:
        figure = tag("p", tag("strong", rate(speed)), " ", tag("span", "tok/s", class_="unit"), class_="figure")
    process = f", process {subject.pid}" if subject.pid else ""
    return tag(
        "section",
        tag("p", markup.badge(sign), " ", tag("span", subject_title(subject), class_="subject"), class_="kicker"),
        tag("div", figure, tag("h2", text(first), id=title), class_="headline"),
        tag("p", text(" ".join(rest)), class_="lead") if rest else NOTHING,
        then,
        tag("p", subject.url, process, class_="quiet") if subject.url else NOTHING,
        id=f"verdict-{number}",
        class_=f"verdict {sign.tone}",
        data_panel="verdict",
        aria_labelledby=title,
        tabindex="-1",
    )


def findings(subject: SubjectReport) -> Markup:
    """Every chain, numbered."""
    chains = chains_of(subject.findings)
    if not chains:
        return tag("p", _NOTHING_FOUND[subject.verdict])
    items = []
    for number, chain in enumerate(chains, 1):
        root, price, links = chain.root, cause_cost_text(number, chain.root, subject), []
        for link in chain.after:
            what = tag("b", f"Consequence: {link.title[:1].lower()}{link.title[1:]}. ")
            links.append(tag("li", tag("p", what, sentence(link.because)), _fixes(link.fixes, "Or"), _evidence(link)))
        items.append(tag(
            "li",
            tag("h4", tag("span", str(number), class_="number", aria_hidden="true"), root.title),
            tag("p", tag("b", "Costs "), price, class_="price") if price else NOTHING,
            tag("p", sentence(root.because)),
            _fixes(root.fixes),
            _evidence(root),
            tag("ul", *links, class_="links") if links else NOTHING,
            tag("p", text(f"Confidence {root.confidence:.0%}. More: `unslow explain {root.cause}`"), class_="quiet"),
        ))  # fmt: skip
    return tag("ol", *items, class_="findings")


def _fixes(fixes: tuple[report.Fix, ...], name: str = "Fix") -> Markup:
    parts = []
    for number, fix in enumerate(fixes):
        then = fix_effect(fix.predicted)
        gives = tag("span", tag("span", "→", aria_hidden="true"), f" {then}", class_="promise") if then else NOTHING
        what = text(fix.why or fix.knob.replace("_", " "))
        said = tag("p", tag("b", "Or " if number else f"{name} "), what, " ", gives)
        risk = tag("p", tag("b", "Risk: "), sentence(fix.risk), class_="risk") if fix.risk else NOTHING
        parts.append(tag("div", said, risk, markup.lines_to_copy(fix.commands), class_="fix"))
    return join_markup(parts)


def _evidence(finding: report.Finding) -> Markup:
    rows = []
    for item in finding.evidence:
        value = tag("span", value_text(item.fact, item.value), class_="fact")
        against = f" ({item.reference})" if item.reference else ""
        origin = tag("span", f"{item.origin}: {item.source}", class_="source")
        rows.append(tag("div", tag("dt", label(item.fact)), tag("dd", value, against, " ", origin)))
    return tag("dl", *rows, class_="evidence") if rows else NOTHING


def undetermined_causes(subject: SubjectReport, buttons: Mapping[str, str] = markup.NO_BUTTONS) -> Markup:
    """The commands, or the buttons, that would settle most first, then every cause that is open."""
    suspected = [item for item in subject.cannot_tell if item.suspected]
    others = [item for item in subject.cannot_tell if not item.suspected]
    questions = []
    for question in subject.ask_next:
        button = markup.button_words(question.command, buttons)
        how = tag("p", sentence(button)) if button else markup.command(question.command)
        questions.append(tag("div", tag("p", sentence(question.why)), how, class_="fix"))
    head = tag("h4", "Suspected, not proven") if suspected else NOTHING
    many = "1 cause" if len(others) == 1 else f"{len(others)} causes"
    rest = details(f"{many} undetermined", _causes(others, buttons)) if others else NOTHING
    return join_markup([*questions, head, _causes(suspected, buttons), rest])


def ruled_out_causes(items: Sequence[report.RuledOut]) -> Markup:
    """Every cause that is not there, folded away."""
    rows = [tag("div", tag("dt", item.cause.replace("_", " ")), tag("dd", sentence(item.because))) for item in items]
    many = "1 cause" if len(rows) == 1 else f"{len(rows)} causes"
    return details(f"{many} ruled out", tag("dl", *rows, class_="causes"))


def contradictions(items: Sequence[report.ContradictionShown]) -> Markup:
    """Sources that can't all be right."""
    rows = ((tag("b", f"{i.about}: "), sentence("; ".join(i.says)), " ", sentence(i.meaning)) for i in items)
    return tag("ul", *(tag("li", *row) for row in rows))


def text_facts(items: Sequence[report.Evidence]) -> Markup:
    """What a text was understood to say."""
    rows = []
    for item in items:
        source = tag("span", f"{item.source}{', from prose' if item.origin == 'told' else ''}", class_="source")
        said = tag("dd", value_text(item.fact, item.value), " ", source)
        rows.append(tag("div", tag("dt", label(item.fact)), said))
    return details("Facts read from the text", tag("dl", *rows, class_="evidence"))


def checklist(items: Sequence[report.ChecklistItem]) -> Markup:
    """Every question with its answer; a mark says it to the eye, a word to the ear."""
    without_gpu = [item for item in items if item.because in _NO_GPU]
    shown = [(*_MARKS[i.state], i.item, i.because, str(i.state)) for i in items if i not in without_gpu]
    if without_gpu:
        many = f"{len(without_gpu)} GPU questions" if len(without_gpu) > 1 else "1 GPU question"
        shown.append(("–", "", many, "not applicable: no GPU", "plain"))
    rows = []
    for mark, word, item, because, state in shown:
        sign = tag("span", mark, class_="mark", aria_hidden="true")
        said = tag("span", tag("span", word, class_="for-ears") if word else NOTHING, text(because), class_="because")
        rows.append(tag("li", sign, tag("span", tag("span", item, class_="item"), " ", said), class_=state))
    return tag("ul", *rows, class_="checklist")


def _causes(items: Sequence[report.Untold], buttons: Mapping[str, str]) -> Markup:
    rows = []
    for item in items:
        lacks = f" ({item.missing})" if item.missing != item.because and not item.suspected else ""
        way = markup.button_words(item.how_to_get, buttons) or item.how_to_get
        how = tag("p", "To find out: ", text(way)) if way else NOTHING
        said = tag("dd", tag("p", sentence(f"{item.because}{lacks}")), how)
        rows.append(tag("div", tag("dt", item.cause.replace("_", " ")), said))
    return tag("dl", *rows, class_="causes") if rows else NOTHING


def details(title: str, content: Markup) -> Markup:
    """Something that is there for whoever wants it."""
    return tag("details", tag("summary", title), content)
