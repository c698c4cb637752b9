"""The whole report of two sides: the verdict on speed and answers, what differs, what the plan had said."""

import msgspec

from unslow.facts.verified import REQUEST, Side
from unslow.think.verify.answers import judged_answers
from unslow.think.verify.figures import figures_of
from unslow.think.verify.notes import notes_of
from unslow.think.verify.predicted import predicted_of
from unslow.think.verify.report import (
    AnswersShown,
    ChangeShown,
    FigureShown,
    SideShown,
    Verdict,
    VerifyReport,
    WorkShown,
)
from unslow.think.verify.told import Told
from unslow.think.verify.trouble import Trouble, trouble_of

__all__ = ["Told", "changes_of", "judged", "status_of"]

_MOST_FAILURES = 5
_OF_THE_START = ("runtime.pid", "runtime.url")


def judged(before: Side, after: Side, told: Told) -> VerifyReport:
    """The report on two sides."""
    figures, answers = figures_of(before, after, told.way), _answers(before, after, told)
    trouble = trouble_of(before, after, told.ended, apart=told.way == "apart")
    verdict, because = _verdict(figures, answers, trouble, (before, after))
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
        notes=(*notes_of(before, after, told, figures), *told.notes),
        interrupted=told.interrupted,
        asked_s=told.asked_s,
        took_s=told.took_s,
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
    figures: tuple[FigureShown, ...], answers: AnswersShown, trouble: Trouble | None, sides: tuple[Side, Side]
) -> tuple[Verdict, str]:
    if answers.verdict == "changed":
        return "answers_changed", answers.because
    request = next((figure for figure in figures if figure.metric == REQUEST), None)
    before, after = sides
    if trouble:
        until = f"; until then, a whole request: {request.because}" if request and after.failed_starts else ""
        return trouble.verdict, f"{trouble.because}{until}"
    if request is None:
        why = f": {(*before.failures, *after.failures)[-1]}" if before.failures or after.failures else ""
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
        starts_s=side.starts_s,
        failed_starts=side.failed_starts[-_MOST_FAILURES:],
    )


def changes_of(before: Side, after: Side) -> tuple[ChangeShown, ...]:
    """Settings that differ, also those that only one of them tells; none where one of them was never seen."""
    if any(side.runtime == "unknown" and not side.settings for side in (before, after)):
        return ()
    known = {"runtime": (before.runtime, after.runtime), "model": (before.model, after.model)}
    names = [name for name in dict.fromkeys([*before.settings, *after.settings]) if name not in _OF_THE_START]
    known |= {name: (before.settings.get(name, ""), after.settings.get(name, "")) for name in names}
    return tuple(ChangeShown(setting=name, before=a, after=b) for name, (a, b) in known.items() if a != b)
