"""Why it is slow, for a terminal: each root cause with what follows from it, one price, and what to do."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.show._commands import command_text
from unslow.show._console import pair_grid
from unslow.show._labels import label, worded_value
from unslow.show._price import price_of
from unslow.show._promise import promised
from unslow.think.chains import Chain, chains_of
from unslow.think.predict import DECODE
from unslow.think.report import Finding, Fix, SubjectReport

_SHORT = 40
"""Characters of a value: so few may be said twice."""
_NAMES = 12
"""Columns of the names on the left: those of "because", the longest of them."""
_Row = tuple[str, Text] | str
"""A name with its words, or a line to copy."""


def chain_parts(subject: SubjectReport, *, everything: bool) -> list[RenderableType]:
    """Every chain, numbered; `everything` also shows the evidence of what follows, and how to fix that."""
    chains = chains_of(subject.findings)
    return [_chain(number, chain, subject, everything=everything) for number, chain in enumerate(chains, 1)]


def _chain(number: int, chain: Chain, subject: SubjectReport, *, everything: bool) -> RenderableType:
    root = chain.root
    head = Text(root.title, style="bold").append(f"  ({root.cause}, {root.confidence:.0%} sure)", style="dim")
    best = max((f.predicted.get(DECODE, 0.0) for f in root.fixes), default=0.0)
    price = price_of(number, root, subject)
    rows: list[_Row] = [("costs", Text(price, style="green"))] if price else []
    rows += [("because", Text(root.because)), *_fixes(root.fixes), *_evidence(root)]
    rows += [row for link in chain.after for row in _link(link, best, everything=everything)]
    return Group(_numbered(number, head), *_arrows(chain), *_in_columns(rows))


def _in_columns(rows: list[_Row]) -> Iterator[RenderableType]:
    """Names and words in two columns; a line to copy stands between them, where no column cuts it."""
    for is_line, some in groupby(rows, key=lambda row: isinstance(row, str)):
        if is_line:
            yield from (command_text(str(line), _NAMES + 2) for line in some)
        else:
            grid = pair_grid()
            grid.columns[0].min_width = _NAMES
            for name, words in (row for row in some if not isinstance(row, str)):
                grid.add_row(f"     {name}", words)
            yield grid


def _numbered(number: int, head: Text) -> RenderableType:
    """The title of a chain; where it is longer than a line, its words stay right of the number."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {number}.", style="bold"), head)
    return grid


def _arrows(chain: Chain) -> Iterator[RenderableType]:
    """What follows, each link a step further in."""
    for depth, link in enumerate(chain.after):
        words = Text(f"→ {link.title}").append(f"  ({link.cause})", style="dim")
        yield Padding(words, (0, 0, 0, 5 + 2 * depth))


def _link(link: Finding, best: float, *, everything: bool) -> Iterator[_Row]:
    """A consequence: why it is there; its own fixes are other ways out, where they give half of the best or more."""
    yield "then", Text(link.because, style="" if everything else "dim")
    if everything:
        yield from (*_evidence(link), *_fixes(link.fixes))
    else:
        for fix in (f for f in link.fixes[:1] if f.predicted.get(DECODE, best) >= best / 2):
            yield "or", Text(_told(fix))


def _fixes(fixes: tuple[Fix, ...]) -> Iterator[_Row]:
    for number, fix in enumerate(fixes):
        yield "or" if number else "fix", Text(_told(fix))
        yield from fix.commands


def _told(fix: Fix) -> str:
    then = promised(fix.predicted)
    gives = f" → {then}" if then else ""
    risk = f" (careful: {fix.risk})" if fix.risk else ""
    return f"{fix.why}{gives}{risk}"


def _evidence(finding: Finding) -> Iterator[_Row]:
    """What shows it; what `because` has word for word is not said again."""
    for item in finding.evidence:
        against = f" ({item.reference})" if item.reference else ""
        value = worded_value(item.fact, item.value)
        said = "" if len(value) > _SHORT and value in finding.because else f": {value}"
        text = Text(f"{label(item.fact)}{said}{against}")
        yield "seen", text.append(f"  [{item.origin}: {item.source}]", style="dim")
