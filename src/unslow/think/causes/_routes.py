"""Several ways to one cause: what was measured first, then what a log shows, then an experiment, then words."""

from collections.abc import Callable, Iterable
from typing import Any

from unslow.facts.account import Comparison, Remark
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Origin, Unknown
from unslow.think.adapt.experiments import is_report
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Found, Remedy, Suspected
from unslow.think.report import Evidence
from unslow.think.slowness import generates_slowly

Route = Callable[[Case], Found | Absent | Suspected | None]
"""One way to look at a cause: None where it has nothing to say, MissingFactError where it lacks a fact."""


def first_to_decide(case: Case, *routes: Route) -> Found | Absent | Suspected:
    """The answer of the first way that decides; else the first suspicion; else what the first way lacks."""
    suspected, lacking = None, None
    for route in routes:
        try:
            answer = route(case)
        except MissingFactError as error:
            lacking = lacking or error
            continue
        if isinstance(answer, Found | Absent):
            return answer
        suspected = suspected or answer
    if suspected:
        return suspected
    raise lacking or MissingFactError(Unknown("nothing that was seen speaks of it"))


def if_slow(case: Case, evidence: Evidence, remedy: Remedy, suspected: Suspected) -> Found | Absent | Suspected:
    """A known mechanism is the cause where it is slow, and no more than a suspicion where nobody can tell."""
    slow = True if is_report(case) else generates_slowly(case)
    if slow is None:
        return suspected
    cured = remedy._replace(cure=None if is_report(case) else Cure())
    return (
        Found(suspected.because, (evidence,), cured.cure, (cured,)) if slow else Absent("it is as fast as it should be")
    )


def cite_remarks(case: Case, remarks: Iterable[Remark]) -> tuple[Evidence, ...]:
    """What a person says they saw, as evidence, each once."""
    texts = {remark.text: remark for remark in remarks}
    return tuple(_item("account.remarks", text, case.account.remarks, r.source) for text, r in texts.items())


def cite_comparison(case: Case, comparison: Comparison) -> Evidence:
    """Two speeds as evidence."""
    text = comparison.text or f"{comparison.slow:g} against {comparison.fast:g}"
    return _item("account.comparisons", text, case.account.comparisons, comparison.source)


def _item(fact: str, text: str, known: Known[Any] | Unknown, source: str) -> Evidence:
    origin = known.origin if isinstance(known, Known) else Origin.TOLD
    return Evidence(fact=fact, value=text, reference=None, origin=str(origin), source=source)
