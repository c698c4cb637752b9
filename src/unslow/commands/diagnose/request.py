"""What is asked of a diagnosis: its time, its key, its wishes; and how a recording holds that, with how it went."""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from unslow.commands._formats import Looking
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Wish
from unslow.facts.values import NOT_LOOKED, reported_fact

Ended = Literal["enough", "late", "stopped"]
L = TypeVar("L", bound=Looking)
RECORDED_REQUEST = "diagnosis"
_A_SPEED = 15.0
"""Completions in all of the time: five of them may be needed, and leave most of it to other measurements."""


class Limits(NamedTuple):
    """What the user gives it time for."""

    seconds: float  # From the first look to the report
    seconds_per_completion: float
    patience: float = 1.0  # How much longer than usual a trial may take, and how much less may come of it
    only: tuple[str, ...] = ()  # The measurements to make, where not all that are worth it are wanted


QUICK, USUAL, THOROUGH = Limits(10.0, 0.7, 0.5), Limits(60.0, 4.0), Limits(300.0, 6.0, 2.5)


class Step(NamedTuple):
    """One measurement: the number of the subject, and which."""

    subject: int
    name: str


class Course(msgspec.Struct, frozen=True):
    """How the measuring went: enough for a recording to go the same way."""

    steps: tuple[Step, ...] = ()
    ended: Ended = "enough"
    seconds: float = 0.0


class RecordedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request and the course as a recording holds them: without the key."""

    url: str | None = None
    target: str | None = None  # A process id
    passive: bool = False
    evict: bool = False
    goal: float | None = None
    context: int | None = None
    log: str | None = None
    shape: str | None = None
    limits: Limits = USUAL
    course: Course = Course()


def resolve_request(request: L) -> L:
    """The request with the key of the environment where none was given, and the whole path of its log."""
    key = request.api_key or os.environ.get("UNSLOW_API_KEY")
    return request._replace(api_key=key, log=str(Path(request.log).resolve()) if request.log else None)


def limits_of(request: Looking) -> Limits:
    """What a request gives it time for: the usual ones, or those for a time between them."""
    if request.seconds is None:
        return QUICK if request.quick else THOROUGH if request.thorough else USUAL
    seconds = request.seconds
    like = QUICK if seconds <= QUICK.seconds else USUAL if seconds < THOROUGH.seconds else THOROUGH
    each = min(like.seconds_per_completion, max(QUICK.seconds_per_completion, seconds / _A_SPEED))
    return like._replace(seconds=seconds, seconds_per_completion=each)


def wish_of(request: Looking) -> Wish:
    """What the user wants, as facts."""
    return Wish(
        context_tokens=NOT_LOOKED if request.context is None else reported_fact(request.context, "--context"),
        tokens_per_s=NOT_LOOKED if request.goal is None else reported_fact(request.goal, "--goal"),
    )


def with_wish(snapshot: Snapshot, request: Looking) -> Snapshot:
    """What was seen before, with the wishes of now where there are any."""
    if request.goal is None and request.context is None:
        return snapshot
    return msgspec.structs.replace(snapshot, wish=wish_of(request))


def request_to_record(request: Looking, url: str | None, limits: Limits, course: Course) -> Any:
    """What is recorded of a diagnosis of that URL, or of what the request names."""
    target, shape = None if url else request.target, request.model
    asked = (request.passive, request.evict, request.goal, request.context, request.log, shape)
    return msgspec.to_builtins(RecordedRequest(url, target, *asked, limits, course))


def recorded_request(raw: Any) -> tuple[Looking, RecordedRequest]:
    """The request again, and all that was recorded of it; UserError where a recording holds something else."""
    try:
        kept = msgspec.convert(raw, RecordedRequest)
    except msgspec.ValidationError as error:
        raise UserError(f"the recording does not match this version: {error}", "record it again") from error
    same = {name: getattr(kept, name) for name in ("passive", "evict", "goal", "context", "log")}
    return Looking(target=kept.url or kept.target, model=kept.shape, **same), kept
