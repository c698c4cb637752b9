"""What a plan is for: a model that the user names, or something that runs, here or in a stored snapshot."""

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.app.chosen import at_url, chosen
from unslow.app.collect import collect, with_subjects
from unslow.app.fit.addresses import meant_by
from unslow.app.progress import Progress
from unslow.app.read_target import SNAPSHOT, as_url, check_url, is_live, read_stored
from unslow.app.with_machine import with_machine
from unslow.facts.errors import UserError
from unslow.facts.masking import keyless
from unslow.facts.snapshot import Case, Snapshot
from unslow.look.plain_folder import is_plain_folder
from unslow.look.system import System
from unslow.look.system.http import is_loopback
from unslow.look.system.recorded import is_recording

_STORED = (".json",)
_SHOWN = 6


class Subject(NamedTuple):
    """Something that runs, on this machine or on one that a snapshot tells of."""

    case: Case
    live: bool
    notes: tuple[str, ...] = ()


def is_target(word: str | None) -> bool:
    """Whether a word means something that runs, or a record of it; else it is a model."""
    if word is None or word == "-":
        return word is None
    if is_live(word):
        return not _is_model_address(word)
    path = Path(word).expanduser()
    try:
        if path.is_dir():
            return is_recording(path) or is_plain_folder(path) or (path / SNAPSHOT).is_file()
    except OSError:  # a name that is no path, or a folder that can't be read
        return False
    return path.suffix in _STORED


def _is_model_address(word: str) -> bool:
    """Whether an address is of a model: a file, a page about one, or a scheme that tools name models with."""
    if "://" not in word:
        return False
    try:
        return meant_by(word) != word or urlsplit(word).path.lower().endswith(".gguf")
    except UserError:  # the page of a file, or a scheme that is none of the web: the model's reader says so
        return True
    except ValueError:  # no address at all
        return False


def hosts_named(word: str | None) -> tuple[str, ...]:
    """The host of a server that the user names, which may then be asked."""
    url = as_url(word) if word and is_target(word) else None
    host = urlsplit(check_url(url)).hostname if url else None
    return (host,) if host else ()


def find_subject(system: System, target: str | None, progress: Progress) -> Subject:
    """The one thing that a target means; UserError where it is none, or nobody said which of several."""
    if target is not None and not is_live(target):
        progress.step(f"reading {target}", 0.1)
        return _one(keyless(read_stored(str(Path(target).expanduser()))), target, live=False)
    progress.step("looking at the machine and at what runs on it", 0.1)
    named = as_url(target or "")
    url = check_url(named) if named else None
    key = os.environ.get("UNSLOW_API_KEY", "")
    if url and not is_loopback(urlsplit(url).hostname or ""):
        at_url(system, url, key)  # which says if nothing answers there
        raise UserError(f"{url} is another machine, whose memory can't be seen from here", "run unslow plan there")
    seen = collect(system, bandwidth=True, api_key=key, port=urlsplit(url).port if url else None)
    subjects = chosen(system, seen, url, None if url else target, key)
    whole = tuple(with_machine(subject, seen.machine) for subject in subjects)
    return _one(with_subjects(seen, whole), target, live=True)


def _one(snapshot: Snapshot, target: str | None, *, live: bool) -> Subject:
    cases = list(snapshot.cases())
    if not cases:
        hint = "name a model: `unslow plan MODEL`, a GGUF file or a name such as llama-3.3-70b"
        raise UserError("nothing runs here to plan for" if target is None else f"nothing runs in {target}", hint)
    if len(cases) == 1:
        return Subject(cases[0], live)
    if target is None:
        places = ", ".join(_place(case) for case in cases[:_SHOWN])
        raise UserError(f"{len(cases)} models run here", f"say which, by its address or process id: {places}")
    slowest = min(cases, key=_speed)
    note = f"of {len(cases)} models, this is the plan for the slowest, {slowest.model.name.value_or('one of them')}"
    return Subject(slowest, live, (note,))


def _speed(case: Case) -> float:
    return float(case.run.decode_tokens_per_s.value_or(case.runtime.decode_tokens_per_s.value_or(float("inf"))))


def _place(case: Case) -> str:
    runtime = case.runtime
    where = runtime.url.value_or("") or str(runtime.pid.value_or("?"))
    return f"{where} ({runtime.name.value_or('?')}, {case.model.name.value_or('a model')})"
