"""Shows how what is printed now differs from what is stored, or stores it.

python -m tests.golden [show-difference] [VERB] [CASE]      exit 1 where something differs
python -m tests.golden update [VERB] [CASE]

Sentences that tests of single functions give to the fixture `wording` are stored by the tests themselves:

pytest --store-wording tests/FOLDER
"""

import argparse
import sys

from tests.golden.cases import VERBS, Case
from tests.golden.comparing import difference, now
from tests.golden.files import Outputs, store, stored


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("action", nargs="?", default="show-difference", help="show-difference (default) or update")
    parser.add_argument("verb", nargs="?", metavar="VERB", help=", ".join(VERBS))
    parser.add_argument("case", nargs="?", metavar="CASE", help="one case, or how the names of several start")
    args = parser.parse_args()
    if args.action not in ("show-difference", "update"):
        args.action, args.verb, args.case = "show-difference", args.action, args.verb
    if args.verb and args.verb not in VERBS:
        parser.error(f"there is no verb {args.verb!r}: {', '.join(VERBS)}")
    verbs = [args.verb] if args.verb else list(VERBS)
    done = [(update if args.action == "update" else show)(verb, args.case or "") for verb in verbs]
    return int(args.action != "update" and any(done))


def show(verb: str, start: str) -> bool:
    """Print the differences of a verb; whether there are any."""
    cases, found = VERBS[verb](), False
    for name, case in cases.items():
        text = difference(verb, name, case) if name.startswith(start) else ""
        found |= bool(text)
        sys.stdout.write(text)
    gone = [name for name in stored(verb) if name not in cases]
    sys.stdout.write("".join(f"{verb} {name}: stored, and no longer a case\n" for name in gone))
    return found or bool(gone)


def update(verb: str, start: str) -> bool:
    """Store what is printed now; cases with other names stay as they are stored."""
    cases: dict[str, Case] = VERBS[verb]()
    outputs: dict[str, Outputs] = {}
    for name, case in cases.items():
        outputs[name] = now(case) if name.startswith(start) else stored(verb).get(name, {})
    changed = [name for name in {**stored(verb), **outputs} if stored(verb).get(name) != outputs.get(name)]
    store(verb, outputs, {name: case.title for name, case in cases.items()})
    sys.stdout.write(f"{verb}: {len(outputs)} cases, {len(changed)} changed\n")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
