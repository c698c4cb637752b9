"""What a measurement would send, told before anybody starts it: from what was seen, without asking the server again."""

from typing import Literal, NamedTuple

from unslow.app.bench.standard import QUICK as QUICK_PROTOCOL
from unslow.app.bench.standard import STANDARD, Protocol, requests_for
from unslow.app.course import QUICK
from unslow.app.manners import refusal
from unslow.app.request import Request
from unslow.app.visit import Visit
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.system.live import LiveSystem

Kind = Literal["diagnose", "bench", "depth", "users"]
LABELS: dict[Kind, str] = {"diagnose": "Measure", "bench": "Benchmark", "depth": "Depth sweep", "users": "Users sweep"}
NOTHING_RUNS = "nothing runs here: the embedded engine is started on a made-up model, and nobody else is asked"


class Offered(NamedTuple):
    """A measurement that could be made."""

    kind: Kind
    words: str
    refused: str = ""
    """Why it can't be made; empty where it can."""


def offered(seen: Snapshot, subject: Subject | None, request: Request, kind: Kind) -> Offered:
    """What one kind would send to a subject, or to the embedded engine where there is none."""
    if request.manners.passive:
        return Offered(kind, "", "--passive was given: start it again without")
    if subject is None or subject.runtime.embedded:
        return Offered(kind, NOTHING_RUNS)
    why = refusal(subject, request.manners)
    if kind == "diagnose":
        visit = Visit(LiveSystem(), seen, subject, request.manners, request.limits)
        return Offered(
            kind, f"{why.why}: it is only observed, nothing is sent" if why else f"sends {visit.announcement()}"
        )
    if why:
        return Offered(kind, "", f"{why.why}: {why.how_to_get}")
    url = subject.runtime.url.value_or("the server")
    protocol = QUICK_PROTOCOL if request.limits == QUICK else STANDARD
    return Offered(kind, f"{_traffic(kind, subject, protocol)} to {url}")


def _traffic(kind: Kind, subject: Subject, protocol: Protocol) -> str:
    context = subject.runtime.context_per_slot.value_or(subject.runtime.context_length.value_or(None))
    if kind == "bench":
        protocol = protocol.within(context)
        count = requests_for(protocol, subject.runtime.name.value_or("llama.cpp"))
        return f"sends {count} requests or more, of up to {_largest(protocol):,} tokens each,"
    if kind == "depth":
        room = f"up to {context:,} tokens" if context else "the whole context"
        return f"sends longer and longer prompts, {room}, for up to ten minutes,"
    return "sends more and more requests at once, for up to ten minutes,"


def _largest(protocol: Protocol) -> int:
    return max(wanted.tokens + wanted.prompt_tokens for wanted in protocol.cases)
