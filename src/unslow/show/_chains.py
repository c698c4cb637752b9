"""Why it is slow, for a terminal: each root cause with what follows from it, one price, and what to do."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unslow.facts.placed import in_place
from unslow.show._labels import label, worded_value
from unslow.show._price import price_of
from unslow.show._promise import promised
from unslow.show._tables import pair_grid
from unslow.think.chains import Chain, chains_of
from unslow.think.predict import DECODE
from unslow.think.report import Finding, Fix, SubjectReport

_SHORT = 40
"""Characters of a value: so few may be said twice."""


def chain_parts(subject: SubjectReport, *, everything: bool) -> list[RenderableType]:
    """Every chain, numbered; `everything` also shows the evidence of what follows, and how to fix that."""
    chains = chains_of(subject.findings)
    return [_chain(number, chain, subject, everything=everything) for number, chain in enumerate(chains, 1)]


def _chain(number: int, chain: Chain, subject: SubjectReport, *, everything: bool) -> RenderableType:
    root, grid = chain.root, pair_grid()
    head = Text(root.title, style="bold").append(f"  ({root.cause}, {root.confidence:.0%} sure)", style="dim")
    if price := price_of(number, root, subject):
        grid.add_row("     costs", Text(price, style="green"))
    grid.add_row("     because", root.because)
    _fixes(grid, root.fixes)
    _evidence(grid, root)
    best = max((f.predicted.get(DECODE, 0.0) for f in root.fixes), default=0.0)
    for link in chain.after:
        _link(grid, link, best, everything=everything)
    return Group(_numbered(number, head), *_arrows(chain), grid)


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


def _link(grid: Table, link: Finding, best: float, *, everything: bool) -> None:
    """A consequence: why it is there; its own fixes are other ways out, where they give half of the best or more."""
    grid.add_row("     then", Text(link.because, style="" if everything else "dim"))
    if everything:
        _evidence(grid, link)
        _fixes(grid, link.fixes)
    else:
        for fix in (f for f in link.fixes[:1] if f.predicted.get(DECODE, best) >= best / 2):
            grid.add_row("     or", Text(_told(fix)))


def _fixes(grid: Table, fixes: tuple[Fix, ...]) -> None:
    for number, fix in enumerate(fixes):
        grid.add_row("     fix" if not number else "     or", Text(_told(fix)))
        for command in fix.commands:
            grid.add_row("", Text(in_place(command), style="cyan"))


def _told(fix: Fix) -> str:
    then = promised(fix.predicted)
    gives = f" → {then}" if then else ""
    risk = f" (careful: {fix.risk})" if fix.risk else ""
    return f"{fix.why}{gives}{risk}"


def _evidence(grid: Table, finding: Finding) -> None:
    """What shows it; what `because` has word for word is not said again."""
    for item in finding.evidence:
        against = f" ({item.reference})" if item.reference else ""
        value = worded_value(item.fact, item.value)
        said = "" if len(value) > _SHORT and value in finding.because else f": {value}"
        text = Text(f"{label(item.fact)}{said}{against}")
        grid.add_row("     seen", text.append(f"  [{item.origin}: {item.source}]", style="dim"))
