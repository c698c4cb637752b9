"""Why it is slow: each root cause with its price, what shows it, and what to do."""

from collections.abc import Iterator

from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag, text
from unslow.show._html.words import lines_to_copy
from unslow.show._labels import label, worded_value
from unslow.show._price import price_of
from unslow.show._promise import promised
from unslow.think.chains import Chain, chains_of
from unslow.think.report import Evidence, Finding, Fix, SubjectReport


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
    return tag("dl", *map(_item, finding.evidence), class_="evidence")


def _item(item: Evidence) -> Markup:
    against = f" ({item.reference})" if item.reference else ""
    origin = tag("span", f"{item.origin}: {item.source}", class_="source")
    said = joined([tag("span", worded_value(item.fact, item.value), class_="fact"), against, " ", origin])
    return tag("div", tag("dt", label(item.fact)), tag("dd", said))
