"""Compares computed memory with what llama.cpp's own allocator asked for, row by row.

    python -m lab.check_memory [FILE...]        all rows of the files in lab/data/memory, by default of all of them

Each file is a recording of one build; how it was made stands in lab/data/README.md.
"""

import sys
from collections import defaultdict

from lab.memory_rows import EXACT_MIB, FOLDER, is_within, rows


def main(names: list[str]) -> int:
    """Print a line for each model that is not exact, and the sums."""
    outside = 0
    for name in names or sorted(p.name for p in FOLDER.glob("*.csv")):
        found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
        for row in rows(name):
            errors = row.errors_mib()
            found[row.model].append((is_within(row, errors), max(map(abs, errors))))
        for model, results in found.items():
            worst = max(error for _, error in results)
            if worst > EXACT_MIB:
                exact = sum(error <= EXACT_MIB for _, error in results)
                print(f"  {model}: {exact} of {len(results)} exact, the worst part is {worst:.1f} MiB off")
        every = [result for results in found.values() for result in results]
        within, exact = sum(ok for ok, _ in every), sum(error <= EXACT_MIB for _, error in every)
        print(f"{name}: {len(every)} rows of {len(found)} models, {within} within tolerance, {exact} exact")
        outside += len(every) - within
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
