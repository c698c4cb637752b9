"""One short completion, timed token by token on the server's own clock, with a limit after which it is given up."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from unslow.facts.values import Amount, Count
from unslow.look.system import LookError, System

COLD_TOKENS = 1
"""The first token finds caches that other models have filled, and threads that sleep."""
_DATA = "data: "


class _Timings(msgspec.Struct):
    """What llama-server knows so far; it counts the first token as part of the prompt."""

    prompt_n: Count
    prompt_ms: Amount
    predicted_n: Count
    predicted_ms: Amount


class Sample(NamedTuple):
    """The time of each token after the first, and that of the prompt."""

    steps_s: tuple[float, ...]
    prompt_tokens: int
    prefill_s: float


def read_sample(system: System, url: str, prompt: str, tokens: int, limit_s: float) -> Sample:
    """Ask for so many tokens; LookError where they take longer than the limit."""
    body = {
        "prompt": prompt,
        "n_predict": tokens,
        "stream": True,
        "timings_per_token": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    lines = system.stream(f"{url}/completion", body, timeout_s=limit_s)
    return parse_sample(line.text for line in lines)


def parse_sample(lines: Iterable[str]) -> Sample:
    """The sample in a streamed answer."""
    seen = [_timings(line.removeprefix(_DATA)) for line in lines if line.startswith(_DATA)]
    timings = [timing for timing in seen if timing]
    if not timings:
        raise LookError("the answer has no timings")
    return Sample(tuple(_steps(timings)), timings[-1].prompt_n, timings[-1].prompt_ms / 1e3)


def _timings(text: str) -> _Timings | None:
    """The timings of one event; None for an event without them."""
    try:
        event: Any = msgspec.json.decode(text)
        if isinstance(event, dict) and "error" in event:
            raise LookError(f"the server answered with an error: {str(event['error'])[:200]}")
        return msgspec.convert(event["timings"], _Timings) if isinstance(event, dict) and "timings" in event else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that can't be read: {text[:60]!r}") from error


def _steps(timings: Sequence[_Timings]) -> Iterator[float]:
    """Seconds for a token between two events; some events tell of several tokens."""
    for before, after in pairwise(timings):
        tokens = after.predicted_n - before.predicted_n
        if before.predicted_n >= COLD_TOKENS and tokens > 0 and after.predicted_ms > before.predicted_ms:
            yield (after.predicted_ms - before.predicted_ms) / 1e3 / tokens
