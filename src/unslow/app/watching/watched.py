"""One server while it is watched: the looks at its work, the sampler beside it, and the last judgement."""

from collections import deque
from contextlib import suppress

import msgspec

from unslow.app.spell import spelled_subject
from unslow.app.watching.last_logged import read_last_logged
from unslow.app.watching.minute import MINUTE_S, Minute
from unslow.app.watching.rates import Rates, rates_of
from unslow.facts.bounded import bounded
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.telemetry import Phase, Span
from unslow.facts.values import Known, MissingFactError, Unknown, measured
from unslow.look.bench.guest import Target
from unslow.look.bench.trials._work import Work, read_work
from unslow.look.bench.trials.traffic import Look, speed_alone, traffic_of
from unslow.look.bench.watching import joined_telemetry
from unslow.look.sampler import Sampler
from unslow.look.sampler.under_load import SOURCE
from unslow.look.system import LookError, System
from unslow.look.system.door import ExchangeError
from unslow.think.view.live import PhaseNow, State
from unslow.think.view.live_judgement import Judgement, judgement
from unslow.think.view.report import MemoryBar

MOST_LOOKS = 400
"""More than a minute has at the shortest interval."""


GUESS_S, BUSY_CPUS = 3.0, 0.2
"""A server that shows nothing is taken for busy where it used so many processors over the last seconds: also while a
GPU computes, a thread waits for it at full speed, or starts the next kernels."""
_NOTED: dict[PhaseNow, Phase] = {"queue": "queue", "load": "load", "prefill": "prefill", "decode": "decode"}
"""Phases that the sampler counts its rows to."""


class Watched:
    """Written by the thread that looks; what others read of it is replaced as a whole."""

    def __init__(self, system: System, seen: Snapshot, subject: Subject, target: Target, sampler: Sampler) -> None:
        self.subject, self.sampler = subject, sampler
        self.looks: deque[Look] = deque(maxlen=MOST_LOOKS)
        self.minute = Minute()
        self.error: LookError | None = None
        self.judgement: Judgement | None = None
        self.laid: tuple[MemoryBar, ...] = ()
        """What its model asks of each memory, where it does not say itself what it allocated."""
        self.rates = Rates()
        self.last_logged: float | None = None
        self.asking_since: float | None = None
        self.is_lost = False
        self.case = _case(seen, subject)
        self._system, self._target = system, target
        self._worked = self._is_laid_out = False
        self._before_s: float | None = None

    @property
    def work(self) -> Work | None:
        """What the last look showed; None where it failed."""
        return self.looks[-1].work if self.looks and self.error is None else None

    def is_same(self, subject: Subject) -> bool:
        """Whether this is the very process with the very model that is watched."""
        mine, found = self.subject, subject
        return (mine.runtime.pid.value_or(None), mine.model.name.value_or("")) == (
            found.runtime.pid.value_or(None),
            found.model.name.value_or(""),
        )

    def refresh(self, seen: Snapshot, subject: Subject) -> None:
        """The same server, looked at again."""
        self.subject, self.case = subject, _case(seen, subject)

    def ask(self) -> None:
        """One look at its work."""
        clock = self._system.clock
        self.asking_since = clock()
        try:
            work = read_work(self._system, self._target)
            self.looks.append(Look(clock(), work))
            self.error = None
        except LookError as error:
            self.error = error
            if self.state == "answers":  # it shows nothing, so its log may
                self.last_logged = read_last_logged(self._system, self.subject)
        self.asking_since = None
        rates = rates_of(tuple(self.looks)) if self.error is None else Rates()
        self.rates = rates._replace(phase=self._phase_without()) if rates.phase == "unknown" else rates
        self._note(clock())

    def _note(self, now_s: float) -> None:
        """Count the time since the last look to the phase that this one shows."""
        start_s, self._before_s = self._before_s, now_s
        if start_s is None:
            return
        phase, queued = self.rates.phase, bool(self.rates.requests.waiting)
        self._worked = self._worked or phase in ("prefill", "decode", "busy")
        self.minute.add(start_s, now_s, phase, queued=queued)
        if phase in _NOTED:
            self.sampler.note(Span(phase=_NOTED[phase], start_s=start_s, end_s=now_s))

    def _phase_without(self) -> PhaseNow:
        """What it does, where it does not say so: by its state, else by the processors that it uses."""
        if self.state == "loading":
            return "load"
        if self.state == "silent":
            return self.rates.phase
        own = self.sampler.seen(self._system.clock() - GUESS_S).get("own_cpus")
        if own is None or self.state == "gone":
            return "unknown"
        return "busy" if own >= BUSY_CPUS else "idle"

    def lose(self) -> None:
        """Its process is gone, and what was seen of it is past."""
        self.is_lost, self.rates, self.last_logged = True, Rates(), None
        self.looks.clear()

    @property
    def state(self) -> State:
        """Whether it answers."""
        return state_of(self.error)

    def judge(self) -> None:
        """Judge what was seen over the last minute, where anything happened since the last time."""
        if self.judgement is None or self._worked:
            self._worked = False
            shares = self.minute.phases(self.rates.phase).minute
            self.judgement = judgement(self.seen_case(), self._system.now(), shares, spelled_subject)

    def seen_case(self) -> Case:
        """The server on its machine, with what was seen of its work over the last minute."""
        return msgspec.structs.replace(self.case, run=self._run())

    def lay_out(self, system: System | None) -> None:
        """Reckon once what lies on its GPUs, where its log does not tell; `system` is the machine that it runs on."""
        if self._is_laid_out:
            return
        self._is_laid_out = True
        if isinstance(self.case.runtime.buffers, Known) or not self.case.machine.gpus.value_or(()):
            return
        from unslow.app.view.what_if import memory_of  # noqa: PLC0415 (the layouts take a while to import)

        with suppress(UserError, MissingFactError, ValueError, ArithmeticError):  # what a server claims may be anything
            memory = memory_of(system, self.case)
            self.laid = () if isinstance(memory, Unknown) else memory.view().now.bars

    def _run(self) -> Run:
        """What was found of its runs, with the last minute laid over it."""
        run, looks = self.subject.run, self._recent()
        if len(looks) > 1 and any(look.work.running for look in looks):
            source = f"{len(looks)} looks at {looks[-1].work.source}"
            speed = speed_alone(looks, source)
            run = msgspec.structs.replace(run, traffic=measured(traffic_of(looks), source))
            if isinstance(speed, Known):
                run = msgspec.structs.replace(run, decode_tokens_per_s=speed)
            run = bounded(run)
        telemetry = self.sampler.recent(MINUTE_S)
        return joined_telemetry(run, measured(telemetry, SOURCE)) if telemetry.samples else run

    def _recent(self) -> list[Look]:
        start_s = self._system.clock() - MINUTE_S
        return [look for look in tuple(self.looks) if look.at_s >= start_s and look.work.running is not None]

    def is_there(self) -> bool:
        """Whether the process that was found still lives; taken for granted where none is known."""
        pid = self.subject.runtime.pid.value_or(None)
        if pid is None:
            return self.state != "gone"
        try:
            self._system.read_bytes(f"/proc/{pid}/comm", 64)
        except LookError:
            return False
        return self.state != "gone"


def _case(seen: Snapshot, subject: Subject) -> Case:
    """The server on its machine as it was found."""
    return next(msgspec.structs.replace(seen, subjects=(subject,)).cases())


def state_of(error: LookError | None) -> State:
    """What a failed look says of the server."""
    if isinstance(error, ExchangeError):
        return "gone" if error.kind == "refused" else "silent"
    if error is not None and error.why.endswith("answered 503"):
        return "loading"
    return "answers"
