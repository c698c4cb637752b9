"""Measures servers as much as needed and no more: one visit to each, and what would settle most next.

The first measurement of each server is its usual speed, or where it may not be asked, what can be seen of its work.
All servers share the time. The course of it is kept, so that a recording can go the same way.
"""

from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from unslow.commands._formats import Looking
from unslow.commands._output import Progress
from unslow.commands.diagnose import permission
from unslow.commands.diagnose.request import THOROUGH, USUAL, Course, Limits, Step
from unslow.commands.diagnose.target import with_subjects
from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Absence, Known, Unknown, not_found
from unslow.look.bench.completions import SHARED
from unslow.look.bench.trials import trials
from unslow.look.requests import Plan, Target
from unslow.look.runtimes.llama_cpp.bench import FreeSlots, read_free_slots
from unslow.look.system import LATE, STOPPED, System
from unslow.look.system.live import ClosingSystem
from unslow.think.case.view import CaseView, views_of
from unslow.think.judge.judge import judge
from unslow.think.judge.next_measurement import (
    FIRST,
    MEASUREMENTS,
    MOST_S,
    SPEED,
    Choice,
    context_of,
    next_measurement,
    worthwhile,
)
from unslow.think.report import SubjectReport

FIRST_S = 4.0
"""What the first measurement of a server gets, however long looking took: without a speed there is little to say."""
CONCLUDING_S, CONCLUDING_SHARE, MOST_CONCLUDING_S = 2.0, 0.12, 8.0
"""For what comes before and after: the start of the program, another look at the memory, the judgement, the report. On
a machine that is busy with something else these take several times as long."""
HURRIED_SHARE = 0.5
"""With less time than usual, the speed may take this share of it, so that what is suspected can be tried as well."""
WATCH_S = 6.0
NONE_SENT = " (--passive sends none)"  # Of what is sent: how to have it otherwise, for whoever gave the command
ANYWAY = f" (--evict measures anyway: {permission.EVICTED})"
_MOMENTS, _MOMENT_S = 6, 0.5
_MOST_ANSWERED = 5 * 512  # Tokens that the usual measurement asks for at most
_MOST_LISTED = 2


class MeasuredSubjects(NamedTuple):
    """The subjects with what was measured of them, what a reader must know of each, and how it went."""

    subjects: tuple[Subject, ...]
    notes: tuple[tuple[str, ...], ...]
    course: Course


class Measuring:
    """One session of measuring, from the moment in which it is made."""

    def __init__(
        self,
        system: System,
        request: Looking,
        progress: Progress,
        limits: Limits = USUAL,
        *,
        door: ClosingSystem | None = None,
        recorded: Course | None = None,
    ) -> None:
        self.system, self.request, self.progress, self._limits = system, request, progress, limits
        self._door, self._recorded = door, recorded
        self._ahead = list(recorded.steps) if recorded else []
        # a clock that leaves no trace in a recording, and none at all where one goes on as it went
        self._clock: Callable[[], float] = door.clock if door else (lambda: 0.0) if recorded else system.clock
        self._since = self._clock()
        self._steps: list[Step] = []

    def begin_again(self) -> None:
        """Count the time from now on: what came before is done once, such as writing a model."""
        self._since = self._clock()

    def measure(self, seen: Snapshot, subjects: Sequence[Subject]) -> MeasuredSubjects:
        """Every subject with its measurements; being stopped ends them, and what was measured until then is kept."""
        visits = [Visit(self.system, seen, subject, self.request, self._limits) for subject in subjects]
        try:
            for visit in visits:
                visit.label = f"{visit.subject.runtime.process.url.value_or('?')}: " if len(visits) > 1 else ""
                visit.introduce(self.progress)
            while step := self._next(visits):
                self._perform(visits, *step)
        except KeyboardInterrupt:
            if self._door is None or not self._door.is_stopped_once:
                raise
        if self._door:
            self._door.concluding = True
            self._door.close_in(inf)
        course = self._recorded
        if course is None:
            seconds, stopped = self._clock() - self._since, self._door and self._door.is_stopped
            late = not stopped and any(visit.missing() for visit in visits)
            course = Course(tuple(self._steps), "stopped" if stopped else "late" if late else "enough", seconds)
        for visit in visits:
            if course.ended == "stopped":
                why = "the measurement was stopped before a response was complete"
                visit.cut_short(why, "let the measurement finish")
            elif course.ended == "late":
                why = f"no response completed within {self._limits.seconds:.0f} s"
                visit.cut_short(why, "allow more time with --thorough")
        notes = [notes_on(course, visit.missing()) if course.ended != "enough" else () for visit in visits]
        return MeasuredSubjects(tuple(visit.subject for visit in visits), tuple(notes), course)

    def _next(self, visits: Sequence["Visit"]) -> tuple[int, Choice] | None:
        """What to measure now: as it was recorded, else what is worth most, after a first look at each server."""
        if self._recorded is not None:
            while self._ahead:
                number, name = self._ahead.pop(0)
                measurement = MEASUREMENTS.get(name)
                if number < len(visits) and measurement and name in trials():
                    return number, Choice(measurement, (), 0.0)
            return None
        if self._door and self._door.is_stopped:
            return None
        found = []
        for number, visit in enumerate(visits):
            if choice := visit.next(self._left() if visit.performed else max(self._left(), FIRST_S)):
                urgency = choice.measurement.name in FIRST, choice.decides_suspicion, choice.worth_per_s
                found.append((urgency, (number, choice)))
        return max(found, key=itemgetter(0))[1] if found else None

    def _perform(self, visits: Sequence["Visit"], number: int, choice: Choice) -> None:
        visit, name = visits[number], choice.measurement.name
        waiting = sum(not v.performed for v in visits) if name in FIRST else 1
        # What there is for a measurement: all that is left, and less for the first one of a hurried diagnosis
        hurried = name == SPEED and self._limits.seconds < USUAL.seconds
        share_of = min(self._left(), HURRIED_SHARE * self._limits.seconds) if hurried else self._left()
        seconds = max(share_of / max(1, waiting), 0.0 if visit.performed else FIRST_S)
        if self._door:
            self._door.close_in(seconds)
        visit.perform(choice, seconds, lambda text, _share: self._say(visit, choice, text))
        self._steps.append(Step(number, name))

    def _say(self, visit: "Visit", choice: Choice, text: str) -> None:
        """What is being done, why, and how long all of it takes at most."""
        left = max(0.0, self._left())
        words = f"{left:.0f} s left at most: {visit.label}{text}, {choice.measurement.why}"
        self.progress.step(words, 1 - left / self._limits.seconds)

    def _left(self) -> float:
        total = self._limits.seconds
        concluding = min(MOST_CONCLUDING_S, max(CONCLUDING_S, CONCLUDING_SHARE * total))
        return total - concluding - (self._clock() - self._since)


def notes_on(course: Course, missing: Sequence[Choice]) -> tuple[str, ...]:
    """What a reader must know of a diagnosis that ended before it had enough."""
    if course.ended == "stopped":
        rest = f", before {_measurement_names(missing)}" if missing else ", when nothing else was worth measuring"
        return (f"Measuring stopped after {course.seconds:.0f} s{rest}.",)
    if course.ended == "late" and missing:
        longer = f"--thorough takes up to {THOROUGH.seconds:.0f} s"
        return (f"Not run for lack of time: {_measurement_names(missing)}; {longer}.",)
    return ()


def _measurement_names(choices: Sequence[Choice]) -> str:
    words = "; ".join(f"{c.measurement.doing}, {c.measurement.why}" for c in choices[:_MOST_LISTED])
    more = len(choices) - _MOST_LISTED
    return f"{words}; and {more} more" if more > 0 else words


class Visit:
    """One subject while it is measured."""

    def __init__(self, system: System, seen: Snapshot, subject: Subject, request: Looking, limits: Limits) -> None:
        self.subject = subject
        self.label = ""
        """In front of what is said, where several servers are measured."""
        self.done: set[str] = set(MEASUREMENTS) - set(limits.only or trials())
        self.performed: list[str] = []
        self._system, self._seen, self._request, self._limits = system, seen, request, limits
        self._refused = permission.refusal(subject, passive=request.passive)
        self._report: SubjectReport | None = None

    @property
    def case(self) -> CaseView:
        """The subject on its machine, as it is known so far."""
        return next(views_of(with_subjects(self._seen, (self.subject,))))

    def report(self) -> SubjectReport:
        """The judgement so far."""
        self._report = self._report or judge(self.case)
        return self._report

    @property
    def may_send(self) -> bool:
        """Whether it may be asked anything."""
        return self._refused is None

    def introduce(self, progress: Progress) -> None:
        """Say what will be sent, or why nothing is."""
        url = self.subject.runtime.process.url.value_or("the server")
        if self.may_send:
            slot = permission.slot_of(self._system, self.subject, self._target(), evict=self._request.evict)
            self._refused = slot if isinstance(slot, Unknown) else None
        if self._refused:
            anyway = ANYWAY if self._refused.how_to_get == permission.EVICT else ""
            progress.say(f"{url}: {self._refused.why}; observing only{anyway}")
            self._overlay(Run(decode_tokens_per_s=self._refused), ())  # what its log tells of the past stays
        elif not self.subject.runtime.embedded:
            progress.say(f"sending {self.announcement()}{NONE_SENT}")
            if care := permission.caution(self.subject.runtime):
                progress.say(f"{url}: {care}")

    def announcement(self) -> str:
        """How much is sent at most, and to whom."""
        case, url = self.case, self.subject.runtime.process.url.value_or("the server")
        sending = (m for m in MEASUREMENTS.values() if m.sends and m.possible(case) and m.name not in self.done)
        loads = [m.load(case) for m in sending]
        read, answered = sum(x.prompt_tokens for x in loads), sum(x.generated_tokens for x in loads) + _MOST_ANSWERED
        most = f"for answers of up to {answered:,.0f}, within {self._limits.seconds:.0f} s"
        return f"prompts of up to {read:,.0f} tokens in all to {url}, {most}"

    def next(self, seconds_left: float) -> Choice | None:
        """What to measure of it now; nothing more of a server that broke off."""
        if self._has_failed():
            return None
        done, patience = self.done, self._limits.patience
        return next_measurement(self.case, self.report(), done, seconds_left, may_send=self.may_send, patience=patience)

    def missing(self) -> list[Choice]:
        """What would be worth measuring and was not, or was cut short."""
        if self._has_failed():
            return []
        done = set()
        for name in self.done:
            # What it was made for; the usual speed is there by however few tokens
            fills = ("run.decode_tokens_per_s",) if name == SPEED else MEASUREMENTS[name].fills
            facts = [self.case.fact(path) for path in fills]
            if not any(isinstance(fact, Unknown) and fact.why in (LATE, STOPPED) for fact in facts):
                done.add(name)
        return worthwhile(self.case, self.report(), done, may_send=self.may_send, patience=self._limits.patience)

    def perform(self, choice: Choice, seconds: float, say: Callable[[str, float], None]) -> None:
        """Measure, and lay what came of it over what was known."""
        measurement = choice.measurement
        plan = self._plan(seconds)
        if isinstance(plan, Unknown):
            if measurement.sends:
                self._refused = plan
                self.done.add(measurement.name)
                say(f"observing only from now on: {plan.why}", 1.0)
                return
            plan = Plan(watch_s=min(seconds, WATCH_S * self._limits.patience))
        say(measurement.doing, 0.0)
        run = trials()[measurement.name](self._system, self._target(), plan, say)
        speed = run.decode_tokens_per_s
        if self._refused is not None and isinstance(speed, Unknown) and speed.absence is not Absence.NOT_LOOKED:
            # Where a server that may not be asked shows no speed either, both reasons
            why = not_found(f"{self._refused.why}, and {speed.why}", self._refused.how_to_get)
            run = msgspec.structs.replace(run, decode_tokens_per_s=why)
        self._overlay(run, measurement.fills)
        self.done.add(measurement.name)
        self.performed.append(measurement.name)
        if isinstance(speed, Unknown) and speed.why == SHARED.why:
            self._refused = speed  # what else would be measured is no more its own

    def cut_short(self, why: str, how_to_get: str) -> None:
        """Note that the usual speed is missing because there was no more time for it: the server did not fail."""
        speed = self.subject.run.decode_tokens_per_s
        if isinstance(speed, Unknown) and speed.why in (LATE, STOPPED):
            self._overlay(Run(decode_tokens_per_s=not_found(why, how_to_get)), ("run.decode_tokens_per_s",))

    def _has_failed(self) -> bool:
        speed = self.subject.run.decode_tokens_per_s
        if SPEED not in self.performed or isinstance(speed, Known):
            return False
        return speed.absence is Absence.FAILED and speed.why not in (LATE, STOPPED)

    def _plan(self, seconds: float) -> Plan | Unknown:
        """How to measure now; Unknown where others have come meanwhile, or hold all there is."""
        run, runtime = self.subject.run, self.subject.runtime
        shown = permission.is_llama_server(runtime) and not runtime.embedded
        free = FreeSlots()
        if shown:
            server = self._target().server(self._system)
            free = read_free_slots(server)
            for _ in range(_MOMENTS if self.may_send else 0):
                if not free.busy:
                    break
                self._system.sleep(_MOMENT_S)  # others pause, and an answer that was cut short has an end
                free = read_free_slots(server)
        if free.busy:
            return permission.busy(free.busy)
        if shown and not free.unused and not self._request.evict:
            return permission.HELD
        return Plan(
            seconds_per_completion=self._limits.seconds_per_completion,
            slot=next(reversed(free.unused), None),
            slots=free.unused,
            context=context_of(self.case),
            shared=runtime.cache.unified.value_or(None) is not False,
            seconds=min(seconds, MOST_S * self._limits.patience),
            watch_s=min(seconds, WATCH_S * self._limits.patience),
            prefill_tokens_per_s=run.prefill_tokens_per_s.value_or(None),
            decode_tokens_per_s=run.decode_tokens_per_s.value_or(None),
        )

    def _target(self) -> Target:
        return permission.target_of(self._system, self.subject, self._request.api_key)

    def _overlay(self, run: Run, fills: tuple[str, ...]) -> None:
        self.subject = msgspec.structs.replace(self.subject, run=merge_runs(self.subject.run, run, fills))
        self._report = None


def merge_runs(before: Run, run: Run, fills: tuple[str, ...]) -> Run:
    """Both runs: of what it was made for the new one tells, be it that there is none; of all else whichever knows."""
    changes = {}
    for name in run.__struct_fields__:
        old, new = getattr(before, name), getattr(run, name)
        looked = isinstance(new, Known) or new.absence is not Absence.NOT_LOOKED
        if isinstance(new, Known) or (looked and (f"run.{name}" in fills or not isinstance(old, Known))):
            changes[name] = new
    return msgspec.structs.replace(before, **changes)
