"""Requests as a measurement: medians over what a server timed."""

import statistics
from collections.abc import Sequence

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, Known, Origin, first_known, not_found
from unslow.look.logs.llama_cpp.log import LlamaLog


def run_of_log(log: LlamaLog) -> Run:
    """What a log tells of its requests and its load; it does not say what else went on meanwhile."""
    if isinstance(log.completions, Known):
        return msgspec.structs.replace(run_of(log.completions, log.load_s), decode_decay=log.decode_decay)
    prefill, decode = log.rates
    return Run(
        completions=log.completions,
        decode_tokens_per_s=first_known(decode, log.completions),
        prefill_tokens_per_s=prefill,
        load_s=log.load_s,
    )


def run_of(completions: Known[tuple[Completion, ...]], load_s: Fact[float]) -> Run:
    """Medians over the completions, as well known as they are."""
    done, origin, source = completions.value, completions.origin, completions.source
    depths = [c.cached_tokens + c.prompt_tokens + c.generated_tokens / 2 for c in done]
    return Run(
        completions=completions,
        # the first token belongs to the prompt: n tokens take n - 1 steps
        decode_tokens_per_s=median(
            [(c.generated_tokens - 1) / c.decode_s for c in done if c.decode_s > 0 and c.generated_tokens > 1],
            origin,
            source,
        ),
        prefill_tokens_per_s=median([c.prompt_tokens / c.prefill_s for c in done if c.prefill_s > 0], origin, source),
        time_to_first_token_s=median([c.prefill_s for c in done if c.prefill_s > 0], origin, source),
        depth_tokens=Known(int(statistics.median(depths)), origin, source) if depths else not_found("no request"),
        waiting_for_cpu_s_per_token=median(
            [c.waited_s / c.generated_tokens for c in done if c.waited_s is not None and c.generated_tokens],
            origin,
            source,
        ),
        load_s=load_s,
    )


def median(values: Sequence[float], origin: Origin, source: str) -> Fact[float]:
    """The middle of what was timed."""
    return Known(statistics.median(values), origin, source) if values else not_found(f"{source} does not time it")
