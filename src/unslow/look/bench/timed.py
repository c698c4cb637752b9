"""One answer and how long it took, by the server's clock where it tells, else by the client's."""

from unslow.facts.run import Completion
from unslow.look.bench.asking import ask
from unslow.look.bench.bursts import held_back_s
from unslow.look.bench.guest import AskError, Plan, Question, Reply, Target, Timed
from unslow.look.observed import Answer, observer
from unslow.look.system import LookError, System
from unslow.look.system.closing import was_closed
from unslow.look.system.door import SILENCE_S, STREAM_TIMEOUT_S

_FEWEST_TIMED, _SHORTEST_PROMPT = 8, 64
"""Tokens of an answer and of a prompt: fewer time the start of a request rather than its tokens."""
_FEWEST_CUT = 4
"""Tokens of an answer that was cut off: fewer tell no speed."""


def as_far_as_it_came(system: System, target: Target, plan: Plan, wanted: tuple[str, int]) -> tuple[Timed, bool]:
    """A completion, and whether it is whole: one that the end of the time cut off is as good as what came of it."""
    try:
        return complete(system, target, plan, *wanted), True
    except LookError as error:
        cut = _cut_short(target, error) if was_closed(error) else None
        if cut is None:
            raise
        return cut, False


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
    """One request for that many tokens, in the words of the server's runtime; LookError where none can be timed."""
    reply = ask(system, target, Question(prompt, tokens, plan.slot, silence_s=SILENCE_S, deadline_s=STREAM_TIMEOUT_S))
    done = completion_of(reply)
    if watcher := observer():
        watcher.answered(answer_of(done))
    return Timed(done, reply.clock, reply.server_prefill_s is not None, reply.thinking_tokens)


def answer_of(done: Completion) -> Answer:
    """A completion as whoever watches is told of it."""
    read = done.prompt_tokens - done.cached_tokens
    return Answer(
        case="diagnosis",
        prompt_tokens=read,
        generated_tokens=done.generated_tokens,
        decode_tokens_per_s=decode_rate(done) if done.generated_tokens >= _FEWEST_TIMED else None,
        prefill_tokens_per_s=read / done.prefill_s if read >= _SHORTEST_PROMPT and done.prefill_s > 0 else None,
        first_token_s=done.client_first_token_s,
    )


def completion_of(reply: Reply) -> Completion:
    """The reply by the server's clock, else by the client's; LookError where it came in one piece."""
    first_s, last_s = (reply.arrivals_s[0], reply.arrivals_s[-1]) if reply.arrivals_s else (reply.total_s,) * 2
    decode_s = reply.server_decode_s if reply.server_decode_s is not None else last_s - first_s
    if decode_s <= 0 or (reply.server_decode_s is None and reply.generated_tokens < 2):  # noqa: PLR2004 (a step has two ends)
        raise LookError("the answer came in one piece, so its speed can't be told", how_to_get="is a proxy in between?")
    return Completion(
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        generated_tokens=reply.generated_tokens,
        prefill_s=reply.server_prefill_s if reply.server_prefill_s is not None else first_s,
        decode_s=decode_s,
        client_first_token_s=first_s,
        client_total_s=reply.total_s,
        held_back_s=held_back_s(reply.arrivals_s, decode_s / max(1, reply.generated_tokens)),
        drafted_tokens=reply.drafted_tokens,
        accepted_tokens=reply.accepted_tokens,
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def _cut_short(target: Target, error: LookError) -> Timed | None:
    """What came of an answer before the time was up, by the client's clock; None where that is too little to time."""
    arrivals = error.arrivals_s if isinstance(error, AskError) else ()
    if len(arrivals) < _FEWEST_CUT or not target.runtime.endswith("llama.cpp") or arrivals[-1] <= arrivals[0]:
        return None  # elsewhere a piece is not one token
    completion = Completion(
        prompt_tokens=0,
        generated_tokens=len(arrivals),
        prefill_s=arrivals[0],
        decode_s=arrivals[-1] - arrivals[0],
        client_first_token_s=arrivals[0],
        client_total_s=arrivals[-1],
    )
    return Timed(completion, "client clock, of an answer that was cut short", prompt_timed=False)
