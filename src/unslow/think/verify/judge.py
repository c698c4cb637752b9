"""The whole report of two sides: the verdict on speed and answers, what differs, what the plan had said."""

from typing import NamedTuple

import msgspec

from unslow.facts.verified import REQUEST, Side
from unslow.think.plan.report import OptionShown
from unslow.think.verify.answers import ALLOWED, judged_answers
from unslow.think.verify.apart import host_drift
from unslow.think.verify.figures import figures_of
from unslow.think.verify.predicted import predicted_of
from unslow.think.verify.report import (
    AnswersShown,
    ChangeShown,
    FigureShown,
    SideShown,
    Verdict,
    VerifyReport,
    Way,
    WorkShown,
)
from unslow.think.verify.trouble import Trouble, trouble_of

_MOST_FAILURES = 5
_OF_THE_START = ("runtime.pid", "runtime.url")


class Told(NamedTuple):
    """What is known beside the two sides."""

    unslow_version: str
    machine: str = ""
    way: Way = "in_turns"
    allowed: float = ALLOWED
    option: OptionShown | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    ended: str = ""
    """Why it ended before its time, where a server was the reason."""
    answers: bool = True
    """Whether they were to be compared."""


def judged(before: Side, after: Side, told: Told) -> VerifyReport:
    """The report on two sides."""
    figures, answers = figures_of(before, after, told.way), _answers(before, after, told)
    trouble = trouble_of(before, after, told.ended, apart=told.way == "apart")
    verdict, because = _verdict(figures, answers, trouble, after)
    return VerifyReport(
        unslow_version=told.unslow_version,
        machine=told.machine,
        way=told.way,
        work=WorkShown(
            prompt_tokens=before.work.prompt_tokens,
            kept_tokens=before.work.kept_tokens,
            answer_tokens=before.work.answer_tokens,
        ),
        verdict=verdict,
        because=because,
        figures=figures,
        answers=answers,
        before=_side(before),
        after=_side(after),
        changes=changes_of(before, after),
        predicted=predicted_of(told.option, figures) if told.option else None,
        notes=(*_notes(before, after, told), *told.notes),
        interrupted=told.interrupted,
    )


def status_of(report: VerifyReport) -> int:
    """The exit status: 0 faster or the same and answers as before, 1 slower, broken or other answers, 3 can't tell."""
    if report.verdict in ("faster", "same"):
        return 3 if _is_open(report.answers) else 0
    return 3 if report.verdict == "cannot_tell" else 1


def _is_open(answers: AnswersShown) -> bool:
    """Whether answers were to be compared, and could not be."""
    return answers.wanted and answers.verdict == "cannot_tell"


def _answers(before: Side, after: Side, told: Told) -> AnswersShown:
    answers = judged_answers(before, after, told.allowed)
    if told.answers:
        return answers
    return msgspec.structs.replace(answers, wanted=False, because="they were not to be compared")


def _verdict(
    figures: tuple[FigureShown, ...], answers: AnswersShown, trouble: Trouble | None, after: Side
) -> tuple[Verdict, str]:
    if answers.verdict == "changed":
        return "answers_changed", answers.because
    if trouble:
        return trouble
    request = next((figure for figure in figures if figure.metric == REQUEST), None)
    if request is None:
        why = f": {after.failures[-1]}" if after.failures else ""
        return "cannot_tell", f"no round was answered by both{why}"
    still = "; whether it still answers as before can't be told" if _is_open(answers) else ""
    return request.verdict, f"a whole request: {request.because}{still}"


def _side(side: Side) -> SideShown:
    return SideShown(
        what=side.what,
        runtime=side.runtime,
        runtime_version=side.runtime_version,
        model=side.model,
        settings=side.settings,
        failures=side.failures[-_MOST_FAILURES:],
        taken_at=side.taken_at,
    )


def changes_of(before: Side, after: Side) -> tuple[ChangeShown, ...]:
    """Settings that differ, also those that only one of them tells."""
    known = {"runtime": (before.runtime, after.runtime), "model": (before.model, after.model)}
    names = [name for name in dict.fromkeys([*before.settings, *after.settings]) if name not in _OF_THE_START]
    known |= {name: (before.settings.get(name, ""), after.settings.get(name, "")) for name in names}
    return tuple(ChangeShown(setting=name, before=a, after=b) for name, (a, b) in known.items() if a != b)


def _notes(before: Side, after: Side, told: Told) -> tuple[str, ...]:
    notes = [f"{name}: {len(side.failures)} requests failed" for name, side in _named(before, after) if side.failures]
    notes += [f"{name}: no perplexity: {side.not_scored}" for name, side in _named(before, after) if side.not_scored]
    if told.way == "apart":
        notes.append(_drift_words(before, after))
    if told.ended:
        notes.append(f"it ended before its time: {told.ended}")
    if told.interrupted:
        notes.append("stopped before its time: what was measured until then counts")
    return tuple(notes)


def _named(before: Side, after: Side) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("before", before), ("after", after)


def _drift_words(before: Side, after: Side) -> str:
    drift = host_drift(before, after)
    seen = "whether the host was as fast is not known"
    if drift is not None:
        seen = f"the host's memory was {abs(drift):.1%} {'faster' if drift > 0 else 'slower'} the second time"
    clocks = [side.conditions.get("gpu_clock_hz") for side in (before, after)]
    if clocks[0] and clocks[1]:
        seen += f", its GPU's clock {clocks[1] / clocks[0] - 1:+.1%}"
    return f"measured at different times, so drift is not excluded: {seen}; the interval is wider for it"
