"""One request of a benchmark, in the words of whatever runtime answers: asked, scored, timed."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

from unslow.facts.bench import FailureKind
from unslow.facts.run import Completion
from unslow.facts.values import Absence
from unslow.facts.verification import Scored
from unslow.look.observer import ObservedAnswer, current_observer
from unslow.look.requests import AskError, PartialAnswer, Plan, Question, Reply, ScoredText, Target, Timed
from unslow.look.runtimes import looker_of, openai_compatible
from unslow.look.system import SILENCE_S, STREAM_TIMEOUT_S, ExchangeError, LookError, System, read_text, try_look
from unslow.look.system.live import was_closed

Dialect = Callable[[System, Target, Question, PartialAnswer], Reply]
"""A runtime's `ask`: sends it, fills what was heard as the answer comes; LookError where the server can't or won't."""
_Scorer = Callable[[System, Target, ScoredText], Scored]

_ENDED = re.compile(r"\) [ZXx] ")
"""The state of a process of which only its number is left, as /proc/PID/stat has it after the name."""

LEAST_PAUSE_S = 0.5  # A pause that everybody sees
LEAST_TOKENS = 16  # Times a token's own time: more than any step of speculative decoding gives at once
FEWEST_AT_ONCE, AT_ONCE = 8, 0.1  # Pieces that follow within this share of the pause

_FEWEST_TIMED, _SHORTEST_PROMPT = 8, 64
"""Tokens of an answer and of a prompt: fewer time the start of a request rather than its tokens."""
_FEWEST_CUT = 4  # Tokens of an answer that was cut off: fewer tell no speed


def ask(system: System, target: Target, question: Question) -> Reply:
    """Ask, and wait for the whole answer; AskError, and nothing else, where it does not come."""
    heard = PartialAnswer()
    try:
        return dialect_of(target.runtime)(system, target, question, heard)
    except LookError as error:
        pieces = len(heard.arrivals)
        kind: FailureKind = "error"
        if isinstance(error, ExchangeError):
            silent: FailureKind = "stalled" if pieces else "not_answered"
            kind = silent if error.kind == "silent" else error.kind
        if kind in ("refused", "broke_off") and is_gone(system, target.pid):
            kind = "gone"
        raise AskError(kind, error.why, pieces, error.how_to_get, arrivals_s=heard.arrivals) from error


def is_gone(system: System, pid: int | None) -> bool:
    """Whether the process has ended; False where that can't be told, as without /proc."""
    if pid is None:
        return False
    try:
        return bool(_ENDED.search(read_text(system, f"/proc/{pid}/stat")))
    except LookError as error:
        return error.absence is Absence.NOT_FOUND and bool(try_look(b"", system.read_bytes, "/proc/self/stat"))


def dialect_of(runtime: str) -> Dialect:
    """The dialect of a runtime by its name; what has none of its own speaks OpenAI's."""
    return cast("Dialect", getattr(looker_of(runtime), "ask", openai_compatible.ask))


def score(system: System, target: Target, text: ScoredText) -> Scored:
    """Ask; LookError where the runtime gives no probabilities of a given text, or the answer holds none."""
    scorer = cast("_Scorer | None", getattr(looker_of(target.runtime), "score", None))
    if scorer is None:
        raise LookError(f"{target.runtime} gives no probabilities of a text that it is given", Absence.NOT_SUPPORTED)
    return scorer(system, target, text)


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
    """One request for that many tokens, in the words of the server's runtime; LookError where none can be timed."""
    reply = ask(system, target, Question(prompt, tokens, plan.slot, silence_s=SILENCE_S, deadline_s=STREAM_TIMEOUT_S))
    done = completion_of(reply)
    if watcher := current_observer():
        watcher.answered(answer_of(done))
    return Timed(done, reply.clock, reply.server_prefill_s is not None, reply.thinking_tokens)


def as_far_as_it_came(system: System, target: Target, plan: Plan, wanted: tuple[str, int]) -> tuple[Timed, bool]:
    """A completion, and whether it is whole: one that the end of the time cut off is as good as what came of it."""
    try:
        return complete(system, target, plan, *wanted), True
    except LookError as error:
        arrivals = error.arrivals_s if isinstance(error, AskError) and was_closed(error) else ()
        if len(arrivals) < _FEWEST_CUT or not target.runtime.endswith("llama.cpp") or arrivals[-1] <= arrivals[0]:
            raise  # elsewhere a piece is not one token
        completion = Completion(
            prompt_tokens=0,
            generated_tokens=len(arrivals),
            prefill_s=arrivals[0],
            decode_s=arrivals[-1] - arrivals[0],
            client_first_token_s=arrivals[0],
            client_total_s=arrivals[-1],
        )
        return Timed(completion, "client clock, of an answer that was cut short", prompt_timed=False), False


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


def answer_of(done: Completion) -> ObservedAnswer:
    """A completion as whoever watches is told of it."""
    read = done.prompt_tokens - done.cached_tokens
    return ObservedAnswer(
        case="diagnosis",
        prompt_tokens=read,
        generated_tokens=done.generated_tokens,
        decode_tokens_per_s=decode_rate(done) if done.generated_tokens >= _FEWEST_TIMED else None,
        prefill_tokens_per_s=read / done.prefill_s if read >= _SHORTEST_PROMPT and done.prefill_s > 0 else None,
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def held_back_s(arrivals_s: Sequence[float], token_s: float) -> float:
    """Seconds of pauses after which many pieces come at once, as somebody between the server and here held them back.

    Given are when each piece came, and what a token takes on average. A server that pauses goes on where it was, one
    token after the other. Steps that give several tokens at once, by drafts or by a scheduler that plans ahead, give a
    handful; a proxy collects kilobytes.
    """
    least, held_s = max(LEAST_PAUSE_S, LEAST_TOKENS * token_s), 0.0
    for number, (earlier, later) in enumerate(pairwise(arrivals_s), 1):
        if (pause_s := later - earlier) >= least:
            after = arrivals_s[number : number + FEWEST_AT_ONCE]  # or all that were left
            held_s += pause_s if len(after) > 1 and after[-1] - after[0] <= AT_ONCE * pause_s else 0.0
    return held_s
