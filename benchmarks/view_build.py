"""What building the view of a stored snapshot takes of a processor, and how large it is, over all recorded machines.

python -m benchmarks.view_build
"""

import statistics
import sys
import time
from pathlib import Path

import msgspec

from unslow.commands.diagnose.target import read_stored
from unslow.page.build import Sources, view_of
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parents[1] / "tests" / "machines"
MOST_MS, MOST_BYTES = 300.0, 1_000_000
"""What a page that opens within a second can wait for and read."""


def main() -> int:
    """Print the medians and the worst ones; the status tells whether both goals are met."""
    took: dict[str, float] = {}
    size: dict[str, int] = {}
    folders = sorted(path.parent for path in MACHINES.glob("*/expected.toml"))
    for folder in (folders[0], *folders):  # the first one also imports what it needs, and is built again
        snapshot = read_stored(str(folder))
        report = diagnose(snapshot)
        start = time.process_time()
        view = view_of(report, Sources(snapshot))
        took[folder.name] = 1000 * (time.process_time() - start)
        size[folder.name] = len(msgspec.json.encode(view))
    slow, large = max(took, key=lambda name: took[name]), max(size, key=lambda name: size[name])
    sys.stdout.write(
        f"{len(took)} machines\n"
        f"building: {statistics.median(took.values()):.0f} ms, at most {took[slow]:.0f} ms ({slow})\n"
        f"JSON: {statistics.median(size.values()) / 1000:.0f} kB, at most {size[large] / 1000:.0f} kB ({large})\n"
    )
    return 0 if took[slow] < MOST_MS and size[large] < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
