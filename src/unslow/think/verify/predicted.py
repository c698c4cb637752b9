"""What a plan said of the change, next to what was measured."""

from collections.abc import Sequence

from unslow.facts.verified import REQUEST, Work
from unslow.think.plan.report import GoalShown, OptionShown, PlanReport
from unslow.think.verify.report import FigureShown, PredictedShown


def predicted_of(option: OptionShown, figures: Sequence[FigureShown]) -> PredictedShown:
    """The plan's figures of an option, and how far the measured speed-up is from the one it promised."""
    request = next((figure for figure in figures if figure.metric == REQUEST), None)
    promised = option.speedup
    share = request.speedup.mid / promised if request and promised else None
    return PredictedShown(
        option=option.name,
        decode_tokens_per_s=option.speed.decode_tokens_per_s if option.speed else None,
        prefill_tokens_per_s=option.speed.prefill_tokens_per_s if option.speed else None,
        request_s=option.speed.request_s if option.speed else None,
        speedup=promised,
        measured_over_predicted=share,
        because=_words(promised, request),
    )


def _words(promised: float | None, request: FigureShown | None) -> str:
    if promised is None:
        return "the plan promised no speed-up"
    if request is None:
        return f"the plan promised ×{promised:.2f}, and nothing could be measured"
    said = f"the plan promised ×{promised:.2f} for a request, measured ×{request.speedup.mid:.2f}"
    if request.verdict == "cannot_tell":
        return f"{said}, which may be noise"
    low, high = request.speedup.low, request.speedup.high
    held = "more than promised" if low > promised else "less than promised" if high < promised else "as promised"
    return f"{said}: {held}"


def work_of(goal: GoalShown) -> Work:
    """The request that a plan was made for."""
    return Work(prompt_tokens=goal.prompt_tokens, kept_tokens=goal.kept_tokens, answer_tokens=goal.answer_tokens)


def chosen_option(plan: PlanReport, number: int | None) -> OptionShown | None:
    """The option of that number, from 0 as in the JSON, else what the plan recommends; None where there is none."""
    index = plan.recommended if number is None else number
    return plan.options[index] if index is not None and 0 <= index < len(plan.options) else None
