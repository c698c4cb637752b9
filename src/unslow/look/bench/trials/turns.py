"""A conversation of a few turns, with whatever prompt cache the server is set up with: is only what is new computed.

Each turn goes on from the text of the one before, the model's own answer in it, on the same slot, as a chat does. What
was computed is what the server says, and where it does not say, what the time to the first token tells: the first turn,
which no cache can know, shows what a token takes.
"""

from typing import NamedTuple

from unslow.facts.bounded import bounded
from unslow.facts.run import Run, Turn
from unslow.facts.values import Fact, estimated, measured
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Reply, Target
from unslow.look.bench.trials._asker import Asker, Wanted, first_token_s
from unslow.look.system import LookError, System, unknown

TURNS = 3
MORE_TOKENS, ANSWER_TOKENS = 96, 24
FIRST = Wanted("a conversation", fewest=192, most=1280)
"""Longer than the window of models in which some layers see the last tokens only, which is 1,024 at most as a rule."""
_RESERVED = 2 * TURNS * (MORE_TOKENS + ANSWER_TOKENS)
"""Of the context, for what comes after the first prompt; twice that, as an answer's text may take more tokens again."""
_TELLING_S, _TELLING_SHARE = 0.1, 1.0
"""What the first prompt must take beyond the shortest one for times to tell. Less is noise: an idle vLLM on an H200
reads 512 tokens in 19 ms as a rule and in 94 ms now and then, and launches take as long for 100 tokens as for 1,000."""


class Said(NamedTuple):
    """A turn as it was answered: all tokens of its prompt, those of the reply's count, and the time."""

    whole: int
    computed: int
    first_s: float
    is_told: bool


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The turns."""
    asker = Asker(system, target, plan)
    try:
        return bounded(Run(turns=turns_of(asker, _talk(asker, progress))))
    except LookError as error:
        return Run(turns=unknown(error))


def _talk(asker: Asker, progress: Progress) -> list[Said]:
    progress("asking a short question", 0.0)
    asker.short()
    asker.check_answers(TURNS, ANSWER_TOKENS)
    first = asker.prompt_in(asker.plan.seconds / 3, FIRST, _RESERVED)
    said, text = [], asker.prompts.prompt(first)
    for number in range(1, TURNS + 1):
        progress(f"a conversation, turn {number} of {TURNS}", number / (TURNS + 1))
        reply = asker.ask(text, ANSWER_TOKENS, keep=True, cache_as_set=True)
        said.append(_said(asker.target, reply))
        if number < TURNS:
            text = f"{text}{reply.text}\n\n{asker.prompts.prompt(MORE_TOKENS)}"
    asker.leave(text, reply)
    return said


def _said(target: Target, reply: Reply) -> Said:
    whole = reply.prompt_tokens + reply.cached_tokens
    if not whole:
        raise LookError("the server does not count the tokens of its prompts")
    return Said(whole, reply.prompt_tokens, first_token_s(reply), is_told=_tells(target, reply))


def _tells(target: Target, reply: Reply) -> bool:
    """Whether "none was cached" is an answer of the server, or only silence; an old Ollama times no such prompt."""
    counts = target.runtime.endswith(("llama.cpp", "Ollama")) and reply.server_prefill_s is not None
    return counts or reply.cached_tokens > 0


def turns_of(asker: Asker, said: list[Said]) -> Fact[tuple[Turn, ...]]:
    """The turns as the server counted them; where it kept silent of its cache, as their times tell."""
    url = asker.target.url
    if any(one.is_told for one in said):
        return measured(_all(said, [one.computed for one in said]), f"counted by {url}")
    return estimated(_all(said, timed(said, asker.shortest_first_s or 0.0)), f"times to the first token, {url}")


def timed(said: list[Said], shortest_s: float) -> list[int]:
    """How many tokens the times make, by those of the first turn; LookError where that is too quick to tell."""
    took_s = said[0].first_s - shortest_s
    if took_s < max(_TELLING_S, _TELLING_SHARE * shortest_s):
        why = "the server does not count what its cache knew, and is too fast for the time to tell"
        raise LookError(why, how_to_get="start vLLM with --enable-prompt-tokens-details")
    per_token_s = took_s / said[0].whole
    return [max(0, min(one.whole, round((one.first_s - shortest_s) / per_token_s))) for one in said]


def _all(said: list[Said], computed: list[int]) -> tuple[Turn, ...]:
    before = [0, *(one.whole for one in said)]
    return tuple(
        Turn(
            prompt_tokens=one.whole, new_tokens=max(0, one.whole - known), computed_tokens=n, first_token_s=one.first_s
        )
        for one, known, n in zip(said, before, computed, strict=False)
    )
