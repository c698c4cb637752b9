"""The speed of a busy server, without sending it anything to do: two looks at what it counts, a moment apart."""

from typing import Any, NamedTuple

from unslow.facts.values import Fact, measured, not_found


class Decoding(NamedTuple):
    """A slot that generates: which task, and how many tokens so far."""

    task: int
    tokens: int


class Counted(NamedTuple):
    """What a server with counters says: tokens so far, and requests in work."""

    tokens: float
    running: float


def parse_speed(before: dict[int, Decoding], after: dict[int, Decoding], seconds: float, source: str) -> Fact[float]:
    """The speed between two looks at slots."""
    # with no token at the first look, its prompt was still being read
    kept = {s: d.tokens for s, d in before.items() if d.tokens and s in after and after[s].task == d.task}
    moved = {s: after[s].tokens - tokens for s, tokens in kept.items()}
    moved = {slot: tokens for slot, tokens in moved.items() if tokens > 0}
    if len(moved) != 1 or len(after) > 1 or seconds <= 0:
        return _not_one(several=len(after) > 1)
    return _speed(next(iter(moved.values())), seconds, source)


def parse_counted_speed(before: Counted, after: Counted, seconds: float, source: str) -> Fact[float]:
    """The speed between two looks at counters."""
    tokens = after.tokens - before.tokens
    if (before.running, after.running) != (1, 1) or tokens <= 0 or seconds <= 0:
        return _not_one(several=max(before.running, after.running) > 1)
    return _speed(tokens, seconds, source)


def _not_one(*, several: bool) -> Fact[float]:
    why = "several requests share the server" if several else "no request was being answered throughout"
    return not_found(f"{why}, so the speed of one can't be told")


def _speed(tokens: float, seconds: float, source: str) -> Fact[float]:
    return measured(tokens / seconds, f"two looks at {source}, {seconds:.1f} s apart")


def parse_slots(slots: Any) -> dict[int, Decoding]:
    """The slots that are generating now."""
    busy = (
        [s for s in slots if isinstance(s, dict) and s.get("is_processing") is True] if isinstance(slots, list) else []
    )
    numbered = [s for s in busy if isinstance(s.get("id"), int)]
    return {s["id"]: Decoding(s.get("id_task", -1), decoded_tokens(s)) for s in numbered}


def decoded_tokens(slot: dict[str, Any]) -> int:
    """The count of generated tokens: in a list of one in newer builds, in the object itself in older ones."""
    next_token = slot.get("next_token")
    first = next_token[0] if isinstance(next_token, list) and next_token else next_token
    count = first.get("n_decoded") if isinstance(first, dict) else None
    return count if isinstance(count, int) else 0
