"""llama-server's own `/completion`: any slot, no cached prompt, no early end, and the server's timings."""

from typing import Any

import msgspec

from unslow.facts.run import Completion
from unslow.facts.values import Amount, Count
from unslow.look.bench.guest import Plan, Target, Timed
from unslow.look.openai_api.stream import parse_event
from unslow.look.system import LookError, System

CLOCK = "server timings"


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
    """One request for that many tokens, timed by the server and by this clock."""
    body: dict[str, Any] = {
        "prompt": prompt,
        "n_predict": tokens,
        "stream": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    if target.model:
        body["model"] = target.model  # a router wants it, a server alone does not mind
    if plan.slot is not None:
        body["id_slot"] = plan.slot
    first = last = 0.0
    timings: Any = None
    for line in target.server(system).stream("/completion", body):
        event = parse_event(line.text)
        if event is not None:
            first, last = first or line.seconds, line.seconds
            timings = event.get("timings", timings)
    return Timed(parse_timings(timings, first, last), CLOCK)


class _Timings(msgspec.Struct):
    """The `timings` object of llama-server."""

    prompt_n: Count
    prompt_ms: Amount
    predicted_n: Count
    predicted_ms: Amount
    cache_n: Count = 0


def parse_timings(timings: Any, first_s: float, total_s: float) -> Completion:
    """A completion from the server's last event; llama-server times the n tokens of an answer over n - 1 steps."""
    try:
        times = msgspec.convert(timings, _Timings)
    except msgspec.ValidationError as error:
        raise LookError("the answer ended without the server's timings: did it break off?") from error
    if not times.predicted_n or not times.predicted_ms:
        raise LookError("the server generated nothing")
    return Completion(
        prompt_tokens=times.prompt_n,
        cached_tokens=times.cache_n,
        generated_tokens=times.predicted_n,
        prefill_s=times.prompt_ms / 1000,
        decode_s=times.predicted_ms / 1000,
        client_first_token_s=first_s,
        client_total_s=total_s,
    )
