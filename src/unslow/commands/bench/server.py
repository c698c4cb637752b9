"""The server that a benchmark asks: one that runs, or one that is started for it and ended again."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.catalog.architectures import made_up_shapes
from unslow.commands._output import Progress
from unslow.commands.bench import BenchRequest
from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.request import parse_sweeps
from unslow.commands.diagnose.look import DEFAULT_SHAPE
from unslow.commands.diagnose.permission import EVICT, caution, refusal, slot_of, target_of
from unslow.commands.diagnose.runtimes import chosen_subjects, read_at, subjects_at_url
from unslow.commands.diagnose.target import as_url, check_url, collect, is_live, with_machine, with_subjects
from unslow.commands.models.stored import resolve
from unslow.facts.bench import Failure, Pass
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime, ServerProcess
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import GB, Known, Unknown, measured_fact, not_supported, reported_fact
from unslow.look.command_line import UNSET
from unslow.look.engine import SETTINGS, engine_version, start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.launch.command import Command, can_set, command_without_secrets, found_file, parse_command, program_of
from unslow.look.launch.server import START_TIMEOUT_S, LaunchedServer, launch
from unslow.look.models.gguf import part_paths
from unslow.look.observer import current_observer
from unslow.look.probes.memory import read_sizes
from unslow.look.processes import read_process, read_processes, started_by
from unslow.look.runtimes import find_servers, lookers
from unslow.look.runtimes.llama_cpp import read_embedded
from unslow.look.runtimes.llama_cpp.bench import read_free_slots
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.look.system.live import ClosingSystem, LiveSystem
from unslow.think.case.view import CaseView, views_of

ENGINE_CONTEXT = 4608  # Room for a prompt of 4096 tokens and the answer to it
MEMORY_OVER = 1.1  # What a server takes for each byte of its model, at the least
_SMALLER = "free some memory, or measure a smaller model"
_OURS = "started by unslow"
Settings = Mapping[str, int]
Waiting = Callable[[float], None]


class Place(NamedTuple):
    """Where a benchmark happens: the door, and what was seen through it."""

    system: System
    snapshot: Snapshot


def place_of(target: str | None, api_key: str, progress: Progress, *, bandwidth: bool = True) -> Place:
    """This machine, with all that runs here; or a server elsewhere, whose machine can't be seen."""
    if target is not None and not is_live(target):
        raise UserError(f"{target!r} is not a running server", "give a server's URL or process id, or nothing")
    named = as_url(target or "")
    url = check_url(named) if named else None
    host = urlsplit(url).hostname or "" if url else ""
    system = LiveSystem([host] if host else [])
    watcher = current_observer()
    if watcher:  # who may have seen enough: the door can be closed
        system = ClosingSystem([host] if host else [])
        watcher.on_system(system)
    if url and not is_loopback(host):
        progress.say(f"{url} is on another machine: only the server itself is visible from here")
        why = not_supported("the server runs on another machine", "run unslow there")
        seen = Snapshot(unslow_version=__version__, taken_at=system.now(), machine=Machine(gpus=why))
        return Place(system, with_subjects(seen, subjects_at_url(system, url, api_key)))
    progress.step("looking at the machine", 0.0)
    seen = collect(system, bandwidth=bandwidth, api_key=api_key)
    if watcher:
        watcher.looked_at(seen.machine)
    subjects = chosen_subjects(system, seen, url, target, api_key)
    return Place(system, with_subjects(seen, tuple(with_machine(subject, seen.machine) for subject in subjects)))


@contextmanager
def open_bencher(
    place: Place, request: BenchRequest, progress: Progress, start_s: float = START_TIMEOUT_S
) -> Iterator[Bencher]:
    """A bencher for the server that runs, or for one that is started now, within so long, and stopped in the end."""
    wants_own = request.command is not None or (request.model is not None and request.target is None)
    subject = None if wants_own else subject_of(place.snapshot, request.model)
    with ExitStack() as stack:
        if subject is None:
            own = own_of(place, request, progress)
            own.timeout_s = start_s
            bencher = stack.enter_context(own.start({}))
            bencher.case = case_of(place.snapshot, bencher.subject)
        else:
            bencher = running_bencher(place, subject, request, progress)
        # The sampler around it, unless it is switched off or the server's machine is another one
        pid, host = bencher.subject.runtime.process.pid, urlsplit(bencher.target.url).hostname or ""
        here = bencher.subject.runtime.embedded or isinstance(pid, Known) or is_loopback(host)
        if request.hz > 0 and here:
            pids = [pid.value] if isinstance(pid, Known) else []
            bencher.sampler = stack.enter_context(Sampler(bencher.system, pids, request.hz))
        yield bencher


def subject_of(snapshot: Snapshot, model: str | None = None) -> Subject | None:
    """The one model that is served, or the one of that name; None where none is, UserError where it is not clear."""
    served = snapshot.subjects
    if model is not None:
        served = tuple(s for s in served if model.casefold() in s.model.name.value_or("").casefold())
    if len(served) == 1 or not snapshot.subjects:
        return next(iter(served), None)
    names = "; ".join(
        f"{s.model.name.value_or('?')} at {s.runtime.process.url.value_or('?')}" for s in snapshot.subjects
    )
    if not served:
        raise UserError(f"the server has no model {model!r}; it has {names}", "give part of its name with --model")
    raise UserError(f"{len(served)} models available: {names}", "choose one: unslow bench URL --model NAME")


def running_bencher(place: Place, subject: Subject, request: BenchRequest, progress: Progress) -> Bencher:
    """A bencher for a server that somebody runs, with the manners of a guest; UserError where it may not be asked."""
    if why := refusal(subject):
        raise UserError(f"{subject.runtime.process.url.value_or('the server')}: {why.why}", why.how_to_get)
    target = target_of(place.system, subject, request.api_key)
    slot = slot_of(place.system, subject, target, evict=request.evict)
    if isinstance(slot, Unknown):
        raise UserError(f"{target.url}: {slot.why}", slot.how_to_get)
    if any(asked.axis == "users" for asked in parse_sweeps(request)) and not request.evict:
        # UserError where many users at once would push out a conversation: they take every slot
        used = read_free_slots(target.server(place.system)).talking
        if used:
            raise UserError(
                f"{target.url}: {used} of its slots hold a conversation; a sweep over users needs all of them", EVICT
            )
    if care := caution(subject.runtime):
        progress.say(f"{target.url}: {care}")
    bencher = Bencher(place.system, subject, target, progress)
    bencher.slot, bencher.case = slot, case_of(place.snapshot, subject)
    return bencher


def case_of(snapshot: Snapshot, subject: Subject) -> CaseView:
    """The subject on its machine, with what was calibrated before."""
    return next(views_of(with_subjects(snapshot, (with_machine(subject, snapshot.machine),))))


def context_of(bencher: Bencher) -> int | None:
    """The context that one request may fill; None where the server does not tell."""
    runtime = bencher.subject.runtime
    context = runtime.context.per_slot.value_or(runtime.context.length.value_or(None))
    return int(context) if context is not None else None


def own_of(place: Place, request: BenchRequest, progress: Progress) -> "Own":
    """What starts servers of its own."""
    return Own.from_request(
        place.system, place.snapshot.machine, progress, model=request.model, command=request.command
    )


class EngineStarter(NamedTuple):
    """Starts the embedded engine on a GGUF file again and again, each time with other settings."""

    path: str
    called: str

    def description(self) -> str:
        return f"the embedded engine on {self.called}"

    def can_set(self, setting: str) -> bool:
        return setting in SETTINGS

    def model_path(self) -> str:
        return self.path

    @contextmanager
    def start(
        self, system: System, settings: Settings, timeout_s: float, waiting: Waiting
    ) -> Iterator[tuple[Subject, str]]:
        version, start = engine_version(), system.clock()
        chosen = {"context": ENGINE_CONTEXT, **settings}
        with start_engine(system, self.path, settings=chosen, timeout_s=timeout_s, waiting=waiting) as engine:
            load_s = system.clock() - start
            subject = read_embedded(system, engine.url, engine.pid, version, engine.log_path, self.path)
            yield with_load(subject, load_s), ""


class CommandStarter(NamedTuple):
    """Starts the command that the user gives again and again, each time with other settings."""

    command: Command

    def description(self) -> str:
        """What it starts, in words for the user."""
        return command_without_secrets(self.command.words)

    def can_set(self, setting: str) -> bool:
        return can_set(self.command.words, setting)

    def model_path(self) -> str:
        """The file of the model; empty where only the server knows."""
        program, at = program_of(self.command.words)
        own = self.command.words[at:]
        path = (
            parse_settings(own, self.command.variables).get("model", UNSET).value if program.name == "llama.cpp" else ""
        )
        return os.path.abspath(path) if path else ""  # noqa: PTH100 (links are what the parts are named by)

    @contextmanager
    def start(
        self, system: System, settings: Settings, timeout_s: float, waiting: Waiting
    ) -> Iterator[tuple[Subject, str]]:
        """The server and its key, for as long as the block lasts; UserError where it does not start."""
        with launch(system, self.command, settings, timeout_s=timeout_s, waiting=waiting) as server:
            program, at = program_of(server.words)
            key = program.flags.settings(server.words[at:], {}).get(program.key_flag, UNSET).value
            yield with_load(read_launched(system, server, key), server.load_s), key


Starter = EngineStarter | CommandStarter


class Own:
    """Starts the same server with one setting after the other; `passes` and `failures` are of all of them.

    For what is set when a server starts: one that somebody runs is never changed. Each is ended before the next starts.
    """

    def __init__(self, system: System, machine: Machine, progress: Progress, starter: Starter) -> None:
        self.system, self.machine, self.progress, self.starter = system, machine, progress, starter
        self.passes: list[Pass] = []
        self.failures: list[Failure] = []
        self.interrupted = False
        self.flush: Callable[[], None] | None = None
        """Writes down what there is so far; called whenever a server was ended."""
        self.load_s = 0.0
        """How long the last start took."""
        self.share = 0.0
        """How much of the work is done, for the progress."""
        self.case: CaseView | None = None
        """The first server as it was set up, on its machine; None until one was started."""
        self.timeout_s = START_TIMEOUT_S
        self.began_s = system.clock()
        self._announced = False

    @classmethod
    def from_request(
        cls,
        system: System,
        machine: Machine,
        progress: Progress,
        *,
        model: str | None = None,
        command: str | None = None,
    ) -> Self:
        """What a user asks for: a command, a model by its file or name, a made-up one, or the usual made-up one.

        UserError where it can't be started; nothing is started yet.
        """
        if command is not None:
            given = parse_command(command)
            found_file(given)
            return cls(system, machine, progress, CommandStarter(given))
        engine_version()
        shape = model or DEFAULT_SHAPE
        if shape in made_up_shapes():
            step = "writing the synthetic model"
            path = default_cache().model(shape, progress=lambda done, total: progress.step(step, done / total))
            starter = EngineStarter(str(path), f"a synthetic model ({shape}, random weights)")
            return cls(system, machine, progress, starter)
        found = resolve(system, shape)
        if found.format != "gguf":
            hint = "give the command that starts its server: --command"
            raise UserError(f"{shape} is not a GGUF file, the only format that the embedded engine reads", hint)
        return cls(system, machine, progress, EngineStarter(found.path, found.name))

    def can_set(self, setting: str) -> bool:
        """Whether the server has such a setting."""
        return self.starter.can_set(setting)

    def need(self, setting: str) -> None:
        """UserError where the server has no such setting."""
        if not self.can_set(setting):
            hint = "llama.cpp has it, few others do"
            raise UserError(f"{self.starter.description()} has no setting for {setting}", hint)

    def files(self) -> list[str]:
        """The files of the model's weights; none where they are not known."""
        told = self.case.model.path.value_or("") if self.case else ""
        path = self.starter.model_path() or told
        return files_of(self.system, path) if path else []

    def file_bytes(self) -> int:
        """How large these files are, all together."""
        return sum(path.stat().st_size for path in map(Path, self.files()) if path.is_file())

    @contextmanager
    def start(self, settings: Settings) -> Iterator[Bencher]:
        """A server with these settings, and otherwise as it was given; it is ended with the block."""
        self._check_memory()
        if not self._announced:
            self.progress.say(f"starting a separate server (no other server is touched): {self.starter.description()}")
        self._announced = True
        what = next((f"{name} {value}" for name, value in settings.items()), "")  # the others follow from the first

        def waiting(seconds: float) -> None:
            self.progress.step(f"starting a server{f' with {what}' if what else ''}: {seconds:.0f} s", self.share)

        with self.starter.start(self.system, settings, self.timeout_s, waiting) as (server, api_key):
            self.load_s = server.run.load_s.need()
            subject = with_machine(server, self.machine)
            target = target_of(self.system, subject, api_key)
            bencher = Bencher(self.system, subject, target, self.progress)
            bencher.began_s = self.began_s
            bencher.case = CaseView(
                Case(machine=self.machine, runtime=subject.runtime, model=subject.model, run=subject.run)
            )
            self.case = self.case or bencher.case
            try:
                yield bencher
            finally:
                self.passes += bencher.passes
                self.failures += bencher.failures
                if self.flush is not None:
                    self.flush()

    def _check_memory(self) -> None:
        """UserError where another copy of the model has no room; a word where it has none on the GPUs."""
        needed = MEMORY_OVER * self.file_bytes()
        # What this program may still take of the system's memory; None where that is not known
        now = read_sizes(self.system).available_bytes
        known = [fact.value for fact in (now, self.machine.memory.limit_bytes) if isinstance(fact, Known)]
        free = float(min(known)) if known else None
        # What is free on all GPUs; None where there is none, or the embedded engine has no use for it
        gpus = () if isinstance(self.starter, EngineStarter) else self.machine.gpus.value_or(())
        vram = float(sum(gpu.vram_free_bytes.value_or(0) for gpu in gpus)) if gpus else None
        if free is not None and needed > free + (vram or 0):
            told = f"the model needs {needed / GB:.1f} GB, and {(free + (vram or 0)) / GB:.1f} GB are free"
            raise UserError(f"not enough memory for a separate server: {told}", _SMALLER)
        if vram is not None and needed > vram and not self._announced:
            self.progress.say(
                f"{vram / GB:.1f} GB are free on the GPUs and the model takes {needed / GB:.1f} GB: "
                "what is measured may partly run on the processors, other than where it has them for itself"
            )


def with_load(subject: Subject, load_s: float) -> Subject:
    """The subject with the time that it took to start."""
    run = msgspec.structs.replace(subject.run, load_s=measured_fact(load_s, "until the server responded"))
    return msgspec.structs.replace(subject, run=run)


def read_launched(system: System, server: LaunchedServer, api_key: str) -> Subject:
    """All that can be seen of a server that was started here; UserError where it can't be read."""
    try:
        found = next(iter(_by_process(system, server, api_key) or read_at(system, server.url, api_key)), None)
    except LookError as error:
        raise UserError(f"the server started, but cannot be read: {error.why}", error.how_to_get) from error
    if found is None:
        raise UserError("the server started, but serves no model", "name a model in the command")
    known = Runtime(
        process=ServerProcess(url=reported_fact(server.url, _OURS), log_path=reported_fact(server.log_path, _OURS))
    )
    if not isinstance(found.runtime.process.pid, Known):
        known = known.with_facts(pid=reported_fact(server.pid, _OURS))
    return msgspec.structs.replace(found, runtime=overlaid(found.runtime, known))


def _by_process(system: System, server: LaunchedServer, api_key: str) -> tuple[Subject, ...]:
    """By its process, which tells most; nothing where processes can't be seen."""
    try:
        first = read_process(system, server.pid)
        family = [first, *started_by(first, read_processes(system))]
    except LookError:
        return ()
    for looker in lookers():
        for process in find_servers(looker, family):
            if subjects := looker.read(process, api_key):
                return subjects
    return ()


def files_of(system: System, path: str) -> list[str]:
    """The files that hold a model's weights: all parts of a GGUF file, or what lies in a folder of safetensors."""
    if path.endswith(".gguf") or Path(path).is_file():
        try:
            return [os.path.realpath(part) for part in part_paths(path)]
        except LookError:
            return [os.path.realpath(path)]
    try:
        names = system.list_dir(path)
    except LookError:
        return []
    return [f"{path.rstrip('/')}/{name}" for name in names if name.endswith((".safetensors", ".bin", ".gguf"))]
