"""Small plans to apply, as `unslow plan` writes them."""

from pathlib import Path

import msgspec

from unslow.facts.knob import Setting
from unslow.think.plan.report import ChangeShown, GoalShown, OptionShown, PlanReport, QualityShown

GOAL = GoalShown(aim="speed", context=8192, prompt_tokens=512, kept_tokens=0, answer_tokens=256, users=1)


def option(name: str, **changes: Setting) -> OptionShown:
    """A set of settings by their knobs."""
    shown = tuple(ChangeShown(knob=knob, value=value) for knob, value in changes.items())
    quality = QualityShown(perplexity_increase=None)
    return OptionShown(name=name, quant="Q4_K_M", context=8192, changes=shown, speed=None, quality=quality)


def plan(runtime: str, model: str, *options: OptionShown, recommended: int | None = 0) -> PlanReport:
    """A plan with these options."""
    return PlanReport(
        unslow_version="0", model=model, runtime=runtime, machine="a machine", goal=GOAL, verdict="better",
        recommended=recommended, options=options,
    )  # fmt: skip


def written(folder: Path, report: PlanReport) -> str:
    """The plan as a file."""
    path = folder / "plan.json"
    path.write_bytes(msgspec.json.encode(report))
    return str(path)
