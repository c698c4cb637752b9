"""A visit to one server: what may be measured of it, and what was."""

from collections.abc import Callable

import msgspec

from unslow.app.collect import with_subjects
from unslow.app.course import Limits
from unslow.app.manners import Manners, busy, caution, is_llama_server, refusal
from unslow.app.progress import Progress
from unslow.app.target import HELD, slot_of, target_of
from unslow.facts.run import Run
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import Absence, Known, Unknown, not_found
from unslow.look.bench.completions import SHARED
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.trials import trials
from unslow.look.llama_server.measuring import FreeSlots, read_free_slots
from unslow.look.system import System
from unslow.look.system.closing import LATE, STOPPED
from unslow.think.causes._cause import fact_at
from unslow.think.judge import judge
from unslow.think.measuring.catalogue import SPEED, context_of, measurements
from unslow.think.measuring.choice import MOST_S, next_measurement, worthwhile
from unslow.think.measuring.measurement import Choice, Measurement
from unslow.think.report import SubjectReport

WATCH_S = 6.0
NONE_SENT = " (--passive sends none)"
"""Of what is sent: how to have it otherwise, for whoever gave the command."""
_MOMENTS, _MOMENT_S = 6, 0.5
_MOST_ANSWERED = 5 * 512
"""Tokens that the usual measurement asks for at most."""


class Visit:
    """One subject while it is measured."""

    def __init__(self, system: System, seen: Snapshot, subject: Subject, manners: Manners, limits: Limits) -> None:
        self.subject = subject
        self.label = ""
        """In front of what is said, where several servers are measured."""
        self.done: set[str] = set(measurements()) - set(limits.only or trials())
        self.performed: list[str] = []
        self._system, self._seen, self._manners, self._limits = system, seen, manners, limits
        self._refused = refusal(subject, manners)
        self._report: SubjectReport | None = None

    @property
    def case(self) -> Case:
        """The subject on its machine, as it is known so far."""
        return next(with_subjects(self._seen, (self.subject,)).cases())

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
        url = self.subject.runtime.url.value_or("the server")
        if self.may_send:
            slot = slot_of(self._system, self.subject, self._target(), self._manners)
            self._refused = slot if isinstance(slot, Unknown) else None
        if self._refused:
            progress.say(f"{url}: {self._refused.why}; only observed")
            self._overlay(Run(decode_tokens_per_s=self._refused), ())  # what its log tells of the past stays
        elif not self.subject.runtime.embedded:
            progress.say(f"sending {self.announcement()}{NONE_SENT}")
            if care := caution(self.subject.runtime):
                progress.say(f"{url}: {care}")

    def announcement(self) -> str:
        """How much is sent at most, and to whom."""
        case, url = self.case, self.subject.runtime.url.value_or("the server")
        loads = [
            m.load(case) for m in measurements().values() if m.sends and m.possible(case) and m.name not in self.done
        ]
        read, answered = sum(x.prompt_tokens for x in loads), sum(x.generated_tokens for x in loads) + _MOST_ANSWERED
        seconds = self._limits.seconds
        return (
            f"prompts of up to {read:,.0f} tokens in all to {url}, for answers of up to {answered:,.0f}, "
            f"within {seconds:.0f} s"
        )

    def next(self, seconds_left: float) -> Choice | None:
        """What to measure of it now; nothing more of a server that broke off."""
        if self._has_failed():
            return None
        patience = self._limits.patience
        return next_measurement(
            self.case, self.report(), self.done, seconds_left, may_send=self.may_send, patience=patience
        )

    def named(self, name: str) -> Choice | None:
        """A measurement by its name, as a recording has it."""
        known = measurements().get(name)
        return Choice(known, (), 0.0) if known and name in trials() else None

    def missing(self) -> list[Choice]:
        """What would be worth measuring and was not, or was cut short."""
        if self._has_failed():
            return []
        done = {name for name in self.done if not self._was_cut(measurements()[name])}
        return worthwhile(self.case, self.report(), done, may_send=self.may_send, patience=self._limits.patience)

    def _was_cut(self, measurement: Measurement) -> bool:
        """Whether it has not told what it was made for; the usual speed is there by however few tokens."""
        fills = ("run.decode_tokens_per_s",) if measurement.name == SPEED else measurement.fills
        facts = [fact_at(self.case, path) for path in fills]
        return any(isinstance(fact, Unknown) and fact.why in (LATE, STOPPED) for fact in facts)

    def perform(self, choice: Choice, seconds: float, say: Callable[[str, float], None]) -> None:
        """Measure, and lay what came of it over what was known."""
        measurement = choice.measurement
        plan = self._plan(seconds)
        if isinstance(plan, Unknown):
            if measurement.sends:
                self._refused = plan
                self.done.add(measurement.name)
                say(f"it is only observed from now on: {plan.why}", 1.0)
                return
            plan = Plan(watch_s=min(seconds, WATCH_S * self._limits.patience))
        say(measurement.doing, 0.0)
        run = trials()[measurement.name](self._system, self._target(), plan, say)
        self._overlay(self._with_refusal(run), measurement.fills)
        self.done.add(measurement.name)
        self.performed.append(measurement.name)
        speed = run.decode_tokens_per_s
        if isinstance(speed, Unknown) and speed.why == SHARED.why:
            self._refused = speed  # what else would be measured is no more its own

    def _with_refusal(self, run: Run) -> Run:
        """Where a server that may not be asked shows no speed either, both reasons."""
        speed = run.decode_tokens_per_s
        if self._refused is None or isinstance(speed, Known) or speed.absence is Absence.NOT_LOOKED:
            return run
        why = not_found(f"{self._refused.why}, and {speed.why}", self._refused.how_to_get)
        return msgspec.structs.replace(run, decode_tokens_per_s=why)

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
        shown = is_llama_server(runtime) and not runtime.embedded
        free = self._free_slots() if shown else FreeSlots()
        if free.busy:
            return busy(free.busy)
        if shown and not free.unused and not self._manners.evict:
            return HELD
        return Plan(
            seconds_per_completion=self._limits.seconds_per_completion,
            slot=next(reversed(free.unused), None),
            slots=free.unused,
            context=context_of(self.case),
            shared=runtime.kv_unified.value_or(None) is not False,
            seconds=min(seconds, MOST_S * self._limits.patience),
            watch_s=min(seconds, WATCH_S * self._limits.patience),
            prefill_tokens_per_s=run.prefill_tokens_per_s.value_or(None),
            decode_tokens_per_s=run.decode_tokens_per_s.value_or(None),
        )

    def _free_slots(self) -> FreeSlots:
        """The slots, after a moment where they are taken: others pause, and an answer that was cut short has an end."""
        server = self._target().server(self._system)
        free = read_free_slots(server)
        for _ in range(_MOMENTS if self.may_send else 0):
            if not free.busy:
                break
            self._system.sleep(_MOMENT_S)
            free = read_free_slots(server)
        return free

    def _target(self) -> Target:
        return target_of(self._system, self.subject, self._manners)

    def _overlay(self, run: Run, fills: tuple[str, ...]) -> None:
        self.subject = msgspec.structs.replace(self.subject, run=joined(self.subject.run, run, fills))
        self._report = None


def joined(before: Run, run: Run, fills: tuple[str, ...]) -> Run:
    """Both runs: of what it was made for the new one tells, be it that there is none; of all else whichever knows."""
    changes = {}
    for name in run.__struct_fields__:
        old, new = getattr(before, name), getattr(run, name)
        looked = isinstance(new, Known) or new.absence is not Absence.NOT_LOOKED
        if isinstance(new, Known) or (looked and (f"run.{name}" in fills or not isinstance(old, Known))):
            changes[name] = new
    return msgspec.structs.replace(before, **changes)
