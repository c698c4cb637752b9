"""The speed of a busy server, without sending it anything to do: two looks at its slots, a moment apart."""

from typing import Any, NamedTuple

from unslow.facts.values import Fact, measured, not_found
from unslow.look.system import LookError, System

WINDOW_S = 2.0
OK = 200


class Decoding(NamedTuple):
    """A slot that generates: which task, and how many tokens so far."""

    task: int
    tokens: int


def observe(system: System, url: str, headers: dict[str, str]) -> Fact[float]:
    """Tokens per second of the one request that is being answered; unknown with none, or with several at once."""
    try:
        before, start = _look(system, url, headers), system.clock()
        system.sleep(WINDOW_S)
        after, end = _look(system, url, headers), system.clock()
    except LookError as error:
        return not_found(f"the slots could not be watched: {error.why}")
    return parse_speed(before, after, end - start, url)


def parse_speed(before: dict[int, Decoding], after: dict[int, Decoding], seconds: float, source: str) -> Fact[float]:
    """The speed between two looks."""
    moved = {s: after[s].tokens - d.tokens for s, d in before.items() if s in after and after[s].task == d.task}
    moved = {slot: tokens for slot, tokens in moved.items() if tokens > 0}
    if len(moved) != 1 or len(after) > 1 or seconds <= 0:
        several = "several requests share the server" if len(after) > 1 else "no request was being answered throughout"
        return not_found(f"{several}, so the speed of one can't be told")
    return measured(next(iter(moved.values())) / seconds, f"two looks at {source}/slots, {seconds:.1f} s apart")


def _look(system: System, url: str, headers: dict[str, str]) -> dict[int, Decoding]:
    answer = system.request("GET", f"{url}/slots", headers=headers)
    if answer.status != OK:
        raise LookError(f"/slots answered {answer.status}")
    return parse_slots(answer.json())


def parse_slots(slots: Any) -> dict[int, Decoding]:
    """The slots that are generating now."""
    busy = (
        [s for s in slots if isinstance(s, dict) and s.get("is_processing") is True] if isinstance(slots, list) else []
    )
    found = {s.get("id"): Decoding(s.get("id_task", -1), _decoded(s.get("next_token"))) for s in busy}
    return {slot: decoding for slot, decoding in found.items() if isinstance(slot, int)}


def _decoded(next_token: Any) -> int:
    """The count of generated tokens: a list of one in newer builds, the object itself in older ones."""
    first = next_token[0] if isinstance(next_token, list) and next_token else next_token
    count = first.get("n_decoded") if isinstance(first, dict) else None
    return count if isinstance(count, int) else 0
