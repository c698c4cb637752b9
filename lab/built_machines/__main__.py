"""Writes the built machines: `python -m lab.built_machines [--only NAME]`."""

import argparse

from lab.built_machines.every import every


def main() -> None:
    """Write all of them, or those whose name contains a word."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word that the names of those to write contain")
    word = parser.parse_args().only
    for built in every():
        if word in built.name:
            print(built.build())


if __name__ == "__main__":
    main()
