"""Sets of CPUs or NUMA nodes as the kernel writes them: "0-3,8,10-11"."""

import re

HIGHEST_NUMBER = 65535  # far above any kernel's NR_CPUS; a hostile range can't grow the set beyond it
LONGEST_LIST = 65536
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_cpu_list(text: str) -> frozenset[int]:
    """The numbers in the list; what is not a number or a range is passed over."""
    numbers: set[int] = set()
    for word in text[:LONGEST_LIST].split(","):
        match = _RANGE.fullmatch(word.strip())
        if match:
            first, last = int(match[1]), int(match[2] or match[1])
            numbers.update(range(first, min(last, HIGHEST_NUMBER) + 1))
    return frozenset(numbers)
