"""What `unslow verify` does: measure both, or one and read the other, and judge."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.app.bench.server import Place, place_of
from unslow.app.discretion import Discretion
from unslow.app.progress import Progress
from unslow.app.read_target import as_url, is_live
from unslow.app.verify.alone import alone
from unslow.app.verify.answering import extent_before
from unslow.app.verify.course import Course
from unslow.app.verify.lives import one_after_the_other
from unslow.app.verify.party import Party
from unslow.app.verify.plans import Planned, both_lines, its_server, read_plan
from unslow.app.verify.request import Request
from unslow.app.verify.room import check_room
from unslow.app.verify.turns import in_turns
from unslow.facts.errors import UserError
from unslow.facts.verified import LARGEST_SIDE_BYTES, Side, Work, dump_side, parse_side
from unslow.think.verify.judge import Told, judged
from unslow.think.verify.report import VerifyReport, Way

__all__ = ["Request", "Saved", "verify", "write_report"]

_WATCHED_HZ = 2.0
"""Samples of the machine in a second while one server is measured alone: enough for its clocks."""


class Saved(NamedTuple):
    """A side that was measured and written."""

    side: Side
    path: str


def verify(request: Request, progress: Progress) -> VerifyReport | Saved:
    """Measure what the request asks for; UserError where nothing can be measured."""
    words = [word for word in (request.before, request.after) if word]
    keys = [key for word in words for key in Discretion.about(request.manners.api_key, as_url(word)).keys]
    discretion = Discretion(tuple(dict.fromkeys(keys)))
    with discretion.errors():
        shown = discretion.progress(progress)
        planned = read_plan(request.plan, request.option) if request.plan else None
        if planned and (request.save or request.against) and not request.after:
            request = request._replace(after=its_server(planned))
        if request.save:
            return _saved(request, planned, request.save, shown, discretion)
        if request.against:
            return _against(request, planned, request.against, shown, discretion)
        return _both(request, planned, shown, discretion)


def write_report(report: VerifyReport, path: str) -> None:
    """Write the report as JSON; UserError where it can't be."""
    try:
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file in a folder that exists") from error


def _both(request: Request, planned: Planned | None, progress: Progress, discretion: Discretion) -> VerifyReport:
    words = request.before or "", request.after or ""
    words = both_lines(planned, *words) if planned else words
    course = Course(request.work(planned.work if planned else Work()), request.seconds, request.answers)
    places = _places(words, request, progress)
    parties = [Party(*pair, request.manners, request.model) for pair in zip(words, places, strict=True)]
    for party, place in zip(parties, places, strict=True):
        check_room(party, place, course.work)
    together = request.together or all(party.is_running for party in parties)
    if not together and any(party.is_running for party in parties):
        raise UserError("one of them runs and the other has to be started", "give two URLs or two command lines")
    way: Way = "in_turns" if together else "one_after_the_other"
    measure = in_turns if together else one_after_the_other
    _announce(parties, course, progress)
    end = _ended(places[0], lambda: measure(parties, course, places[0].system, progress))
    before, after = (discretion.facts(party.side(course.work)) for party in parties)
    return judged(before, after, _told(request, planned, places[0], way, end))


class _End(NamedTuple):
    """How measuring ended: why before its time, or because the user had enough."""

    why: str = ""
    interrupted: bool = False
    took_s: float = 0.0


def _ended(place: Place, measure: Callable[[], str]) -> _End:
    start, why, interrupted = place.system.clock(), "", False
    try:
        why = measure()
    except KeyboardInterrupt:
        interrupted = True
    return _End(why, interrupted, place.system.clock() - start)


def _told(request: Request, planned: Planned | None, place: Place, way: Way, end: _End) -> Told:
    return Told(
        unslow_version=__version__,
        machine=place.snapshot.machine.cpu.model.value_or(""),
        way=way,
        allowed=request.allowed(planned.floor if planned else None),
        option=planned.option if planned else None,
        interrupted=end.interrupted,
        ended=end.why,
        answers=request.answers,
        asked_s=request.seconds,
        took_s=end.took_s,
    )


def _places(words: Sequence[str], request: Request, progress: Progress) -> list[Place]:
    """Where each of them is; two that are started share one look at the machine."""
    key = request.manners.api_key or ""
    places: list[Place] = []
    for word in words:
        if places and not is_live(word) and not is_live(words[0]):
            places.append(places[0])
        else:
            places.append(place_of(word if is_live(word) else None, key, progress))
    return places


def _announce(parties: Sequence[Party], course: Course, progress: Progress) -> None:
    work = course.work
    deep = f" after {work.kept_tokens} that the cache has" if work.kept_tokens else ""
    progress.say(
        f"asking for {work.answer_tokens} tokens after a prompt of {work.prompt_tokens}{deep}, for about "
        f"{course.seconds:.0f} s: {' and '.join(party.what for party in parties)}; Ctrl-C keeps what was measured"
    )


def _alone(request: Request, course: Course, progress: Progress) -> tuple[Party, Place, _End]:
    word = request.after or ""
    place = place_of(word if is_live(word) else None, request.manners.api_key or "", progress)
    party = Party(word, place, request.manners, request.model, _WATCHED_HZ)
    check_room(party, place, course.work)
    _announce([party], course, progress)
    return party, place, _ended(place, lambda: alone(party, course, place.system, progress))


def _saved(request: Request, planned: Planned | None, path: str, progress: Progress, discretion: Discretion) -> Saved:
    course = Course(request.work(planned.work if planned else Work()), request.seconds, request.answers)
    party, _, end = _alone(request, course, progress)
    if not party.samples:
        raise UserError(f"nothing was measured, so nothing is kept: {end.why or 'stopped'}", "is the server well?")
    side = discretion.facts(party.side(course.work))
    try:
        Path(path).write_bytes(dump_side(side))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file in a folder that exists") from error
    return Saved(side, path)


def _against(
    request: Request, planned: Planned | None, path: str, progress: Progress, discretion: Discretion
) -> VerifyReport:
    before = _read_side(path)
    work = request.work(before.work)
    if work != before.work:
        known = before.work
        hint = f"leave out --prompt, --kept and --answer: it was {known.prompt_tokens}, {known.kept_tokens} and "
        raise UserError(f"{path} was measured with another request", f"{hint}{known.answer_tokens}")
    course = Course(work, request.seconds, request.answers and bool(before.answers), extent_before(before))
    party, place, end = _alone(request, course, progress)
    return judged(before, discretion.facts(party.side(work)), _told(request, planned, place, "apart", end))


def _read_side(path: str) -> Side:
    try:
        with Path(path).open("rb") as file:
            return parse_side(file.read(LARGEST_SIDE_BYTES + 1), path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name the file that --save wrote") from error
