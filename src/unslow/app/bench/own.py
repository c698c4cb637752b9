"""Servers of our own, for what is set when a server starts; one that somebody runs is never changed.

One server at a time, each started, asked and ended again; all that was asked of any of them is in one ledger.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from unslow.app.bench.bencher import Bencher
from unslow.app.bench.starters import CommandStarter, EngineStarter, Settings, Starter, files_of
from unslow.app.embedded import DEFAULT_SHAPE
from unslow.app.manners import Manners
from unslow.app.measure import target_of
from unslow.app.progress import Progress
from unslow.app.resolve import resolve
from unslow.app.with_machine import with_machine
from unslow.catalog.shapes import shapes
from unslow.facts.bench import Failure, Pass
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Case, Subject
from unslow.facts.units import GB
from unslow.facts.values import Known
from unslow.look.engine.cache import default_cache
from unslow.look.engine.server import engine_version
from unslow.look.launch.command import found_file, parse_command
from unslow.look.launch.server import START_TIMEOUT_S
from unslow.look.probes import meminfo
from unslow.look.system import System

MEMORY_OVER = 1.1
"""What a server takes for each byte of its model, at the least."""
_SMALLER = "stop what takes the memory, or measure a smaller model"


class Own:
    """Starts the same server with one setting after the other; `passes` and `failures` are of all of them."""

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
        self.case: Case | None = None
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
        return cls(system, machine, progress, _engine_on(system, model, progress))

    def can_set(self, setting: str) -> bool:
        """Whether the server has such a setting."""
        return self.starter.can_set(setting)

    def need(self, setting: str) -> None:
        """UserError where the server has no such setting."""
        if not self.can_set(setting):
            hint = "it is a setting of llama.cpp, and of few others"
            raise UserError(f"{self.starter.described()} has no setting for {setting}", hint)

    def files(self) -> list[str]:
        """The files of the model's weights; none where they are not known."""
        told = self.case.model.path.value_or("") if self.case else ""
        path = self.starter.model_path() or told
        return files_of(self.system, path) if path else []

    def file_bytes(self) -> int:
        """How large these files are, all together."""
        return sum(path.stat().st_size for path in map(Path, self.files()) if path.is_file())

    @contextmanager
    def started(self, settings: Settings) -> Iterator[Bencher]:
        """A server with these settings, and otherwise as it was given; it is ended with the block."""
        self._check_memory()
        self._announce()
        what = next((f"{name} {value}" for name, value in settings.items()), "")  # the others follow from the first

        def waiting(seconds: float) -> None:
            self.progress.step(f"starting a server{f' with {what}' if what else ''}: {seconds:.0f} s", self.share)

        with self.starter.started(self.system, settings, self.timeout_s, waiting) as server:
            self.load_s = server.load_s
            bencher = self._bencher(with_machine(server.subject, self.machine), server.api_key)
            try:
                yield bencher
            finally:
                self.passes += bencher.passes
                self.failures += bencher.failures
                if self.flush is not None:
                    self.flush()

    def _bencher(self, subject: Subject, api_key: str) -> Bencher:
        manners = Manners(evict=True, api_key=api_key or None)  # nobody else has a conversation there
        bencher = Bencher(self.system, subject, target_of(self.system, subject, manners), self.progress)
        bencher.began_s = self.began_s
        bencher.case = Case(machine=self.machine, runtime=subject.runtime, model=subject.model, run=subject.run)
        self.case = self.case or bencher.case
        return bencher

    def _announce(self) -> None:
        if not self._announced:
            self.progress.say(f"starting a server of its own, and no other is touched: {self.starter.described()}")
        self._announced = True

    def _check_memory(self) -> None:
        """UserError where another copy of the model has no room; a word where it has none on the GPUs."""
        needed = MEMORY_OVER * self.file_bytes()
        free, vram = self._free_bytes(), self._free_vram_bytes()
        if free is not None and needed > free + (vram or 0):
            told = f"the model takes {needed / GB:.1f} GB, and {(free + (vram or 0)) / GB:.1f} GB are free"
            raise UserError(f"there is no room for a server of its own: {told}", _SMALLER)
        if vram is not None and needed > vram and not self._announced:
            self.progress.say(
                f"{vram / GB:.1f} GB are free on the GPUs and the model takes {needed / GB:.1f} GB: "
                "what is measured may partly run on the processors, other than where it has them for itself"
            )

    def _free_bytes(self) -> float | None:
        """What this program may still take of the system's memory; None where that is not known."""
        now = meminfo.read(self.system).memory.available_bytes
        known = [fact.value for fact in (now, self.machine.memory.limit_bytes) if isinstance(fact, Known)]
        return float(min(known)) if known else None

    def _free_vram_bytes(self) -> float | None:
        """What is free on all GPUs; None where there is none, or the embedded engine has no use for it."""
        gpus = self.machine.gpus.value_or(())
        if not gpus or isinstance(self.starter, EngineStarter):
            return None
        return float(sum(gpu.vram_free_bytes.value_or(0) for gpu in gpus))


def _engine_on(system: System, model: str | None, progress: Progress) -> EngineStarter:
    """The embedded engine on the model that a user means; on a made-up one where they name its shape, or nothing."""
    shape = model or DEFAULT_SHAPE
    if shape in shapes():
        step = "writing the made-up model"
        path = default_cache().model(shape, progress=lambda done, total: progress.step(step, done / total))
        return EngineStarter(str(path), f"a made-up model ({shape}, random weights)")
    found = resolve(system, shape)
    if found.format != "gguf":
        hint = "give the command that serves it: --command"
        raise UserError(f"{shape} is no GGUF file, and the embedded engine reads nothing else", hint)
    return EngineStarter(found.path, found.name)
