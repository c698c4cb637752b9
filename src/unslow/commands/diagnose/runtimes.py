"""Finds what runs: by its processes, by known ports, or by a URL; and which of them a TARGET means."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.masking import without_keys
from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime, ServerProcess
from unslow.facts.snapshot import ProbeOutcome, Snapshot, Subject
from unslow.facts.values import Absence, Known, Unknown, reported_fact
from unslow.look import processes
from unslow.look.processes import Process, words_of
from unslow.look.running_server import with_own_process
from unslow.look.runtimes import Looker, find_servers, load_runtimes, lookers
from unslow.look.system import ExchangeError, LookError, System
from unslow.look.system.http import LATE, NOTHING_LISTENS, is_local_url, is_loopback

PROCESSES = "processes"  # The name under which listing processes is reported beside the probes
LISTENERS = "listeners"
PATIENCE_S, EACH_S = 45.0, 12.0
"""How long a URL is asked by all runtimes, and by one: behind a gateway that is late every question takes seconds. Who
leaves one without an answer is asked no other."""
FRONTS = ("llama", "ollama", "lms", "LM Studio")
"""In the names of programs that start servers of their own and pass requests on."""
_PORT = re.compile("[0-9]{1,5}")
_HTTP_PORT = 80
T = TypeVar("T")
_FIRST = 1  # The process that started all others, which says nothing of which is meant
_LAST_PORT = 65535
_NOBODY = "check that a server such as llama-server or Ollama runs there and that this is its API address"


def read_runtimes(
    system: System, api_key: str, port: int | None = None
) -> tuple[tuple[Subject, ...], tuple[ProbeOutcome, ...]]:
    """Everything that runs here, each runtime by its own processes, then what only listens; and how looking went.

    With a port, servers that say that they are at another one are left alone.
    """
    running, listed = _time_probe(system, PROCESSES, lambda: processes.read_processes(system), api_key)
    subjects: list[Subject] = []

    def add_subjects(looker: Looker) -> tuple[()]:
        """Those of one runtime; a process that can't be read does not cost the others."""
        failures = []
        for process in find_servers(looker, running):
            if port and _is_elsewhere(process, port, running):
                continue
            try:
                subjects.extend(looker.read(process, api_key))
            except LookError as error:
                failures.append(f"process {process.pid}: {error.why}")
        if failures:
            raise LookError("; ".join(failures))
        return ()

    broken = [ProbeOutcome(name=name, seconds=0.0, error=why) for name, why in load_runtimes().broken.items()]
    read = [_time_probe(system, looker.NAME, partial(add_subjects, looker), api_key)[1] for looker in lookers()]
    heard, outcome = _time_probe(system, LISTENERS, lambda: _listening(system, subjects, api_key), api_key)
    found = tuple(with_own_process(system, subject) for subject in join_seen_and_heard(subjects, heard))
    return found, (listed, *broken, *read, outcome)


def _is_elsewhere(process: Process, port: int, running: Sequence[Process]) -> bool:
    """Whether it was told another port than this one, and no server that was told this one, or none, started it."""
    if _told_port(process) in (0, port):
        return False
    fronts = (p for p in processes.ancestors(process, running) if any(word in p.name for word in FRONTS))
    return all(_told_port(front) not in (0, port) for front in fronts)


def _told_port(process: Process) -> int:
    """The port on its command line; 0 where there is none."""
    words = words_of(process.command())
    values = [value for name, value in pairwise(words) if name == "--port"]
    values += [word.partition("=")[2] for word in words if word.startswith("--port=")]
    return int(values[-1]) if values and _PORT.fullmatch(values[-1]) else 0


def _time_probe(
    system: System, name: str, look: Callable[[], tuple[T, ...]], api_key: str
) -> tuple[tuple[T, ...], ProbeOutcome]:
    found: tuple[T, ...] = ()
    start, error = system.clock(), ""
    try:
        found = look()
    except LookError as failure:
        error = failure.why
    except Exception as bug:  # noqa: BLE001 (one broken runtime must not cost the others; the snapshot shows it)
        error = f"{type(bug).__name__}: {bug}"
    seconds = round(system.clock() - start, 4)
    return found, ProbeOutcome(name=name, seconds=seconds, error=without_keys(error, api_key))


def _listening(system: System, subjects: Sequence[Subject], api_key: str) -> tuple[Subject, ...]:
    """Servers at the usual ports whose processes can't be seen: in a container, or another user's."""
    covered = {port for subject in subjects for port in ports_of(subject)}
    usual = {port for looker in lookers() for port in looker.PORTS}
    found: list[Subject] = []
    for port in sorted({listener.port for listener in processes.read_listeners(system)} & usual - covered):
        url = f"http://127.0.0.1:{port}"
        for looker in (one for one in lookers() if port in one.PORTS):
            try:
                heard = looker.read_url(system, url, api_key)
            except LookError as error:
                if error.why.endswith(LATE):
                    break  # nor would it answer the others
                continue  # whatever listens there, it is no server of this kind
            if heard is not None:
                found += _with_listening_process(system, looker, heard, url, api_key)
                break
    return tuple(found)


def ports_of(subject: Subject) -> set[int]:
    """The ports that a subject answers at: its own, and that of what stands before it."""
    front = subject.runtime.process.front.value_or("").rpartition(" ")[2]
    return {port for url in (subject.runtime.process.url.value_or(""), front) if (port := _port(url))}


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _with_listening_process(
    system: System, looker: Looker, subjects: tuple[Subject, ...], url: str, api_key: str
) -> tuple[Subject, ...]:
    """The subjects at a URL with the process that listens there: its CPU time and memory are theirs, nobody else's.

    Where its command line is one of the runtime, it tells as much as that of a process that was found by its name.
    """
    known = all(isinstance(subject.runtime.process.pid, Known) for subject in subjects)
    if known or not is_local_url(url):
        return subjects
    process = processes.read_listening_process(system, _port(url) or _HTTP_PORT)
    if process is None:
        return subjects
    takes = getattr(looker, "takes_command", None)
    if takes and len(subjects) == 1 and takes(words_of(process.command()), subjects[0].model):
        with suppress(LookError):
            return looker.read(process, api_key) or subjects
    shown = Runtime(
        process=ServerProcess(
            pid=reported_fact(process.pid, "the socket that it listens on"),
            environment=process.environment(),
            container=process.container(),
        )
    )
    joint = (msgspec.structs.replace(s, runtime=overlaid(s.runtime, shown)) for s in subjects)
    return tuple(_with_output(system, looker, subject, process) for subject in joint)


def _with_output(system: System, looker: Looker, subject: Subject, process: Process) -> Subject:
    """The subject with what the output of its process tells, where that is a file and the runtime reads such logs."""
    with_log = getattr(looker, "with_log", None)
    if with_log is None:
        return subject
    for path in process.outputs():
        for root in ("", *process.roots()[:1]):
            with suppress(LookError):
                told: Subject = with_log(system, subject, root + path)
                return told
    return subject


def read_at(system: System, url: str, api_key: str) -> tuple[Subject, ...]:
    """The subjects at a URL, by the first runtime that knows its server; LookError where none does."""
    start = before = system.clock()
    failures, answered = [], False
    for looker in lookers():
        try:
            subjects = looker.read_url(system, url, api_key)
        except LookError as error:
            subjects, answered = None, False
            failures.append(error)
        else:
            answered = True
        if subjects is not None:
            found = _with_listening_process(system, looker, subjects, url, api_key)
            return tuple(with_own_process(system, subject) for subject in found)
        now, silent = system.clock(), any(isinstance(f, ExchangeError) and f.kind == "silent" for f in failures)
        if silent or now - before > EACH_S:  # this one waited in vain, and so would the next
            failures, answered = [LookError(f"{url} {LATE}")], False
            break
        if now - start > PATIENCE_S:
            break
        before = now
    # A failure with a way out, such as a key; else that nothing answers, or that something strange does
    question = rf"^{re.escape(url)}/\S*?(?=[: ])"  # the one of many that it was the answer to
    failures = [LookError(re.sub(question, url, one.why), one.absence, one.how_to_get) for one in failures]
    if any(failure.why.endswith(NOTHING_LISTENS) for failure in failures):
        raise LookError(f"{url}: {NOTHING_LISTENS}", Absence.NOT_FOUND)
    mendable = [failure for failure in failures if failure.how_to_get]
    strange = LookError(f"what responds at {url} is not a model server that unslow knows", Absence.NOT_FOUND)
    # Whether it answered is told by the last of them, who knows the least of a server
    raise next(iter([*mendable, *([] if answered else failures)]), strange)


def join_seen_and_heard(seen: Sequence[Subject], heard: Sequence[Subject]) -> tuple[Subject, ...]:
    """One subject for a server that was seen as a process and heard at a port which is another one inside its box."""
    result, rest = list(seen), []
    for subject in heard:
        for at, one in enumerate(result):
            process, slots = one.runtime.process, one.runtime.scheduling.busy_slots
            boxed = isinstance(process.container, Known) and isinstance(slots, Unknown)
            named = one.runtime.name.value_or("a") == subject.runtime.name.value_or("b")
            files = [each.model.path.value_or("").rpartition("/")[2] for each in (one, subject)]
            if boxed and named and files[0] == files[1] != "":
                runtime = overlaid(subject.runtime, one.runtime).with_facts(url=subject.runtime.process.url)
                model = overlaid(subject.model, one.model)
                result[at] = msgspec.structs.replace(one, runtime=runtime, model=model)
                break
        else:
            rest.append(subject)
    return (*result, *rest)


def chosen_subjects(
    system: System, seen: Snapshot, url: str | None, target: str | None, api_key: str
) -> tuple[Subject, ...]:
    """The subjects that a target means; without one, all that were seen."""
    if url:
        # a process tells more than a URL, so what was seen as one comes first
        mine = tuple(s for s in seen.subjects if is_at(s, url))
        return mine or subjects_at_url(system, url, api_key)
    if target is None:
        return seen.subjects
    pid = int(target)
    mine = tuple(s for s in seen.subjects if s.runtime.process.pid.value_or(None) == pid)
    if not mine and pid != _FIRST:
        with suppress(LookError):
            started = processes.started_by(Process(system, pid, ""), processes.read_processes(system))
            children = {child.pid for child in started}
            mine = tuple(s for s in seen.subjects if s.runtime.process.pid.value_or(None) in children)
    if mine:
        return mine
    port = pid if pid <= _LAST_PORT else 8080
    hint = f"`unslow` finds running servers; to name one by its port: 127.0.0.1:{port}"
    process, start = processes.read_process(system, pid), f"process {pid}: "
    if not process.name:
        raise UserError(f"process {pid} does not exist or is not visible from here", hint)
    told = [why for probe in seen.probes for why in probe.error.split("; ") if why.startswith(start)]
    why = "is not a runtime that unslow knows, or it has no model loaded"
    if told:
        why = f"could not be read: {told[0].removeprefix(start)}"
    raise UserError(f"process {pid} ({process.name}) {why}", hint)


def is_at(subject: Subject, url: str) -> bool:
    """Whether a subject answers at a URL, itself or through what stands before it."""
    front = subject.runtime.process.front.value_or("").rpartition(" ")[2]
    places = []
    for address in (url, subject.runtime.process.url.value_or(""), front):
        parts = urlsplit(address)
        host = parts.hostname or ""  # the same loopback address can be written in several ways
        host = "loopback" if is_loopback(host) else host
        places.append((parts.scheme, host, parts.port, parts.path.rstrip("/")))
    return places[0] in places[1:]


def subjects_at_url(system: System, url: str, api_key: str) -> tuple[Subject, ...]:
    """The subjects of the server at a URL; UserError where there is none, or it has loaded nothing."""
    try:
        subjects = read_at(system, url, api_key)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or _NOBODY) from error
    if not subjects:
        raise UserError(f"the server at {url} has no model loaded", "load one, or send it a first request")
    return subjects
