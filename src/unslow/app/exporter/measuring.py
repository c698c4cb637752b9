"""Measures the watched servers now and then, where the user allowed it: the same short prompts as `unslow --quick`."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from unslow.app.course import QUICK
from unslow.app.exporter.request import ExporterRequest
from unslow.app.manners import Manners
from unslow.app.progress import Silent
from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Unknown
from unslow.look.system.closing import ClosingSystem

Place = tuple[str, int, str]


def place_of(subject: Subject) -> Place:
    """What a server is known by from one look to the next: its address, its process, its model."""
    runtime = subject.runtime
    return runtime.url.value_or(""), int(runtime.pid.value_or(0)), subject.model.name.value_or("")


class Measurements:
    """What was measured last of each server; `measure` belongs to the thread that looks."""

    def __init__(self, request: ExporterRequest) -> None:
        self._every_s, self._watch = request.measure_every_s, request.watch
        self._due_at = 0.0
        self._runs: dict[Place, Run] = {}
        self._door: ClosingSystem | None = None
        self.missed: tuple[str, ...] = ()
        """Which servers were not measured the last time, and why."""

    def is_due(self, now_s: float) -> bool:
        """Whether it is allowed, and time."""
        return self._every_s is not None and now_s >= self._due_at

    def measure(self, seen: Snapshot, subjects: Sequence[Subject], now_s: float) -> set[Place]:
        """Measure them one after the other, and say which; one that is busy, or would lose a cache, is left alone."""
        from unslow.app.measure import Measuring  # noqa: PLC0415 (only where it is allowed)

        self._due_at = now_s + (self._every_s or 0.0)
        runs = {place: run for place, run in self._runs.items() if place in map(place_of, subjects)}
        done_now: set[Place] = set()
        missed = []
        manners = Manners(api_key=self._watch.api_key or None)
        for subject in subjects:
            host = urlsplit(subject.runtime.url.value_or("")).hostname
            self._door = door = ClosingSystem([host] if host else [])
            (done,) = Measuring(door, manners, Silent(), QUICK, door=door).measured(seen, [subject]).subjects
            place, run = place_of(subject), self._watch.discretion.facts(done.run)
            if isinstance(run.decode_tokens_per_s, Unknown):
                missed.append(f"{place[0]}: {run.decode_tokens_per_s.why}")
            else:
                runs[place] = run
                done_now.add(place)
        self._runs, self._door, self.missed = runs, None, tuple(missed)
        return done_now

    def laid_over(self, subject: Subject) -> Subject:
        """The subject with what was measured of it."""
        run = self._runs.get(place_of(subject))
        return subject if run is None else msgspec.structs.replace(subject, run=run)

    def stop(self) -> None:
        """End a measurement that goes on."""
        door = self._door
        if door is not None:
            door.stop_from_afar()
