"""What the answers to a buyer share: tables that a screen reader can follow, prices with their date, intervals."""

import re
from collections.abc import Iterable, Sequence

from unslow.show._html.markup import NOTHING, Child, Markup, joined, sentence, tag
from unslow.show._units import rate
from unslow.think.buy.report import PriceShown
from unslow.think.speed.report import RateShown

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
