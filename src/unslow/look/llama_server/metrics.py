"""llama-server's /metrics: what it has counted since it started.

Its gauges are averages between two readers and tell little; counters tell the same to everybody.
"""

from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Unknown, estimated, failed, not_found
from unslow.look import prometheus_text
from unslow.look.prometheus_text import Metrics

ENOUGH_TOKENS = 50  # fewer say more of first tokens than of speed
_PREFIX = "llamacpp:"
_TOLD = (
    "busy_slots", "deferred_requests", "longest_sequence", "decode_tokens_per_s", "prefill_tokens_per_s",
    "prefix_hit_rate", "draft_acceptance",
)  # fmt: skip


def parse_metrics(text: Any, source: str) -> Runtime:
    """The facts of an answer; one that is not there is given as Unknown, and so are its facts."""
    if not isinstance(text, str):
        why = text if isinstance(text, Unknown) else failed(f"{source} holds no metrics")
        untold: dict[str, Any] = dict.fromkeys(_TOLD, why)
        return Runtime(**untold)
    metrics = prometheus_text.parse_metrics(text, source, _PREFIX)
    return Runtime(
        busy_slots=metrics.whole(f"{_PREFIX}requests_processing"),
        deferred_requests=metrics.whole(f"{_PREFIX}requests_deferred"),
        longest_sequence=metrics.whole(f"{_PREFIX}n_tokens_max"),
        decode_tokens_per_s=_rate(metrics, "tokens_predicted"),
        prefill_tokens_per_s=_rate(metrics, "prompt"),
        prefix_hit_rate=_share(metrics, "prompt_tokens_cached_total", "prompt_tokens_total"),
        draft_acceptance=_accepted(metrics),
    )


def _rate(metrics: Metrics, what: str) -> Fact[float]:
    """Tokens by seconds; the server counts the first token of each answer too, which costs no decode step."""
    tokens = f"{_PREFIX}{what if what.startswith('tokens') else f'{what}_tokens'}_total"
    if metrics.total(tokens).value_or(0.0) < ENOUGH_TOKENS:
        return not_found(f"{metrics.source} has counted too few {tokens}")
    return metrics.ratio(tokens, f"{_PREFIX}{what}_seconds_total", 0)


def _share(metrics: Metrics, part: str, rest: str) -> Fact[float]:
    """A part of all tokens; older builds don't count it."""
    mine, others = (metrics.total(f"{_PREFIX}{name}") for name in (part, rest))
    if isinstance(mine, Unknown) or mine.value + others.value_or(0.0) < ENOUGH_TOKENS:
        return not_found(f"{metrics.source} has counted too few {part}")
    return estimated(mine.value / (mine.value + others.value_or(0.0)), mine.source)


def _accepted(metrics: Metrics) -> Fact[float]:
    drafted, accepted = (f"{_PREFIX}spec_decode_num_{name}_tokens_total" for name in ("draft", "accepted"))
    fact = metrics.ratio(accepted, drafted, ENOUGH_TOKENS)
    return fact if fact.value_or(0.0) <= 1 else not_found(f"{metrics.source} has accepted more than was drafted")
