"""Judges two sides for `unslow verify`: speed, answers, failures, what differs, and what the plan had said."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.verification import REQUEST, Side, Work
from unslow.think.plan.report import GoalShown, OptionShown, PlanReport
from unslow.think.stats import verification_report as shown
from unslow.think.stats.answers import ALLOWED, judge_answers
from unslow.think.stats.gain import FEWEST_ROUNDS, compared_figures, crowding, host_drift
from unslow.think.stats.verification_report import AnswersShown, FigureShown, Verdict, VerifyReport, Way

FEW, FEW_OF_ALL = 2, 0.05
"""So many failures, or such a share of all requests, may be an accident that says nothing of the change."""
LATE = 1.25  # Times as long as it was to take: from here on it is said
_CROWDED = 0.05  # Of the time: what others take below it is not worth a word
_WHOLE_S = 10.0  # Shorter times are told with a decimal
_MOST_FAILURES = 5
_OF_THE_START = ("runtime.pid", "runtime.url")
Trouble = tuple[Verdict, str]  # a verdict where a side failed, and why


class VerifyContext(NamedTuple):
    """What is known beside the two sides."""

    unslow_version: str
    machine: str = ""
    way: Way = "in_turns"
    allowed: float = ALLOWED
    option: OptionShown | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    ended: str = ""  # Why it ended early, where a server was the reason
    answers: bool = True  # Whether they were to be compared
    asked_s: float | None = None
    took_s: float | None = None  # How long it was to take, and took


def judge_verification(before: Side, after: Side, told: VerifyContext) -> VerifyReport:
    """The report on two sides."""
    figures, answers = tuple(compared_figures(before, after, told.way)), judge_answers(before, after, told.allowed)
    if not told.answers:
        answers = msgspec.structs.replace(answers, wanted=False, because="answers were not compared")
    trouble = trouble_of(before, after, told.ended, apart=told.way == "apart")
    verdict, because = _verdict(figures, answers, trouble, before, after)
    return VerifyReport(
        unslow_version=told.unslow_version,
        machine=told.machine,
        way=told.way,
        work=msgspec.convert(before.work, shown.WorkShown, from_attributes=True),
        verdict=verdict,
        because=because,
        figures=figures,
        answers=answers,
        before=_shown_side(before),
        after=_shown_side(after),
        changes=changes_of(before, after),
        predicted=predicted_of(told.option, figures) if told.option else None,
        notes=(*notes_of(before, after, told, figures), *told.notes),
        interrupted=told.interrupted,
        asked_s=told.asked_s,
        took_s=told.took_s,
    )


def _verdict(
    figures: Sequence[FigureShown], answers: AnswersShown, trouble: Trouble | None, before: Side, after: Side
) -> tuple[Verdict, str]:
    if answers.verdict == "changed":
        return "answers_changed", answers.because
    request = next((figure for figure in figures if figure.metric == REQUEST), None)
    if trouble:
        until = f"; until then, whole request: {request.because}" if request and after.failed_starts else ""
        return trouble[0], f"{trouble[1]}{until}"
    if request is None:
        why = f": {(*before.failures, *after.failures)[-1]}" if before.failures or after.failures else ""
        return "cannot_tell", f"no round was answered on both sides{why}"
    still = "; whether answers are unchanged is undetermined" if _is_open(answers) else ""
    return request.verdict, f"whole request: {request.because}{still}"


def verify_status(report: VerifyReport) -> int:
    """The exit status: 0 faster or the same and answers as before, 1 slower, broken or other answers, 3 can't tell."""
    if report.verdict in ("faster", "same"):
        return 3 if _is_open(report.answers) else 0
    return 3 if report.verdict == "cannot_tell" else 1


def _is_open(answers: AnswersShown) -> bool:
    return answers.wanted and answers.verdict == "cannot_tell"


def _shown_side(side: Side) -> shown.SideShown:
    failures, failed_starts = side.failures[-_MOST_FAILURES:], side.failed_starts[-_MOST_FAILURES:]
    whole = msgspec.convert(side, shown.SideShown, from_attributes=True)
    return msgspec.structs.replace(whole, failures=failures, failed_starts=failed_starts)


def changes_of(before: Side, after: Side) -> tuple[shown.ChangeShown, ...]:
    """Settings that differ, also those that only one of them tells; none where one of them was never seen."""
    if any(side.runtime == "unknown" and not side.settings for side in (before, after)):
        return ()
    known = {"runtime": (before.runtime, after.runtime), "model": (before.model, after.model)}
    names = [name for name in dict.fromkeys([*before.settings, *after.settings]) if name not in _OF_THE_START]
    known |= {name: (before.settings.get(name, ""), after.settings.get(name, "")) for name in names}
    return tuple(shown.ChangeShown(setting=name, before=a, after=b) for name, (a, b) in known.items() if a != b)


def trouble_of(before: Side, after: Side, ended: str, *, apart: bool) -> Trouble | None:
    """The verdict where one of both failed too often, or ended it before its time, and why; None where nothing did."""
    sides, failing = {"before": before, "after": after}, []
    for name, side in sides.items():
        failures = len(side.failures)
        often = failures > max(FEW, FEW_OF_ALL * (failures + len(side.samples)))
        # It was asked the questions that are compared, and did not answer one of them, also when asked again
        mute = side.compared_tokens and side.failures and not side.answers
        failing += [name] if often or mute else []
    if ended and not failing:
        failed = {name: len(side.failures) + len(side.failed_starts) for name, side in sides.items()}
        failing = ["after"] if apart else [name for name in failed if failed[name] == max(failed.values())]
    if not failing:
        return None
    if failing == ["before"] and before.failed_starts and not before.failures:
        return None  # the change is not to blame, and what was measured until then counts
    troubles = []
    for name in failing:
        side, said = sides[name], "it ended early"
        if number := len(side.failures):
            said = f"{number} of {number + len(side.samples)} requests failed ({side.failures[-1]})"
        elif side.failed_starts:
            said = f"it did not restart ({side.failed_starts[-1]})"
        troubles.append(f"{name}: {said}")
    return "broken" if failing == ["after"] else "cannot_tell", "; ".join(troubles)


def predicted_of(option: OptionShown, figures: Sequence[FigureShown]) -> shown.PredictedShown:
    """The plan's figures of an option, and how far the measured speed-up is from the one it promised."""
    request = next((figure for figure in figures if figure.metric == REQUEST), None)
    promised, speed = option.speedup, option.speed
    return shown.PredictedShown(
        option=option.name,
        decode_tokens_per_s=speed.decode_tokens_per_s if speed else None,
        prefill_tokens_per_s=speed.prefill_tokens_per_s if speed else None,
        request_s=speed.request_s if speed else None,
        speedup=promised,
        measured_over_predicted=request.speedup.mid / promised if request and promised else None,
        because=_promise_words(promised, request),
    )


def _promise_words(promised: float | None, request: FigureShown | None) -> str:
    if promised is None:
        return "the plan predicted no speedup"
    if request is None:
        return f"the plan predicted ×{promised:.2f}, but nothing could be measured"
    said = f"the plan predicted ×{promised:.2f} per request, measured ×{request.speedup.mid:.2f}"
    if request.verdict == "cannot_tell":
        return f"{said}, which may be noise"
    low, high = request.speedup.low, request.speedup.high
    held = "more than predicted" if low > promised else "less than predicted" if high < promised else "as predicted"
    return f"{said}: {held}"


def notes_of(before: Side, after: Side, told: VerifyContext, figures: Sequence[FigureShown]) -> tuple[str, ...]:
    """Every note, failures first."""
    sides = (("before", before), ("after", after))
    notes = [f"{name}: {count_of(len(side.failures), 'request')} failed" for name, side in sides if side.failures]
    for name, side in sides:
        if failed := len(side.failed_starts):
            starts = f"{count_of(failed, 'start')} of {len(side.starts_s) + failed}"
            notes.append(f"{name}: {starts} failed ({side.failed_starts[-1]})")
    notes += [f"{name}: no perplexity: {side.not_scored}" for name, side in sides if side.not_scored]
    if told.way == "apart":
        notes.append(_drift_words(before, after))
    if told.ended:
        notes.append(f"it ended early: {told.ended}")
    if told.interrupted:
        notes.append("stopped early: measurements up to then count")
    if told.took_s is None or told.asked_s is None:
        return tuple(notes)
    rounds = max((figure.rounds for figure in figures), default=0)
    took_s = [seconds for side in (before, after) for seconds in side.starts_s] if told.way != "apart" else []
    of_starts = f", {sum(took_s):.0f} s of that for {count_of(len(took_s), 'start')}" if took_s else ""
    if told.took_s > LATE * told.asked_s:
        took = f"{told.took_s:.{0 if told.took_s >= _WHOLE_S else 1}f} s instead of {told.asked_s:g} s"
        notes.append(f"it took {took}: {count_of(rounds, 'round')}{of_starts}")
    if 0 < rounds < FEWEST_ROUNDS and not told.ended and not told.interrupted:
        needed = math.ceil(told.took_s * FEWEST_ROUNDS / rounds / 10) * 10
        only = f"there was only time for {count_of(rounds, 'round')}{of_starts}"
        notes.append(f"{only}: use --seconds {needed} or more")
    return tuple(notes)


def count_of(number: int, what: str) -> str:
    """So many of something."""
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _drift_words(before: Side, after: Side) -> str:
    drift = host_drift(before, after)
    seen = "host speed not measured"
    if drift is not None:
        seen = f"host memory was {abs(drift):.1%} {'faster' if drift > 0 else 'slower'} the second time"
    clocks = [side.conditions.get("gpu_clock_hz") for side in (before, after)]
    if clocks[0] and clocks[1]:
        seen += f", the GPU clock {clocks[1] / clocks[0] - 1:+.1%}"
    crowded = [crowding(side) for side in (before, after)]
    if max(crowded) >= _CROWDED:
        seen += f", and other processes used up to {crowded[0]:.0%} of its CPUs the first time"
        seen += f", {crowded[1]:.0%} the second"
    return f"measured at different times, so drift is not ruled out: {seen}; the interval is wider"


def work_of(goal: GoalShown) -> Work:
    """The request that a plan was made for."""
    return Work(prompt_tokens=goal.prompt_tokens, kept_tokens=goal.kept_tokens, answer_tokens=goal.answer_tokens)


def chosen_option(plan: PlanReport, number: int | None) -> OptionShown | None:
    """The option of that number, from 0 as in the JSON, else what the plan recommends; None where there is none."""
    index = plan.recommended if number is None else number
    return plan.options[index] if index is not None and 0 <= index < len(plan.options) else None
