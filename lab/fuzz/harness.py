"""The command line that every fuzzing script has."""

import argparse
from pathlib import Path

from lab.fuzz.watch import Target, Watch, bound_memory
from lab.fuzz.ways import WAYS


def main(target: Target, documentation: str) -> int:
    """Fuzz the target as asked; the status tells whether all was well."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=[*WAYS, "replay"])
    parser.add_argument("files", nargs="*", type=Path, help="inputs to replay")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    watch = Watch(target)
    bound_memory()
    if arguments.way == "replay":
        for path in arguments.files:
            watch.look(path.read_bytes())
    else:
        WAYS[arguments.way](target, watch, arguments.count, arguments.seed)
    return watch.report()
