"""The guides' questions, answered."""

from collections.abc import Sequence

from unslow.show._html.markup import NOTHING, Markup, tag, text
from unslow.think.report import ChecklistItem

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
