"""OpenAI's interface, which has no timings: the client's clock has to do.

The first token ends the wait for the prompt, the queue and the way there; n tokens arrive in n - 1 steps after it.
"""

import re
from typing import Any

from unslow.facts.run import Completion
from unslow.look.bench.guest import Plan, Target, Timed
from unslow.look.openai_api.stream import Streamed, parse_stream
from unslow.look.system import LookError, System

CLOCK, CLOCK_AND_CHUNKS = "client clock", "client clock, one token for each piece of the stream"
_TEXT, _CHAT = "/v1/completions", "/v1/chat/completions"
_CHAT_FIRST = ("LM Studio", "TGI", "Transformers", "OpenAI")
_RUNS_ON = ("vLLM", "SGLang")  # these know `ignore_eos`; others may refuse what they don't know
_NOT_THERE = re.compile(r"answered (?:400|404|405|422|501)\b")


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:  # noqa: ARG001 (no slots)
    """One request for that many tokens, at whichever of the two addresses the server has."""
    first, second = (_CHAT, _TEXT) if target.runtime.startswith(_CHAT_FIRST) else (_TEXT, _CHAT)
    try:
        return _complete(system, target, first, prompt, tokens)
    except LookError as error:
        if not _NOT_THERE.search(error.why):
            raise
    return _complete(system, target, second, prompt, tokens)


def _complete(system: System, target: Target, path: str, prompt: str, tokens: int) -> Timed:
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body |= {"prompt": prompt} if path == _TEXT else {"messages": [{"role": "user", "content": prompt}]}
    if target.runtime.startswith(_RUNS_ON):
        body["ignore_eos"] = True
    streamed = parse_stream(target.server(system).stream(path, body))
    clock = CLOCK if streamed.generated_tokens else CLOCK_AND_CHUNKS
    return Timed(completion_of(streamed), clock, prompt_timed=False)


def completion_of(streamed: Streamed) -> Completion:
    """A completion by the client's clock; LookError where the stream came in one piece."""
    generated = streamed.generated_tokens or streamed.chunks
    seconds = streamed.last_s - streamed.first_s
    if seconds <= 0 or generated < 2:  # noqa: PLR2004 (one step needs two tokens)
        raise LookError("the answer came in one piece, so its speed can't be told", how_to_get="is a proxy in between?")
    prompt = max(0, (streamed.prompt_tokens or 0) - streamed.cached_tokens)
    return Completion(
        prompt_tokens=prompt,
        cached_tokens=streamed.cached_tokens,
        generated_tokens=generated,
        prefill_s=streamed.first_s,
        decode_s=seconds,
        client_first_token_s=streamed.first_s,
        client_total_s=streamed.last_s,
    )
