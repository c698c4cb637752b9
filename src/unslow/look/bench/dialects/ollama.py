"""Ollama's `/api/generate`, on a model that is loaded already and with the context that it is loaded with.

A request for another context would load the model anew, and so would one without, where somebody else asked for more
than the default: the loaded one is named. `keep_alive` is left alone.
"""

from typing import Any

import msgspec

from unslow.facts.run import Completion
from unslow.facts.values import Count
from unslow.look.bench.guest import Plan, Target, Timed
from unslow.look.openai_api.server import Server
from unslow.look.openai_api.stream import parse_object
from unslow.look.system import LookError, System

CLOCK = "server timings"
LOADED_ANEW_S = 2.0  # a loaded model takes a few hundredths of a second to be found
_S_PER_NS = 1e-9


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:  # noqa: ARG001 (no slots)
    """One request for that many tokens; LookError rather than a request that would load the model."""
    server = target.server(system)
    _check_loaded(server, target.model)
    options = {"num_predict": tokens} | ({"num_ctx": target.context} if target.context else {})
    body = {"model": target.model, "prompt": prompt, "raw": True, "stream": True, "options": options}
    first = last = 0.0
    final: dict[str, Any] = {}
    for line in server.stream("/api/generate", body):
        if not line.text.strip():
            continue
        event = parse_object(line.text)
        first, last = first or line.seconds, line.seconds
        final = event if event.get("done") is True else final
    return Timed(parse_final(final, first, last), CLOCK)


def _check_loaded(server: Server, model: str) -> None:
    answer = server.json("/api/ps")
    models = answer.get("models") if isinstance(answer, dict) else None
    named = [m for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    if not any(model in (m.get("name"), m.get("model")) for m in named):
        raise LookError(f"{model} is no longer loaded, and a measurement must not load it")


class _Final(msgspec.Struct):
    """The last event of a stream; durations are in nanoseconds."""

    eval_count: Count
    eval_duration: Count
    prompt_eval_count: Count = 0
    prompt_eval_duration: Count = 0
    load_duration: Count = 0


def parse_final(final: dict[str, Any], first_s: float, total_s: float) -> Completion:
    """A completion from the last event; LookError where the model had to be loaded for it."""
    try:
        times = msgspec.convert(final, _Final)
    except msgspec.ValidationError as error:
        raise LookError("the answer ended without the server's timings: did it break off?") from error
    if times.load_duration * _S_PER_NS > LOADED_ANEW_S:
        raise LookError("the model was loaded anew for this request, so no more are sent: its options are others'")
    if not times.eval_count or not times.eval_duration:
        raise LookError("the server generated nothing")
    return Completion(
        prompt_tokens=times.prompt_eval_count,
        generated_tokens=times.eval_count,
        prefill_s=times.prompt_eval_duration * _S_PER_NS,
        decode_s=times.eval_duration * _S_PER_NS,
        client_first_token_s=first_s,
        client_total_s=total_s,
    )
