"""Measured against predicted decode speed on every recorded machine, and the cause that is named first.

make machines
"""

import sys
from pathlib import Path

from unslow.commands.diagnose.target import read_stored
from unslow.think.case.speed import DECODE
from unslow.think.judge.judge import diagnose
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.report import SubjectReport

MACHINES = Path(__file__).parents[1] / "tests" / "machines"


def main() -> None:
    """Print a row for each machine, or for the folders that are named."""
    folders = [Path(p) for p in sys.argv[1:]] or sorted(p for p in MACHINES.iterdir() if p.is_dir())
    print(f"{'machine':44} {'measured':>9} {'as configured':>15} {'achievable':>12}", end=" ")
    print(f"{'off':>5} {'unexplained':>11}  first cause")
    for folder in folders:
        subjects = diagnose(read_stored(str(folder))).subjects
        if not subjects:
            continue  # a machine on which nothing runs
        report = subjects[0]
        speeds = [report.measured.get(DECODE)] + [
            r[DECODE].mid if DECODE in r else None for r in (report.expected.as_configured, report.expected.achievable)
        ]
        now, set_up, best = (f"{s:.1f}" if s else "-" for s in speeds)
        cause = report.findings[0].cause if report.findings else report.verdict
        off = f"{speeds[1] / speeds[0] - 1:+.0%}" if speeds[0] and speeds[1] else "-"
        print(f"{folder.name:44} {now:>9} {set_up:>15} {best:>12} {off:>5} {_unexplained(report):>11}  {cause}")


def _unexplained(report: SubjectReport) -> str:
    total = sum(b.seconds for b in report.budget if b.phase == "decode")
    left = sum(b.seconds for b in report.budget if b.phase == "decode" and b.part == UNEXPLAINED)
    return f"{left / total:.0%}" if total else "-"


if __name__ == "__main__":
    main()
