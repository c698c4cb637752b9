"""What a command would do that the page has a button for: whoever looks at the page presses it instead."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from unslow.show._html.live import Offered

_MEASURES = re.compile(
    r"(?:run )?`?unslow(?: [^\s`]*://[^\s`]+)?`?(?: while the runtime is idle, without --passive)?\.?"
)
_EVICTS = re.compile(r"measure with --evict\.?")
_COMPARES = re.compile(r"unslow bench(?: \S+)? --compare LAST")
NO_BUTTONS: Mapping[str, str] = MappingProxyType({})
"""Of a file, which can start nothing."""


def buttons_of(offers: Iterable[Offered], number: int, *, alone: bool) -> dict[str, str]:
    """The buttons of a subject that can be pressed: what each says, by its kind."""
    found = {offer.kind: offer.label for offer in offers if offer.subject in (number, None) and not offer.refused}
    if alone and "bench" in found:  # before and after are compared where there is no doubt of what
        found["compare"] = found["bench"]
    return found


def pressed(command: str, buttons: Mapping[str, str]) -> str:
    """The button that does the same as a command, in words; empty where there is none."""
    if "diagnose" in buttons and _MEASURES.fullmatch(command):
        return f"press {buttons['diagnose']}."
    if "diagnose" in buttons and _EVICTS.fullmatch(command):
        return f"press {buttons['diagnose']}, then Measure anyway."
    if "compare" in buttons and _COMPARES.fullmatch(command):
        label = buttons["compare"]
        return f"press {label}, change what you want to change, and press {label} again."
    return ""
