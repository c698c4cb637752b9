"""The speeds of one answer: the same meaning whoever timed it."""

from unslow.facts.bench import Pass

FEWEST_TOKENS = 8
"""Fewer steps than these time the start and the end of an answer rather than its tokens."""
SHORTEST_PROMPT = 64
"""A shorter prompt times the overhead of a request rather than reading."""
SHORTEST_CLIENT_PROMPT = 256
"""The same where only the client's clock tells, which holds the way there and the first step too."""
FASTEST = 1e9
"""Tokens per second that no machine reaches: whoever tells more is not believed."""
FASTEST_STREAM = 20_000
"""Tokens per second that no step for one user reaches: what comes faster waited together in a buffer on the way."""


def decode_rate(done: Pass) -> float | None:
    """Tokens after the first over the time since it: by the server's clock where it tells, else by the client's."""
    if done.server_decode_s is None:
        return client_decode_rate(done)
    return _rate(done.generated_tokens - 1, done.server_decode_s)


def client_decode_rate(done: Pass) -> float | None:
    """The same by the client's clock, from the first piece of the stream to the last; None where all came at once."""
    rate = _rate(_tokens_after_first_piece(done), done.client_last_token_s - done.client_first_token_s)
    return rate if rate is not None and rate <= FASTEST_STREAM else None


def prefill_rate(done: Pass) -> float | None:
    """Prompt tokens that were computed over the time it took; None where the prompt is too short to tell."""
    if done.server_prefill_s is not None:
        return _rate(done.prompt_tokens, done.server_prefill_s) if done.prompt_tokens >= SHORTEST_PROMPT else None
    if done.prompt_tokens < SHORTEST_CLIENT_PROMPT:
        return None
    return _rate(done.prompt_tokens, done.client_first_token_s - waited_before_s(done))


def waited_before_s(done: Pass) -> float:
    """What the server says passed before it began to read."""
    return (done.server_load_s or 0.0) + (done.server_queue_s or 0.0)


def _tokens_after_first_piece(done: Pass) -> float:
    """All but one; where a piece holds several tokens, all but those of the first piece."""
    pieces = done.gaps.count + 1 if done.gaps else 1
    return done.generated_tokens - max(1.0, done.generated_tokens / pieces)


def _rate(tokens: float, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > tokens / FASTEST else None
