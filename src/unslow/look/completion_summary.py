"""The speeds of a run from its completions: medians, as well known as the completions are."""

import statistics
from collections.abc import Sequence

from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, Known, Origin, not_found


def run_of_completions(completions: Known[tuple[Completion, ...]], load_s: Fact[float]) -> Run:
    """Medians over the completions, as well known as they are."""
    done, origin, source = completions.value, completions.origin, completions.source
    depths = [c.cached_tokens + c.prompt_tokens + c.generated_tokens / 2 for c in done]
    prompts = [c for c in done if c.prefill_s > 0]
    # the first token belongs to the prompt: n tokens take n - 1 steps
    decode = [(c.generated_tokens - 1) / c.decode_s for c in done if c.decode_s > 0 and c.generated_tokens > 1]
    waited = [c.waited_s / c.generated_tokens for c in done if c.waited_s is not None and c.generated_tokens]
    return Run(
        completions=completions,
        decode_tokens_per_s=median_fact(decode, origin, source),
        prefill_tokens_per_s=median_fact([c.prompt_tokens / c.prefill_s for c in prompts], origin, source),
        time_to_first_token_s=median_fact([c.prefill_s for c in prompts], origin, source),
        depth_tokens=Known(int(statistics.median(depths)), origin, source) if depths else not_found("no request"),
        waiting_for_cpu_s_per_token=median_fact(waited, origin, source),
        load_s=load_s,
    )


def median_fact(values: Sequence[float], origin: Origin, source: str) -> Fact[float]:
    """The middle of what was timed."""
    return Known(statistics.median(values), origin, source) if values else not_found(f"{source} does not time it")
