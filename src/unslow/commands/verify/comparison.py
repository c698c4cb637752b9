"""What `unslow verify` does: reads what was asked or what a plan means, measures, judges, writes the report."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.commands._output import Progress
from unslow.commands.bench.request import check_writable
from unslow.commands.bench.server import Place as ServerPlace
from unslow.commands.bench.server import place_of
from unslow.commands.diagnose.discretion import Discretion
from unslow.commands.diagnose.target import is_live
from unslow.commands.plan.subjects import read_saved
from unslow.commands.verify import VerifyRequest
from unslow.commands.verify.rounds import Course, in_turns, measure_alone, one_after_the_other
from unslow.commands.verify.server import FEWEST_PLACES, Extent, MeasuredServer, check_room
from unslow.facts.commands import Place, parse_line
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.facts.verification import LARGEST_SIDE_BYTES, Side, Work, parse_side
from unslow.look.launch.command import parse_command
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import OptionShown
from unslow.think.stats.answers import ALLOWED
from unslow.think.stats.verification import VerifyContext, chosen_option, judge_verification, work_of
from unslow.think.stats.verification_report import VerifyReport, Way

LARGEST_BYTES = 16 * 1024**2  # A report has some kilobytes; one with every answer in it stays far below this
_HINT = "give a file written by `unslow verify --json > FILE`"
_FORMS = "for example `unslow verify --before URL --after URL`; see `unslow verify --help`"
_WATCHED_HZ = 2.0  # Samples of the machine in a second while one server is measured alone: enough for its clocks


class PlannedComparison(NamedTuple):
    """What a plan means for two servers; a command is empty where the plan has no line that starts one."""

    before: str
    after: str
    work: Work
    option: OptionShown
    floor: float | None  # The rise of perplexity that the plan allows
    url: str = ""  # Of the server that the plan was made for, where that is on this machine


class _End(NamedTuple):
    """How measuring ended: why before its time, or because the user had enough."""

    why: str = ""
    interrupted: bool = False
    took_s: float = 0.0


def verify(request: VerifyRequest, progress: Progress) -> VerifyReport | Side:
    """Measure what the request asks for, which may be one side to keep; UserError where nothing can be measured."""
    request = resolve_request(request)
    words = [word for word in (request.before, request.after) if word]
    keys = [key for word in words for key in Discretion.about(request.api_key, word).keys]
    discretion = Discretion(tuple(dict.fromkeys(keys)))
    with discretion.errors():
        shown = discretion.progress(progress)
        planned = read_plan(request.plan, request.option) if request.plan else None
        if planned and (request.save or request.against) and not request.after:
            if not planned.url:
                hint = "give its URL or process id as TARGET"
                raise UserError("the plan does not name a server on this machine", hint)
            request = request._replace(after=planned.url)
        if request.save:
            return _save_side(request, planned, shown, discretion)
        if request.against:
            return _against(request, planned, shown, discretion)
        return _compare_servers(request, planned, shown, discretion)


def resolve_request(request: VerifyRequest) -> VerifyRequest:
    """The request with its TARGET as what is after, and the key of the environment; UserError where it makes no sense.

    Before and after are each the URL or process id of a server that runs, or a command line that starts one.
    """
    if request.target is not None:
        if request.after is not None:
            raise UserError("TARGET and --after are mutually exclusive", "give only one of them")
        request = request._replace(after=request.target)
    check_writable("--save", request.save)
    check_writable("--output", request.output)
    if request.save and request.against:
        raise UserError("--save measures the first, --against the second", "run them one after the other")
    if request.option is not None and not request.plan:
        raise UserError("--option needs a plan", "add --plan plan.json")
    alone = request.save or request.against
    if alone and (request.before or request.together):
        raise UserError("--save and --against measure one server at a time", "give only its URL")
    if alone and not request.after and not request.plan:
        raise UserError("no server given", "for example `unslow verify --save before.json http://127.0.0.1:8080`")
    if not alone and not request.plan and not (request.before and request.after):
        raise UserError("verify needs two servers: before and after the change", _FORMS)
    if request.together and (is_live(request.before) or is_live(request.after)) and not request.plan:
        hint = "omit it"
        raise UserError("--together is for two command lines: running servers already run together", hint)
    return request._replace(api_key=request.api_key or os.environ.get("UNSLOW_API_KEY"))


def read_plan(path: str, number: int | None) -> PlannedComparison:
    """The plan in a file, with the option of that number or the recommended one; UserError where it is none."""
    plan = read_saved(path)
    option = chosen_option(plan, number)
    if option is None:
        there = f"it has {len(plan.options)}" if plan.options else plan.reason or "it has none"
        hint = "--option takes a number from 0, as in the JSON"
        raise UserError(f"{path}: the plan has no such option: {there}", hint)
    before = starting_line(plan.current) if plan.current else ""
    floor = plan.goal.worst_perplexity_increase or None
    url = plan.url if is_loopback(urlsplit(plan.url).hostname or "") else ""  # a file may say anything
    return PlannedComparison(before, starting_line(option), work_of(plan.goal), option, floor, url)


def starting_line(option: OptionShown) -> str:
    """The first line of an option that starts a server which can be started here; empty where there is none."""
    for command in option.commands:
        line = parse_line(command)
        if line.place is Place.SHELL:
            with suppress(UserError):
                parse_command(line.text)
                return line.text
    return ""


def _compare_servers(
    request: VerifyRequest, planned: PlannedComparison | None, progress: Progress, discretion: Discretion
) -> VerifyReport:
    both = request.before or "", request.after or ""
    if planned:
        both = both_lines(planned, *both)
    course = Course(_work(request, planned.work if planned else Work()), request.seconds, not request.no_answers)
    places = _places(both, request, progress)
    parties = []
    for word, place in zip(both, places, strict=True):
        parties.append(MeasuredServer(word, place, request.model, request.api_key, evict=request.evict))
        check_room(parties[-1], place, course.work)
    together = request.together or all(party.is_running for party in parties)
    if not together and any(party.is_running for party in parties):
        raise UserError("one is a running server and the other a command line", "give two URLs or two command lines")
    way: Way = "in_turns" if together else "one_after_the_other"
    measure = in_turns if together else one_after_the_other
    system = places[0].system
    end = _run_measurement(parties, course, system, progress, lambda: measure(parties, course, system, progress))
    before, after = (discretion.facts(party.side(course.work)) for party in parties)
    return judge_verification(before, after, _verify_context(request, planned, places[0], way, end))


def both_lines(planned: PlannedComparison, before: str, after: str) -> tuple[str, str]:
    """What runs before and after: what the user names, else the lines of the plan; UserError where one is missing."""
    lines = before or planned.before, after or planned.after
    for name, line in zip(("before", "after"), lines, strict=True):
        if not line:
            # What else can be done
            at = f" {planned.url}" if planned.url else " TARGET"
            measured = f"`unslow verify --save before.json{at}`, change it, `unslow verify --against before.json{at}`"
            by_hand = f"give the command lines: --before and --after; or {measured}"
            raise UserError(f"the plan has no server command line for --{name}", by_hand)
    return lines


def _places(words: Sequence[str], request: VerifyRequest, progress: Progress) -> list[ServerPlace]:
    """Where each of them is; two that are started share one look at the machine."""
    places: list[ServerPlace] = []
    for word in words:
        if places and not is_live(word) and not is_live(words[0]):
            places.append(places[0])
        else:
            places.append(place_of(word if is_live(word) else None, request.api_key or "", progress))
    return places


def _work(request: VerifyRequest, usual: Work) -> Work:
    """The request to measure with: what the flags say, and otherwise what is usual here."""
    asked = {"prompt_tokens": request.prompt, "kept_tokens": request.kept, "answer_tokens": request.answer}
    return msgspec.structs.replace(usual, **{name: count for name, count in asked.items() if count is not None})


def _run_measurement(
    parties: Sequence[MeasuredServer], course: Course, system: System, progress: Progress, measure: Callable[[], str]
) -> _End:
    """Say what will be sent, and how the measurement ended."""
    work = course.work
    deep = f" after {work.kept_tokens} cached" if work.kept_tokens else ""
    progress.say(
        f"sending requests with {work.prompt_tokens} prompt tokens{deep} and {work.answer_tokens} generated, for about "
        f"{course.seconds:.0f} s: {' and '.join(party.what for party in parties)}; Ctrl-C keeps the results so far"
    )
    start, why, interrupted = system.clock(), "", False
    try:
        why = measure()
    except KeyboardInterrupt:
        interrupted = True
    return _End(why, interrupted, system.clock() - start)


def _verify_context(
    request: VerifyRequest, planned: PlannedComparison | None, place: ServerPlace, way: Way, end: _End
) -> VerifyContext:
    return VerifyContext(
        unslow_version=__version__,
        machine=place.snapshot.machine.cpu.model.value_or(""),
        way=way,
        allowed=_allowed_rise(request, planned),
        option=planned.option if planned else None,
        interrupted=end.interrupted,
        ended=end.why,
        answers=not request.no_answers,
        asked_s=request.seconds,
        took_s=end.took_s,
    )


def _allowed_rise(request: VerifyRequest, planned: PlannedComparison | None) -> float:
    """The rise of perplexity that passes: by the flag, by the plan, else the usual one."""
    return next(rise for rise in (request.allow, planned and planned.floor, ALLOWED) if rise is not None)


def _save_side(
    request: VerifyRequest, planned: PlannedComparison | None, progress: Progress, discretion: Discretion
) -> Side:
    path = request.save or ""
    course = Course(_work(request, planned.work if planned else Work()), request.seconds, not request.no_answers)
    party, _, end = _alone(request, course, progress)
    if not party.samples:
        raise UserError(f"nothing was measured, so nothing is saved: {end.why or 'stopped'}", "check the server")
    side = discretion.facts(party.side(course.work))
    try:
        Path(path).write_bytes(dump_stored(side))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file in an existing folder") from error
    return side


def _against(
    request: VerifyRequest, planned: PlannedComparison | None, progress: Progress, discretion: Discretion
) -> VerifyReport:
    path = request.against or ""
    try:
        with Path(path).open("rb") as file:
            before = parse_side(file.read(LARGEST_SIDE_BYTES + 1), path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file written by --save") from error
    work = _work(request, before.work)
    if work != before.work:
        known = before.work
        sizes = f"{known.prompt_tokens}, {known.kept_tokens} and {known.answer_tokens}"
        hint = f"omit --prompt, --kept and --answer: it was {sizes}"
        raise UserError(f"{path} was measured with another request", hint)
    compares = not request.no_answers and bool(before.answers)
    extent = Extent(before.compared_tokens, before.places or FEWEST_PLACES, len(before.answers))
    course = Course(work, request.seconds, compares, extent if before.answers else None)
    party, place, end = _alone(request, course, progress)
    after = discretion.facts(party.side(work))
    return judge_verification(before, after, _verify_context(request, planned, place, "apart", end))


def _alone(request: VerifyRequest, course: Course, progress: Progress) -> tuple[MeasuredServer, ServerPlace, _End]:
    word = request.after or ""
    (place,) = _places([word], request, progress)
    party = MeasuredServer(word, place, request.model, request.api_key, evict=request.evict, hz=_WATCHED_HZ)
    check_room(party, place, course.work)
    system = place.system
    end = _run_measurement([party], course, system, progress, lambda: measure_alone(party, course, system, progress))
    return party, place, end


def write_report(report: msgspec.Struct, path: str) -> None:
    """Write the report as JSON; UserError where it can't be."""
    try:
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file in an existing folder") from error


def read_verified(path: str) -> VerifyReport:
    """The report in a file; UserError where it holds none."""
    try:
        data = LiveSystem().read_bytes(path, LARGEST_BYTES)
        report = msgspec.json.decode(data, type=VerifyReport)
    except LookError as error:
        raise UserError(f"{path}: {error.why}", _HINT) from error
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is not a report of `unslow verify`: {error}", _HINT) from error
    if not report.schema.startswith("unslow.verify/"):
        raise UserError(f"{path} is not a report of `unslow verify`", _HINT)
    return report
