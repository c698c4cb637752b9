"""Times that some servers add to OpenAI's interface: `timings` by whatever wraps llama.cpp, `metrics` by vLLM.

vLLM gives `metrics` where it was started with --enable-per-request-metrics: the time to the first token begins when the
request leaves the queue, and generating begins with the first token, so that n tokens are n - 1 steps.
"""

from typing import Any, NamedTuple

import msgspec

from unslow.facts.values import Amount
from unslow.look.bench.dialects.llama_cpp import Timings


class Extras(NamedTuple):
    """What is known of the server's own times and counts."""

    prefill_s: float | None = None
    decode_s: float | None = None
    queue_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None


class _Metrics(msgspec.Struct):
    """The `metrics` object of vLLM."""

    time_to_first_token_ms: Amount | None = None
    generation_time_ms: Amount | None = None
    queue_time_ms: Amount | None = None


def parse_extras(event: dict[str, Any]) -> Extras | None:
    """The times in an event; None where there are none, or none that can be."""
    try:
        if "timings" in event:
            return _from_timings(msgspec.convert(event["timings"], Timings))
        if "metrics" in event:
            return _from_metrics(msgspec.convert(event["metrics"], _Metrics))
    except msgspec.ValidationError:
        return None
    return None


def _from_timings(times: Timings) -> Extras:
    return Extras(
        prefill_s=times.prompt_ms / 1000,
        decode_s=times.predicted_ms / 1000,
        prompt_tokens=times.prompt_n,
        cached_tokens=times.cache_n,
        generated_tokens=times.predicted_n,
    )


def _from_metrics(times: _Metrics) -> Extras:
    return Extras(
        prefill_s=_seconds(times.time_to_first_token_ms),
        decode_s=_seconds(times.generation_time_ms),
        queue_s=_seconds(times.queue_time_ms),
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
