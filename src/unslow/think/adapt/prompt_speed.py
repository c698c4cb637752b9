"""How fast prompts are read, where what was measured can tell."""

import statistics

from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, first_known, not_found

SHORT_PROMPT = 256
"""A prompt of fewer new tokens tells nothing: starting takes as long as reading it."""


def prompt_speed(case: Case) -> Fact[float]:
    """Prompt tokens per second: of the long prompt where one was tried; unknown where only short ones were measured."""
    tried = case.run.long_prompt
    if isinstance(tried, Known) and tried.value.tokens >= SHORT_PROMPT and tried.value.seconds > 0:
        return Known(tried.value.tokens / tried.value.seconds, tried.origin, tried.source)
    runs = case.run.completions
    if isinstance(runs, Known) and all(c.prompt_tokens - c.cached_tokens < SHORT_PROMPT for c in runs.value):
        return not_found("only short prompts were measured", "send a prompt of a thousand words or more")
    return first_known(case.run.prefill_tokens_per_s, case.runtime.prefill_tokens_per_s)


def measured_prompt_tokens(case: Case) -> float | None:
    """New tokens of the prompts that tell the speed: of the long one that was tried, else of the long ones among all.

    None where no prompt was long enough, or nobody counted them.
    """
    tried = case.run.long_prompt
    if isinstance(tried, Known) and tried.value.tokens:
        return float(tried.value.tokens)
    new = [c.prompt_tokens - c.cached_tokens for c in case.run.completions.value_or(())]
    long = [tokens for tokens in new if tokens >= SHORT_PROMPT]
    return float(statistics.median(long)) if long else None
