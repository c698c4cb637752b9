"""What a recording keeps of a diagnosis beside the answers of the world: what was asked for, and how it went."""

from typing import Any

import msgspec

from unslow.app.course import USUAL, Course, Limits
from unslow.app.manners import Manners
from unslow.app.request import Request
from unslow.facts.errors import UserError

QUESTION = "diagnosis"


class _Told(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str | None = None
    target: str | None = None
    """A process id."""
    passive: bool = False
    evict: bool = False
    goal: float | None = None
    context: int | None = None
    log: str | None = None
    shape: str | None = None
    limits: Limits = USUAL
    course: Course = Course()


def told(request: Request, url: str | None, course: Course) -> Any:
    """The request and the course as a recording holds them: without the key."""
    return msgspec.to_builtins(
        _Told(
            url,
            None if url else request.target,
            request.manners.passive,
            request.manners.evict,
            request.goal,
            request.context,
            request.log,
            request.shape,
            request.limits,
            course,
        )
    )


def retold(raw: Any) -> tuple[Request, str | None, Course]:
    """The request, the URL that it means, and the course; UserError where a recording holds something else."""
    try:
        kept = msgspec.convert(raw, _Told)
    except msgspec.ValidationError as error:
        raise UserError(f"the recording of a diagnosis does not fit: {error}", "record it again") from error
    manners = Manners(passive=kept.passive, evict=kept.evict)
    request = Request(
        kept.url or kept.target, manners, kept.goal, kept.context, kept.log, kept.shape, limits=kept.limits
    )
    return request, kept.url, kept.course
