"""What the user asked of the server."""

from typing import NamedTuple

from unslow.app.request import Request
from unslow.facts.bench import Bench
from unslow.think.verify.report import VerifyReport


class Wanted(NamedTuple):
    """The target and the manners of a diagnosis, and what else to show beside it."""

    request: Request
    benches: tuple[Bench, ...] = ()
    """For their curves."""
    verified: VerifyReport | None = None
    """For before and after."""
    measure: bool = False
    """Whether to measure at once."""
