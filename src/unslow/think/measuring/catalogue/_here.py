"""What several measurements ask of a case before they can be made."""

from unslow.facts.snapshot import Case
from unslow.facts.values import first_known

ROOM = 512
"""Tokens of a context, for the template and the answer."""
WHILE_GENERATING = (
    "run.gpus",
    "run.telemetry",
    "run.own_cpus",
    "run.others_cpus",
    "run.busiest_others",
    "run.waiting_for_cpu_s_per_token",
    "run.cpu_throttled_fraction",
)
"""What is seen of the machine while the server works."""
_LOOPBACK = ("//localhost", "//127.", "//[::1]")


def context_of(case: Case) -> int | None:
    """The tokens that a prompt and its answer may have together, where that is known."""
    return first_known(case.runtime.context_per_slot, case.runtime.context_length).value_or(None)


def fits(case: Case, tokens: int) -> bool:
    """Whether a prompt of so many leaves room for the rest; where nobody knows, it may."""
    context = context_of(case)
    return context is None or context >= tokens + ROOM


def is_here(case: Case) -> bool:
    """Whether the server is on this machine."""
    return any(place in case.runtime.url.value_or("") for place in _LOOPBACK)
