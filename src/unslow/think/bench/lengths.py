"""How long the prompts and answers of a benchmark were: two that differ in that measured different things."""

import statistics

from unslow.facts.bench import PREFILL, Bench

AS_LONG = 1.25


def otherwise(metric: str, before: Bench, after: Bench) -> str:
    """Why two benchmarks do not measure a figure in the same way; nothing where they do, or where it can't be told."""
    if (before.protocol == "imported") != (after.protocol == "imported"):
        return "one was measured by another program"
    old, new = _tokens(metric, before), _tokens(metric, after)
    if not old or not new or max(old, new) <= AS_LONG * min(old, new):
        return ""
    what = "prompts" if metric == PREFILL else "answers"
    return f"{what} of {old:.0f} tokens before, of {new:.0f} now"


def _tokens(metric: str, bench: Bench) -> float:
    """Of the prompts that a figure is made from, or of the answers; 0 where no request is known."""
    counted = [done for done in bench.passes if done.round]
    if metric == PREFILL:
        return max((done.prompt_tokens for done in counted), default=0)
    short = [done.asked_tokens for done in counted if done.case == "short"]
    return statistics.median(short) if short else 0
