"""Trials of several requests: many at the same time, and the turns of one conversation."""

from threading import Thread
from typing import Any, NamedTuple

import msgspec

from unslow.facts.merge import bound_facts
from unslow.facts.run import AtOnce, Run, Turn
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Fact, estimated_fact, failed_fact, measured_fact, not_found
from unslow.look.bench.completions import Progress
from unslow.look.bench.timing import ask
from unslow.look.bench.trials.single_requests import Asker, PromptLength, first_token_s
from unslow.look.requests import AskError, Plan, Question, Reply, Target
from unslow.look.system import LookError, System, convert_answer, unknown

USUAL_AT_ONCE, USUAL_AT_ONCE_IN_BATCHES = 4, 8
MOST_AT_ONCE = 64
PROMPT_TOKENS = 64  # At most, of the protocol's prompts
_FEWEST_TIMED = 4

TURNS = 3
MORE_TOKENS, ANSWER_TOKENS = 96, 24
FIRST_TURN = PromptLength("a conversation", fewest=192, most=1280)
"""Longer than the window of models in which some layers see the last tokens only, which is 1,024 at most as a rule."""
_RESERVED = 2 * TURNS * (MORE_TOKENS + ANSWER_TOKENS)
"""Of the context, for what comes after the first prompt; twice that, as an answer's text may take more tokens again."""
_TELLING_S, _TELLING_SHARE = 0.1, 1.0
"""What the first prompt must take beyond the shortest one for times to tell. Less is noise: an idle vLLM on an H200
reads 512 tokens in 19 ms as a rule and in 94 ms now and then, and launches take as long for 100 tokens as for 1,000."""


class AnsweredAtOnce(NamedTuple):
    """An answer, and when its request was sent."""

    start_s: float
    reply: Reply

    @property
    def last_s(self) -> float:
        return self.start_s + self.reply.arrivals_s[-1]

    @property
    def decode_s(self) -> float:
        """How long the tokens after the first took; the server knows even where a busy client reads them late."""
        told, arrivals = self.reply.server_decode_s, self.reply.arrivals_s
        return max(arrivals[-1] - arrivals[0] if told is None else told, 1e-6)

    def tokens_in(self, start_s: float, end_s: float) -> float:
        """Tokens after the first that came in a stretch of time, as evenly as they come."""
        within_s = min(self.last_s, end_s) - max(self.last_s - self.decode_s, start_s)
        return (self.reply.generated_tokens - 1) * max(0.0, within_s) / self.decode_s


class SaidTurn(NamedTuple):
    """A turn as it was answered: all tokens of its prompt, those of the reply's count, and the time."""

    whole: int
    computed: int
    first_s: float
    is_told: bool


def perform_at_once(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """One request alone, then several at the same time: what more users get, and what each of them waits for.

    On a llama-server each is sent to a slot of its own that holds no conversation. The answers come in any order, so
    that a recording holds only what was made of them.
    """
    usual = USUAL_AT_ONCE_IN_BATCHES if target.runtime.startswith(IN_BATCHES) else USUAL_AT_ONCE
    most = min(MOST_AT_ONCE, plan.at_once or len(plan.slots) or (usual if plan.slot is None else 1))
    if most < 2:  # noqa: PLR2004 (one is not several)
        return Run(at_once=not_found("only one slot is free of a conversation", "measure with --evict"))
    asker = Asker(system, target, plan)
    try:
        progress("sending a short prompt to see how many tokens fit the time", 0.0)
        asker.warm_up()
        # at worst they are answered one after the other, so that each may take its share of the time
        tokens = asker.tokens_in(min(plan.seconds_per_completion, plan.seconds / (most + 2)))
        asker.check_answers(most + 1, tokens)
        if asker.room() < (most if asker.is_shared else 1) * (tokens + PROMPT_TOKENS):
            return Run(at_once=not_found(f"the context has no room for {most} requests at once"))
        found = []
        for number, count in enumerate((1, most), 1):
            progress(f"{count} request{'s' if count > 1 else ''} at the same time, {tokens} tokens each", number / 3)
            found.append(_together(asker, count, tokens))
    except LookError as error:
        return Run(at_once=unknown(error))
    return bound_facts(Run(at_once=measured_fact(tuple(found), f"{most} requests at the same time at {target.url}")))


def _together(asker: Asker, count: int, tokens: int) -> AtOnce:
    slots = asker.plan.slots or (asker.plan.slot,)
    questions = [asker.question(asker.prompts.prompt(), tokens, slot=slots[n % len(slots)]) for n in range(count)]
    raw = asker.system.ask(f"at once {count}", lambda: _ask_all(asker.system.live(), asker.target, questions))
    return convert_answer(raw, AtOnce, "the recorded requests are not valid")


def _ask_all(system: System, target: Target, questions: list[Question]) -> Any:
    """Each question on a connection of its own; LookError where any is not answered. Ctrl-C waits for none."""
    answers: list[AnsweredAtOnce | AskError] = []

    def one(question: Question) -> None:
        start_s = system.clock()
        try:
            answers.append(AnsweredAtOnce(start_s, ask(system, target, question)))
        except AskError as error:
            answers.append(error)

    threads = [Thread(target=one, args=(question,), daemon=True) for question in questions]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise LookError(f"this machine can't start that many threads: {error}") from error
    for thread in threads:
        thread.join()
    return msgspec.to_builtins(at_once_of(answers))


def at_once_of(answers: list[AnsweredAtOnce | AskError]) -> AtOnce:
    """The speed of all together; LookError where one failed, or came in one piece."""
    whole = []
    for answer in answers:
        if isinstance(answer, AskError):
            raise LookError(f"of {len(answers)} requests at the same time, one failed: {answer.why}")
        if len(answer.reply.arrivals_s) < 2 or answer.reply.generated_tokens <= _FEWEST_TIMED:  # noqa: PLR2004
            raise LookError("the responses came in one piece, or ended too early to be timed")
        whole.append(answer)
    # While all were generating; from the first token to the last where they never all were, as in a queue
    starts_s, ends_s = [answer.last_s - answer.decode_s for answer in whole], [answer.last_s for answer in whole]
    start_s, end_s = max(starts_s), min(ends_s)
    if sum(answer.tokens_in(start_s, end_s) for answer in whole) < _FEWEST_TIMED * len(whole):
        start_s, end_s = min(starts_s), max(ends_s)
    tokens_per_s = sum(answer.tokens_in(start_s, end_s) for answer in whole) / (end_s - start_s)
    first_token_s = max(answer.reply.arrivals_s[0] for answer in whole)
    return AtOnce(requests=len(whole), tokens_per_s=tokens_per_s, first_token_s=first_token_s)


def perform_turns(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """A conversation of a few turns, with whatever prompt cache the server has: whether only what is new is computed.

    Each turn goes on from the text of the one before, the model's own answer in it, on the same slot, as a chat does.
    What was computed is what the server says, and where it does not say, what the time to the first token tells: the
    first turn, which no cache can know, shows what a token takes.
    """
    asker, said = Asker(system, target, plan), []
    try:
        progress("sending a short prompt", 0.0)
        asker.warm_up(always=True)
        asker.check_answers(TURNS, ANSWER_TOKENS)
        text = asker.prompts.prompt(asker.prompt_in(plan.seconds / 3, FIRST_TURN, _RESERVED))
        for number in range(1, TURNS + 1):
            progress(f"a conversation, turn {number} of {TURNS}", number / (TURNS + 1))
            reply = asker.ask(text, ANSWER_TOKENS, keep=True, cache_as_set=True)
            whole = reply.prompt_tokens + reply.cached_tokens
            if not whole:
                return Run(turns=failed_fact("the server does not count the tokens of its prompts"))
            # Whether "none was cached" is an answer of the server, or only silence; an old Ollama times no such prompt
            counts = target.runtime.endswith(("llama.cpp", "Ollama")) and reply.server_prefill_s is not None
            is_told = counts or reply.cached_tokens > 0
            said.append(SaidTurn(whole, reply.prompt_tokens, first_token_s(reply), is_told=is_told))
            if number < TURNS:
                text = f"{text}{reply.text}\n\n{asker.prompts.prompt(MORE_TOKENS)}"
        asker.leave(text, reply)
        return bound_facts(Run(turns=turns_of(asker, said)))
    except LookError as error:
        return Run(turns=unknown(error))


def turns_of(asker: Asker, said: list[SaidTurn]) -> Fact[tuple[Turn, ...]]:
    """The turns as the server counted them; where it kept silent of its cache, as their times tell."""
    is_told = any(one.is_told for one in said)
    computed = [one.computed for one in said] if is_told else timed_turns(said, asker.shortest_first_s or 0.0)
    turns, before = [], 0
    for (whole, _, first_s, _), count in zip(said, computed, strict=True):
        new = max(0, whole - before)
        turns.append(Turn(prompt_tokens=whole, new_tokens=new, computed_tokens=count, first_token_s=first_s))
        before = whole
    if is_told:
        return measured_fact(tuple(turns), f"counted by {asker.target.url}")
    return estimated_fact(tuple(turns), f"times to the first token, {asker.target.url}")


def timed_turns(said: list[SaidTurn], shortest_s: float) -> list[int]:
    """How many tokens the times make, by those of the first turn; LookError where that is too quick to tell."""
    took_s = said[0].first_s - shortest_s
    if took_s < max(_TELLING_S, _TELLING_SHARE * shortest_s):
        why = "the server does not count cached tokens, and is too fast to tell by time"
        raise LookError(why, how_to_get="start vLLM with --enable-prompt-tokens-details")
    per_token_s = took_s / said[0].whole
    return [max(0, min(one.whole, round((one.first_s - shortest_s) / per_token_s))) for one in said]
