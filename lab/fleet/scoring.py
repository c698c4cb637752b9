"""A report of a generated fleet held against what was put into it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_NO_CAUSE = ("no_exporter", "down", "unexplained")
"""Faults that no cause names: nothing may be said of them that is not so."""


class Score(NamedTuple):
    """What was named, and what should not have been."""

    faults: Counter[str]
    named: Counter[str]
    """Those whose instance has one of the causes that the fault has."""
    slow: Counter[str]
    """By fault, how many were called slow; "" for healthy ones."""
    wrongly: Counter[str]
    """Causes that were found on healthy instances."""
    confused: Counter[tuple[str, str]]
    """The first cause of an instance whose fault has another."""
    verdicts: Counter[tuple[str, str]]
    """By fault or oddity, and verdict."""
    lost: int
    """Instances that the report does not have."""
    extra: int
    """Those that it has and that are not there."""

    @property
    def named_share(self) -> float:
        """Of the faults that have a cause."""
        total = sum(number for fault, number in self.faults.items() if fault not in _NO_CAUSE)
        return sum(self.named.values()) / total if total else 1.0

    @property
    def false_share(self) -> float:
        """Of healthy instances that were called slow."""
        healthy = sum(number for (kind, _), number in self.verdicts.items() if kind in ("", "replicas"))
        return self.slow[""] / healthy if healthy else 0.0

    def shown(self) -> str:
        """As lines of text."""
        lines = [f"  {self.named_share:.1%} of faults named, {self.false_share:.2%} of healthy ones called slow"]
        lines += [f"    {fault}: {self.named[fault]} of {number}" for fault, number in sorted(self.faults.items())]
        lines += [f"    {kind or 'healthy'}: {verdict} {n}" for (kind, verdict), n in sorted(self.verdicts.items())]
        lines += [f"    on healthy ones: {cause} {number}" for cause, number in self.wrongly.most_common()]
        lines += [f"    {fault} taken for {cause} {number}" for (fault, cause), number in self.confused.most_common(12)]
        return "\n".join([*lines, f"    missing in the report: {self.lost}; not in the fleet: {self.extra}"])


def score(known: Iterable[Mapping[str, Any]], instances: Iterable[Mapping[str, Any]]) -> Score:
    """Match by any name of an instance, and count."""
    found = {str(one["key"]): one for one in instances}
    faults, named, slow, wrongly = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    confused, verdicts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    matched = set[str]()
    lost = 0
    for one in known:
        fault = one["fault"]
        faults.update([fault] if fault else [])
        key = next((name for name in one["names"] if name in found), None)
        if key is None:
            lost += 1
            continue
        matched.add(key)
        told = found[key]
        causes = [str(finding["cause"]) for finding in told.get("findings", ())]
        verdicts[fault or one["odd"], str(told["verdict"])] += 1
        slow[fault] += told["verdict"] == "slow"
        if not fault:
            wrongly.update(causes)
        elif set(causes) & set(one["causes"]):
            named[fault] += 1
        elif one["causes"]:
            confused[fault, causes[0] if causes else "nothing"] += 1
    return Score(faults, named, slow, wrongly, confused, verdicts, lost, len(found) - len(matched))
