"""What may be done to a request, how often, and as what whoever asked must have counted it."""

import random
from typing import NamedTuple


class Deed(NamedTuple):
    """One way to treat a request."""

    meaning: str
    weight: float
    kinds: frozenset[str]
    """What it must be in the ledger of the one who asked: "answered", or the kinds of failure that are right."""
    exact: bool = True
    """Whether exactly the pieces that were passed on must have come; a reset throws away what was not yet read."""


def _kinds(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


DEEDS: dict[str, Deed] = {
    "pass": Deed("passes everything on", 0.56, _kinds("answered")),
    "late": Deed("waits for seconds before the first byte", 0.06, _kinds("answered")),
    "drip": Deed("passes on each piece late and in two parts", 0.06, _kinds("answered")),
    "silent": Deed("accepts, and never says a word", 0.03, _kinds("not_answered")),
    "stall": Deed("stops in the middle and stays connected", 0.05, _kinds("stalled")),
    "reset": Deed("resets the connection in the middle", 0.05, _kinds("broke_off"), exact=False),
    "close": Deed("closes the connection in the middle", 0.05, _kinds("broke_off")),
    "half_piece": Deed("closes it in the middle of a piece", 0.03, _kinds("broke_off")),
    "short": Deed("ends the answer properly, and too early", 0.03, _kinds("broke_off")),
    "hang_up": Deed("closes the connection without a word", 0.03, _kinds("broke_off")),
    "loading": Deed("answers 503, as a server that loads", 0.02, _kinds("error")),
    "garbage_500": Deed("answers 500 and bytes that are no text", 0.02, _kinds("error")),
    "garbage_200": Deed("answers 200 and a page of HTML", 0.01, _kinds("error", "broke_off")),
}

DIED = frozenset({"broke_off", "gone"})
"""What a request may be counted as whose server was killed while it answered."""
DOWN = frozenset({"error"})
"""What it is where the server was away and the proxy said so."""


def drawn(dice: random.Random) -> str:
    """One deed, by weight."""
    names = list(DEEDS)
    return dice.choices(names, [DEEDS[name].weight for name in names])[0]
