"""Scores `unslow triage` on real reports: is a named cause right, is the right one named, does it hold back in time.

    python -m lab.check_triage [FILE.jsonl ...] [--each] [--json OUT]

A report's visible evidence is the input; its confirmed class of causes is the answer. See lab/data/reports/README.md.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from unslow.commands.triage.pasted_text import triage

DATA = Path(__file__).parent / "data"
REPORTS = DATA / "reports"
KEPT_UNSEEN = {"seventh"}
"""Scored only by name, now and then: a set that is looked at again and again is no longer unseen."""
SEEN = sorted(path for path in REPORTS.glob("*.jsonl") if path.stem not in KEPT_UNSEEN)
CLASSES: dict[str, list[str]] = json.loads((DATA / "cause_classes.json").read_text())
"""The causes that each class of confirmed answers stands for."""


class Answer(NamedTuple):
    """What triage made of one report."""

    report: dict[str, Any]
    named: list[str]

    @property
    def is_right(self) -> bool:
        """Whether the first cause that was named is of the confirmed class."""
        return bool(self.named) and self.named[0] in CLASSES[self.report["cause_class"]]

    @property
    def lacks(self) -> bool:
        """Whether the report does not carry the evidence that decides it."""
        return bool(self.report["needs_more_evidence"])


class Score(NamedTuple):
    """Counts over a file of reports."""

    reports: int
    named: int
    named_right: int
    decidable: int
    decidable_right: int
    lacking: int
    abstained: int

    @property
    def precision(self) -> float:
        """Of the causes that were named, the share that is right."""
        return self.named_right / self.named if self.named else 0.0

    @property
    def found(self) -> float:
        """Of the reports that can be decided, the share with the right cause first."""
        return self.decidable_right / self.decidable if self.decidable else 0.0

    @property
    def held_back(self) -> float:
        """Of the reports that can't be decided, the share without a cause."""
        return self.abstained / self.lacking if self.lacking else 0.0


def read_reports(path: Path) -> list[dict[str, Any]]:
    """The reports of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def visible(report: dict[str, Any]) -> str:
    """What the author showed, and nothing that was learned later."""
    model = f"Model: {report['model']} {report['quant'] or ''}" if report["model"] else None
    head = (f"Runtime: {report['runtime']}", f"Hardware: {report['hardware']}", model, report["symptom"])
    return "\n".join(line for line in (*head, *report["evidence"]) if line)


def answered(report: dict[str, Any]) -> Answer:
    """Triage of one report."""
    subject = triage([visible(report).encode()], "paste").report.subjects[0]
    named = [finding.cause for finding in subject.findings]
    return Answer(report, named or (["normal_for_this_hardware"] if subject.verdict == "normal" else []))


def score(answers: Iterable[Answer]) -> Score:
    """The counts."""
    done = list(answers)
    decidable, lacking = [a for a in done if not a.lacks], [a for a in done if a.lacks]
    return Score(
        reports=len(done),
        named=sum(bool(a.named) for a in done),
        named_right=sum(a.is_right for a in done),
        decidable=len(decidable),
        decidable_right=sum(a.is_right for a in decidable),
        lacking=len(lacking),
        abstained=sum(not a.named for a in lacking),
    )


def main() -> None:
    """Score the files and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=SEEN)
    parser.add_argument("--each", action="store_true", help="one line for each report")
    args = parser.parse_args()
    for path in args.files:
        answers = [answered(report) for report in read_reports(path)]
        for answer in answers if args.each else ():
            mark = "right" if answer.is_right else "wrong" if answer.named else "none"
            lacking = "lacking" if answer.lacks else ""
            print(f"{mark:6}{lacking:8}{answer.report['id']:22}{answer.report['cause_class']:30}{answer.named[:2]}")
        print(f"{path.stem}: {described(score(answers))}")


def described(result: Score) -> str:
    """The score in a sentence."""
    return (
        f"named {result.named} of {result.reports}, {result.precision:.0%} of those right; "
        f"{result.decidable_right} of {result.decidable} decidable ones right ({result.found:.0%}); "
        f"abstained on {result.abstained} of {result.lacking} that lack evidence ({result.held_back:.0%})"
    )


if __name__ == "__main__":
    main()
