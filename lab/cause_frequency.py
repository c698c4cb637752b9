"""Counts which cause is behind how many of the public reports, for the order in which a diagnosis measures.

    python -m lab.cause_frequency [--check]

A report is labelled with a class of causes; where that stands for several, each gets an equal part of it. Reports of
hardware that does what it can count among all, and for no cause.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.check_triage import CLASSES, REPORTS, read_reports

from unslow.think.causes import cause_ids

WHERE = Path(__file__).parents[1] / "src/unslow/catalog/causes/frequency.toml"
SOURCE = "labelled public reports, see lab/data/reports/README.md; written by `python -m lab.cause_frequency`"


def counted(reports: Iterable[dict[str, Any]], causes: Iterable[str]) -> dict[str, float]:
    """Reports by cause; one that stands for several causes is shared between them."""
    classes = Counter(report["cause_class"] for report in reports)
    seen = dict.fromkeys(causes, 0.0)
    for name, number in classes.items():
        for cause in CLASSES[name]:
            if cause in seen:
                seen[cause] += number / len(CLASSES[name])
    return seen


def written(reports: list[dict[str, Any]], causes: Iterable[str]) -> str:
    """The file of the catalogue."""
    rows = sorted(counted(reports, causes).items(), key=lambda row: (-row[1], row[0]))
    head = [f'source = "{SOURCE}"', f"reports = {len(reports)}", "", "[seen]"]
    return "\n".join([*head, *(f"{cause} = {number:.2f}" for cause, number in rows)]) + "\n"


def main() -> int:
    """Write the file, or tell whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where it would change")
    args = parser.parse_args()
    text = written([r for path in sorted(REPORTS.glob("*.jsonl")) for r in read_reports(path)], cause_ids())
    if args.check:
        return int(WHERE.read_text("utf-8") != text)
    WHERE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
