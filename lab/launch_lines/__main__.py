"""Look at every launch line, or at those that are named.

    python -m lab.launch_lines --server llama-server --model small.gguf [--record FOLDER]

UNSLOW_LLAMA_SERVER and UNSLOW_LLAMA_MODEL stand in for the two options. `--record` keeps what was read, with the truth
beside it, for the tests.
"""

import argparse
import os
import sys
from pathlib import Path

from lab.launch_lines.lines import LINES
from lab.launch_lines.look import look_at, look_at_embedded
from lab.launch_lines.servers import prepared

EMBEDDED = "embedded"


def main() -> None:
    """Look at every line, or at those that are named; status 1 where something known is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.launch_lines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--server", default=os.environ.get("UNSLOW_LLAMA_SERVER"))
    parser.add_argument("--model", default=os.environ.get("UNSLOW_LLAMA_MODEL"))
    parser.add_argument("--folder", type=Path, help="where logs go; default: a new one")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if not args.server or not args.model:
        parser.error("--server and --model are needed")
    folder = args.folder or prepared(args.model)
    lines = [line for line in LINES if not args.names or line.name in args.names]
    good = [look_at(args.server, args.model, line, folder, args.record) for line in lines]
    if not args.names or EMBEDDED in args.names:
        good.append(look_at_embedded(args.model))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
