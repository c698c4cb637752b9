"""A case computed now, against what is stored of it."""

import difflib
import json
from collections.abc import Iterator

from tests.golden.cases import Case
from tests.golden.files import Outputs, stored
from tests.golden.running import elsewhere, masked

_LONGEST_LINE = 240
_TAGS = "<"


def now(case: Case) -> Outputs:
    """The outputs of a case, without what differs from machine to machine."""
    with elsewhere() as home:
        return {kind: masked(text, home) for kind, text in case.compute(home).items()}


def difference(verb: str, name: str, case: Case, most: int = 0) -> str:
    """How the outputs of now differ from the stored ones, in `most` lines of a unified diff; empty where they don't."""
    before, after = stored(verb).get(name, {}), now(case)
    if before == after:
        return ""
    lines = [line for kind in {**before, **after} for line in _compared(kind, before.get(kind), after.get(kind))]
    shown = lines[:most] if most else lines
    left = [f"... and {len(lines) - most} lines more"] if most and len(lines) > most else []
    head = [f"{verb} {name}: {case.title}", f"all of it: python -m tests.golden show-difference {verb} {name}"]
    return "\n".join([*head, *shown, *left, ""])


def _compared(kind: str, before: str | None, after: str | None) -> Iterator[str]:
    if before is None or after is None:
        yield f"{kind}: {'not stored' if before is None else 'stored, and no longer given'}"
    elif before != after:
        one, other = _lines(kind, before), _lines(kind, after)
        if one == other:
            yield f"{kind}: the same but for spaces, ends of lines or the order of keys"
        for line in difflib.unified_diff(one, other, f"stored {kind}", f"{kind} now", lineterm="", n=2):
            yield line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."


def _lines(kind: str, text: str) -> list[str]:
    """Lines to compare: of JSON one for each value, of HTML one for each tag."""
    if kind == "json":
        try:
            end = text.rindex("\n[exit") if "\n[exit" in text else len(text)
            return [*json.dumps(json.loads(text[:end]), indent=1, ensure_ascii=False).splitlines(), text[end:]]
        except ValueError:
            return text.splitlines()
    return text.replace(_TAGS, "\n<").splitlines() if kind == "html" else text.splitlines()
