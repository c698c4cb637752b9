"""The door of the command line, also `python -m unslow`."""

import sys
from collections.abc import Sequence

from unslow import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 fine, 1 something found, 2 could not run, 3 cannot tell."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        sys.stdout.write(f"unslow {__version__}\n")
        return 0
    from unslow.commands._dispatch import dispatch  # noqa: PLC0415 (a version number needs none of it)

    return dispatch(words)


if __name__ == "__main__":
    sys.exit(main())
