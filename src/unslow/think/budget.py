"""Where the time of a token goes, with what nothing explains as a part of its own."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.contention import crowded, waiting_s
from unslow.think.predict import Prediction
from unslow.think.report import BudgetPart

UNEXPLAINED, WAITING = "unexplained", "waiting for a CPU"


def decode_budget(case: Case, prediction: Prediction | None, measured_s: float) -> tuple[BudgetPart, ...]:
    """The measured time of a token, split as physics splits it; where it was faster, all parts shrink together."""
    parts = prediction.parts if prediction else []
    predicted = sum(p.seconds for p in parts)
    scale = min(1.0, measured_s / predicted) if predicted else 0.0
    budget = [_part(p.name, p.seconds * scale) for p in parts]
    waiting = waiting_s(case, measured_s, prediction) if not crowded(case) else 0.0
    if waiting:
        budget.append(_part(WAITING, waiting))
    budget.append(_part(UNEXPLAINED, max(0.0, measured_s - predicted * scale - waiting)))
    return tuple(sorted(budget, key=lambda b: -b.seconds))


def _part(name: str, seconds: float) -> BudgetPart:
    return BudgetPart(phase="decode", part=name, seconds=seconds, per="token")


def slow_phase(case: Case) -> str:
    """The phase that took most of the measured requests; the load where it failed."""
    if case.runtime.state.value_or("loaded") in ("failed", "loading"):
        return "load"
    completions = case.run.completions
    if not isinstance(completions, Known) or not completions.value:
        return "queue" if case.runtime.deferred_requests.value_or(0) else "decode"
    runs = completions.value
    prefill, decode = sum(c.prefill_s for c in runs), sum(c.decode_s for c in runs)
    outside = sum(max(0.0, c.client_total_s - c.prefill_s - c.decode_s) for c in runs if c.client_total_s is not None)
    phases = {"prefill": prefill, "decode": decode, "client": outside}
    return max(phases, key=lambda name: phases[name])
