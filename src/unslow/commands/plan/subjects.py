"""What a plan is for: a model that the user names, something that runs, or a plan that was saved."""

import math
import os
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow.commands._output import Progress
from unslow.commands.diagnose import target as targets
from unslow.commands.diagnose.runtimes import chosen_subjects, subjects_at_url
from unslow.commands.models.find import model_of_address
from unslow.facts.errors import UserError
from unslow.facts.masking import keyless
from unslow.facts.snapshot import Snapshot
from unslow.look.plain_folder import is_plain_folder
from unslow.look.system import System
from unslow.look.system.http import is_loopback
from unslow.look.system.recorded import is_recording
from unslow.think.case.view import CaseView, views_of
from unslow.think.plan.report import SCHEMA, PlanReport

LARGEST_BYTES = 16 * 1024**2
STANDARD_INPUT = "-"
HINT = "`unslow plan --json > plan.json` writes one"
_SHOWN = 6


class UnreadModelError(UserError):
    """The model of what runs can't be told, which is nobody's fault."""


class Subject(NamedTuple):
    """Something that runs, on this machine or on one that a snapshot tells of."""

    case: CaseView
    live: bool
    notes: tuple[str, ...] = ()


def is_target(word: str | None) -> bool:
    """Whether a word means something that runs, or a record of it; else it is a model."""
    if word is None or word == "-":
        return word is None
    if targets.is_live(word):
        return not _is_model_address(word)
    path = Path(word).expanduser()
    try:
        if path.is_dir():
            return is_recording(path) or is_plain_folder(path) or (path / targets.SNAPSHOT).is_file()
    except OSError:  # a name that is no path, or a folder that can't be read
        return False
    return path.suffix == ".json"


def _is_model_address(word: str) -> bool:
    """Whether an address is of a model: a file, a page about one, or a scheme that tools name models with."""
    if "://" not in word:
        return False
    try:
        return model_of_address(word) != word or urlsplit(word).path.lower().endswith(".gguf")
    except UserError:  # the page of a file, or a scheme that is none of the web: the model's reader says so
        return True
    except ValueError:  # no address at all
        return False


def hosts_named(word: str | None) -> tuple[str, ...]:
    """The host of a server that the user names, which may then be asked."""
    url = targets.as_url(word) if word and is_target(word) else None
    host = urlsplit(targets.check_url(url)).hostname if url else None
    return (host,) if host else ()


def find_subject(system: System, target: str | None, progress: Progress) -> Subject:
    """The one thing that a target means; UserError where it is none, or nobody said which of several."""
    if target is not None and not targets.is_live(target):
        progress.step(f"reading {target}", 0.1)
        return _one(keyless(targets.read_stored(str(Path(target).expanduser()))), target, live=False)
    progress.step("inspecting the machine and running servers", 0.1)
    named = targets.as_url(target or "")
    url = targets.check_url(named) if named else None
    key = os.environ.get("UNSLOW_API_KEY", "")
    if url and not is_loopback(urlsplit(url).hostname or ""):
        subjects_at_url(system, url, key)  # which says if nothing answers there
        raise UserError(f"{url} is on another machine, whose memory is not visible from here", "run unslow plan there")
    seen = targets.collect(system, bandwidth=True, api_key=key, port=urlsplit(url).port if url else None)
    subjects = chosen_subjects(system, seen, url, None if url else target, key)
    whole = tuple(targets.with_machine(subject, seen.machine) for subject in subjects)
    return _one(targets.with_subjects(seen, whole), target, live=True)


def _one(snapshot: Snapshot, target: str | None, *, live: bool) -> Subject:
    cases = list(views_of(snapshot))
    if not cases:
        hint = "name a model: `unslow plan MODEL`, a GGUF file or a name such as llama-3.3-70b"
        raise UserError("no running model to plan for" if target is None else f"no running model in {target}", hint)
    if len(cases) == 1:
        return Subject(cases[0], live)
    if target is None:
        places = []
        for case in cases[:_SHOWN]:
            process, name = case.runtime.process, case.runtime.name.value_or("?")
            where = process.url.value_or("") or str(process.pid.value_or("?"))
            places.append(f"{where} ({name}, {case.model.name.value_or('a model')})")
        raise UserError(f"{len(cases)} models run here", f"choose one by URL or process id: {', '.join(places)}")
    told = [(case.run.decode_tokens_per_s, case.runtime.history.decode_tokens_per_s) for case in cases]
    speeds = [now.value_or(before.value_or(math.inf)) for now, before in told]
    slowest = cases[speeds.index(min(speeds))]
    note = f"{len(cases)} models found; this is the plan for the slowest, {slowest.model.name.value_or('one of them')}"
    return Subject(slowest, live, (note,))


def read_saved(source: str) -> PlanReport:
    """The plan of a file, or of standard input for `-`; UserError where it is none."""
    try:
        if source == STANDARD_INPUT:
            return parse_saved(sys.stdin.buffer.read(LARGEST_BYTES + 1), "standard input")
        with Path(source).open("rb") as file:
            return parse_saved(file.read(LARGEST_BYTES + 1), source)
    except (OSError, ValueError) as error:  # a name with a zero in it is no name
        raise UserError(f"{source}: {getattr(error, 'strerror', '') or error}", HINT) from error


def parse_saved(data: bytes, where: str) -> PlanReport:
    """A plan; UserError that names what is wrong with it."""
    if len(data) > LARGEST_BYTES:
        raise UserError(f"{where} is larger than {LARGEST_BYTES >> 20} MiB, so it is not a plan", HINT)
    try:
        raw = msgspec.json.decode(data)
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if schema != SCHEMA:
            shown = str(schema)[:60]
            raise UserError(f"{where} has the schema {shown!r}; this version reads {SCHEMA}", HINT)
        return msgspec.convert(raw, PlanReport)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"{where} is not a plan: {str(error) or type(error).__name__}", HINT) from error
