"""What `unslow tune` does: plan, say what it will take, measure in turns, and judge."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unslow import __version__
from unslow.app.bench.server import Place, place_of
from unslow.app.progress import Progress
from unslow.app.tune.lines import Line, lines_of
from unslow.app.tune.neighbourhood import company
from unslow.app.tune.request import Request
from unslow.app.tune.source import Source, hand_of, source_of
from unslow.app.tune.trial import Steps, Trial, limits_of
from unslow.app.verify.asking import Prompt
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.look.launch.command import Command, found_file
from unslow.look.launch.settings import shown
from unslow.show._units import size
from unslow.think.plan.report import PlanReport
from unslow.think.tune.candidates import Candidates, candidates_of
from unslow.think.tune.halving import Halving
from unslow.think.tune.judge import Measured, Told, judged
from unslow.think.tune.report import TuneReport

__all__ = ["Request", "tune", "write_report"]


def tune(request: Request, progress: Progress) -> TuneReport:
    """Measure around the plan for about so long; UserError where nothing can be started."""
    server = _program(request.server)
    place = place_of(None, "", progress)
    notes = company(place.snapshot, allowed=request.yes)
    progress.step("planning", 0.0)
    source = source_of(place.system, request)
    hand = hand_of(place.system, source, place.snapshot.machine.cpu, request.plan.draft)
    candidates = candidates_of(source.plan, hand)
    lines = lines_of(place.system, candidates.all, source.path, server)
    _announce(source, candidates, request, progress)
    tuning = Tuning(source.work, candidates, lines, place, request.seconds)
    interrupted = tuning.run(progress)
    told = Told(
        __version__, source.plan.model, source.plan.machine, server, source.work, source.plan.goal.context,
        notes=(*notes, *_notes(source.plan)), interrupted=interrupted,
    )  # fmt: skip
    return judged(candidates, tuning.measured(), tuning.halving, told)


def _program(word: str) -> str:
    """The file of the server to start; UserError where it can't be."""
    try:
        return found_file(Command((word,), os.environ))
    except UserError as error:
        raise UserError(error.message, "name the llama-server to start: --server PATH") from error


def write_report(report: TuneReport, path: str) -> None:
    """Write the report as JSON; UserError where it can't be."""
    try:
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", "name a file in a folder that exists") from error


class Tuning:
    """The candidates while they are measured."""

    def __init__(self, work: Work, candidates: Candidates, lines: Sequence[Line], place: Place, seconds: float) -> None:
        self.halving = Halving(len(candidates.all), seconds, candidates.references)
        self._work, self._candidates, self._lines, self._place = work, candidates, lines, place
        self._trials = [Trial(line, place) for line in lines]
        self._prompts: dict[int, list[Prompt]] = {}
        for index, line in enumerate(lines):
            if line.why_not:
                self.halving.fail(index, 0.0, f"can't be started: {line.why_not}")

    def run(self, progress: Progress) -> bool:
        """Turns until it is over; whether the user stopped it."""
        try:
            while turn := self.halving.next():
                self._turn(turn.candidate, turn.round, progress)
        except KeyboardInterrupt:
            self.halving.finish("stopped")
            return True
        return False

    def measured(self) -> list[Measured]:
        """What was measured of each."""
        return [
            Measured(shown(line.words), tuple(trial.party.samples), tuple(trial.starts_s))
            for line, trial in zip(self._lines, self._trials, strict=True)
        ]

    def _turn(self, index: int, number: int, progress: Progress) -> None:
        trial, halving, system = self._trials[index], self.halving, self._place.system
        steps = Steps(progress, self._words(index, number), min(1.0, halving.spent_s / halving.budget_s))
        left_s = halving.budget_s - halving.spent_s
        limits = limits_of(halving.budget_s, left_s, self._best_s(), is_new=self._is_new(index))
        start = system.clock()
        prompts = self._prompts.setdefault(number, [])
        why = trial.turn(number, self._work, prompts, limits, steps)
        took = system.clock() - start
        if why:
            halving.fail(index, took, why)
        else:
            halving.note(index, took, trial.requests_s(number))

    def _words(self, index: int, number: int) -> str:
        left = max(0.0, self.halving.budget_s - self.halving.spent_s)
        name = self._candidates.all[index].name
        return f"round {number}, {len(self.halving.alive)} left, {left:.0f} s: {name}"

    def _is_new(self, index: int) -> bool:
        """Whether nothing is known of it, and nothing is held against it."""
        return index not in self.halving.references and not self.halving.levels[index]

    def _best_s(self) -> float | None:
        known = [s.request_s for trial in self._trials for s in trial.party.samples if s.request_s]
        return min(known, default=None)


def _announce(source: Source, candidates: Candidates, request: Request, progress: Progress) -> None:
    work, count = source.work, len(candidates.all)
    progress.say(
        f"up to {count} settings around the plan, one server after the other, for about {request.seconds:.0f} s; "
        f"each is asked for {work.answer_tokens} tokens after a prompt of {work.prompt_tokens}. {_memory(source.plan)}"
        "No other server is touched; Ctrl-C gives the best so far"
    )


def _memory(plan: PlanReport) -> str:
    """The most that one of them takes, as far as the plan knows."""
    known = [option for option in (*plan.options, *filter(None, [plan.current])) if option.host]
    if not known:
        return ""
    host = max(option.host.total_bytes for option in known if option.host)
    gpu = max((sum(device.total_bytes for device in option.devices) for option in known), default=0)
    on_gpu = f"{size(gpu)} of GPUs and " if gpu else ""
    return f"A server takes up to {on_gpu}{size(host)} of the host. "


def _notes(plan: PlanReport) -> tuple[str, ...]:
    users = plan.goal.users
    many = (f"the plan is for {users} conversations at a time; one at a time was measured",) if users > 1 else ()
    told = (f"the plan could not tell speeds: {plan.reason}",) if plan.verdict == "cannot_tell" else ()
    return (*many, *told)
