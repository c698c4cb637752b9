"""Compare the sizes of made-up models with those of real files.

    python lab/file_sizes.py

`data/file_sizes.csv` has what llama-bench printed for files that people measured: the sum of their tensors. The mix of
a file is `plain` where llama-quantize made it with no wish of the publisher's; those must agree within 2 %. In the
others the publisher chose types (`own`), or may have (`unknown`): they are printed for the record.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unslow.catalog.models import well_known
from unslow.facts.values import GIB
from unslow.think.blueprints import made_up

DATA = Path(__file__).parent / "data" / "file_sizes.csv"


class Compared(NamedTuple):
    """A file's size beside the made-up one."""

    model: str
    quant: str
    mix: str
    real_gib: float
    made_gib: float

    @property
    def off(self) -> float:
        """How far the made-up one is off, as a share of the real one."""
        return self.made_gib / self.real_gib - 1


def compared() -> Iterator[Compared]:
    """Every file of the table."""
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            made = made_up(well_known()[row["model"]], row["quant"])
            made_gib = sum(t.bytes for t in made.tensors) / GIB
            yield Compared(row["model"], row["quant"], row["mix"], float(row["gib"]), made_gib)


def main() -> None:
    """Print the table, the worst last."""
    rows = sorted(compared(), key=lambda row: (row.mix != "plain", abs(row.off)))
    for row in rows:
        print(f"{row.model:24} {row.quant:8} {row.mix:7} {row.real_gib:9.3f} GiB {row.made_gib:9.3f} {row.off:+7.2%}")
    plain = [abs(row.off) for row in rows if row.mix == "plain"]
    print(f"{len(plain)} plain files: worst {max(plain):.2%}, median {sorted(plain)[len(plain) // 2]:.2%}")


if __name__ == "__main__":
    main()
