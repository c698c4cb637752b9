"""How fast prompts are read, where what was measured can tell."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, first_known, not_found

SHORT_PROMPT = 256
"""A prompt of fewer new tokens tells nothing: starting takes as long as reading it."""


def prompt_speed(case: Case) -> Fact[float]:
    """Prompt tokens per second; unknown where only short prompts were measured."""
    runs = case.run.completions
    if isinstance(runs, Known) and all(c.prompt_tokens - c.cached_tokens < SHORT_PROMPT for c in runs.value):
        return not_found("only short prompts were measured", "send a prompt of a thousand words or more")
    return first_known(case.run.prefill_tokens_per_s, case.runtime.prefill_tokens_per_s)
