"""Trials of one request at a time: the usual speed, a deep context, a long prompt, no samplers."""

from contextlib import suppress
from typing import Any, NamedTuple

from unslow.facts.merge import bound_facts
from unslow.facts.run import AtDepth, LongPrompt, Run, TrialInTurns
from unslow.facts.values import Absence, failed_fact, measured_fact
from unslow.look.bench.completions import FEWEST_TOKENS, Progress, Repeats, measure
from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import WARM_UP_TOKENS, ask, completion_of, decode_rate
from unslow.look.requests import Plan, Question, Reply, Target
from unslow.look.server_answers import count_fact, objects_at
from unslow.look.system import LookError, System, try_look, unknown

UNKNOWN_CONTEXT = 2048  # The smallest that a runtime has without being told: Ollama's, once
MARGIN = 0.95  # Of the context: where there is no tokenizer to ask, the length of a prompt is a few percent off
_PATIENCE_S = 10.0
_FAR_TOO_LONG = 2.0
_LEFT_TOKENS = 512  # As many as the usual measurement leaves
_KEPT = 0.65  # Of a prompt, so that more than half of it and of its answer stays
_USUAL_TOKENS = 128
_FEWEST_TIMED = 8  # with fewer, a single late token makes a tenth of the speed

REPEATS = Repeats(fewest=2, most=5, apart=0.02)
"""Two are enough on a quiet machine, where repeats differ by less than 1 %; five, and the median leaves out two."""

QUICK_S = 3.0
ENOUGH_TOKENS, ALL_BUT = 512, 0.8
"""One such prompt tells more than two that are shorter: for it a slow server gets nearly all of the time."""

WITHOUT, COLD = "greedy, without samplers", "greedy, at temperature 0"
_CAN_GO_WITHOUT = ("llama.cpp", "Ollama")
_IN_TURNS = (False, True, True, False)  # Whether it is asked without samplers
_MOST_TOKENS = 256


class PromptLength(NamedTuple):
    """A length of prompt that would be good to have, and what it is for."""

    what: str
    fewest: int
    most: int


DEEP_PROMPT = PromptLength("a deep prompt", fewest=1024, most=8192)
"""Shallower, the cache is too small a part of what is read for each token to show."""

LONG_PROMPT = PromptLength("a long prompt", fewest=96, most=2048)
"""Four micro-batches of llama.cpp's 512, one chunk of vLLM's 2,048; below 96 it is no longer than the usual prompt."""


class Asker:
    """Asks one question after the other; LookError, and nothing else, where an answer does not come."""

    def __init__(self, system: System, target: Target, plan: Plan) -> None:
        self.system, self.target, self.plan = system, target, plan
        self.prompts = Prompts(system, target)
        self.spent_s = 0.0
        """In requests so far, by the client's clock."""
        self._patience_s = _PATIENCE_S + 2 * plan.seconds
        self._decode, self._prefill = plan.decode_tokens_per_s, plan.prefill_tokens_per_s
        self.shortest_first_s: float | None = None
        """Until the first token of the shortest question, where one was asked."""

    def ask(self, prompt: str, tokens: int, **changes: Any) -> Reply:
        """The answer to this prompt, on the slot of the plan."""
        reply = ask(self.system, self.target, self.question(prompt, tokens, alone=True, **changes))
        self.prompts.learn(len(prompt.split()), reply.prompt_tokens + reply.cached_tokens)
        self.spent_s += reply.total_s
        return reply

    def question(self, prompt: str, tokens: int, **changes: Any) -> Question:
        """The question as the plan wants it, with a limit to the patience."""
        wanted: dict[str, Any] = {"slot": self.plan.slot, "silence_s": self._patience_s, "deadline_s": self._patience_s}
        return Question(prompt, tokens, **(wanted | changes))

    def warm_up(self, *, always: bool = False) -> None:
        """A short question, unless what it would tell is known: how fast the server is, how long a word."""
        if self._decode and self._prefill and not always:
            return
        reply = self.ask(self.prompts.prompt(), WARM_UP_TOKENS)
        self.shortest_first_s = first_token_s(reply)
        with suppress(LookError):  # one that came in one piece
            self._decode = self._decode or rate_of(reply, least=2)
        self._prefill = self._prefill or reply.prompt_tokens / max(prefill_s(reply), 1e-6)

    def tokens_in(self, seconds: float, most: int = _USUAL_TOKENS) -> int:
        """Tokens of an answer that fit into so much time, within bounds."""
        return max(FEWEST_TOKENS, min(most, int((self._decode or 0.0) * seconds)))

    def prompt_in(self, seconds: float, wanted: PromptLength, answer: int) -> int:
        """Tokens of a prompt that fit into so much time, and with its answer into the context; LookError if too few."""
        room, fitting = int(self.room() * MARGIN) - answer, int((self._prefill or 0.0) * seconds)
        if room < wanted.fewest:
            why = f"the context has no room for {wanted.what}: {max(0, room)} tokens are left"
            raise LookError(why, Absence.NOT_FOUND, "give the server a larger context")
        if fitting < wanted.fewest:
            raise too_slow(wanted.what, wanted.fewest / max(self._prefill or 0.0, 1e-3))
        return min(wanted.most, room, fitting)

    def check_answers(self, answers: int, tokens: int) -> None:
        """LookError where these responses would take far longer than the trial should."""
        seconds = answers * tokens / max(self._decode or 0.0, 1e-3)
        if seconds > _FAR_TOO_LONG * self.plan.seconds:
            raise too_slow(f"{answers} responses of {tokens} tokens", seconds)

    def room(self) -> int:
        """Tokens for a prompt and its answer that push out nothing of anybody else's."""
        context = self.plan.context or self.target.context or 0
        if not self.target.runtime.endswith("llama.cpp"):
            return context or UNKNOWN_CONTEXT
        # The context of a slot, and what the other slots hold; zeros where it does not tell
        slots = objects_at({"slots": try_look(None, self.target.server(self.system).json, "/slots")}, "slots")
        others = [slot for slot in slots if slot.get("id") not in (self.plan.slot, *self.plan.slots)]
        own = max((count_fact(slot, "", "n_ctx").value_or(0) for slot in slots), default=0)
        held = sum(count_fact(slot, "", "n_prompt_tokens").value_or(0) for slot in others)
        context = min(context or own, own or context) or UNKNOWN_CONTEXT
        return max(0, context - held) if self.is_shared else context

    @property
    def is_shared(self) -> bool:
        """Whether requests at the same time have to do with one context; other runtimes give each its own."""
        return self.plan.shared and self.target.runtime.endswith("llama.cpp")

    def leave(self, prompt: str, reply: Reply) -> None:
        """Leave little in a llama-server's slot, where a long prompt was asked.

        Whatever a slot holds when another prompt comes is copied to a cache in RAM, where it could push out what
        others left there. A prompt that keeps at least half of the slot is not another one, so it is halved.
        """
        if self.plan.slot is None or not self.target.runtime.endswith("llama.cpp"):
            return
        words, held = prompt.split(" "), reply.prompt_tokens + reply.cached_tokens + reply.generated_tokens
        with suppress(LookError):
            # at worst a model that can't go back in its cache reads what is left of the prompt once more
            while held > _LEFT_TOKENS and self.has_time(_KEPT * held / max(self._prefill or 0.0, 1e-3)):
                words = words[: int(_KEPT * len(words))]
                shorter = self.ask(" ".join(words), 1, keep=True)
                if shorter.prompt_tokens > shorter.cached_tokens:
                    return  # it would do so each time
                held = shorter.prompt_tokens + shorter.cached_tokens

    def has_time(self, seconds: float) -> bool:
        return self.spent_s + seconds <= self.plan.seconds


def perform_speed(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The standard measurement; what was measured before a server fails is kept."""
    return bound_facts(measure(system, target, plan, progress, REPEATS))


def perform_depth(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The speed of an answer at the start of the context and deep in it: what a longer conversation costs.

    Both are asked twice where there is time, the shallow ones first and last, so that what changed with time rather
    than depth favours neither, and the faster of the two counts: a disturbance only ever adds time.
    """
    asker = Asker(system, target, plan)
    try:
        progress("sending a short prompt to see how deep a context fits the time", 0.0)
        asker.warm_up()
        answer = asker.tokens_in(min(plan.seconds_per_completion, plan.seconds / 8))
        asker.check_answers(3, answer)
        deep = asker.prompt_in(plan.seconds / 3, DEEP_PROMPT, answer)
        progress(f"generating {answer} tokens at the start of the context", 0.1)
        shallow = [asker.ask(asker.prompts.prompt(), answer)]
        progress(f"generating {answer} tokens after a prompt of {deep:,}", 0.3)
        # The same prompt twice, the second time from the cache, which costs no more than its answer
        prompt = asker.prompts.prompt(deep)
        deeper = [asker.ask(prompt, answer, keep=True)]
        if asker.has_time(deeper[0].total_s):
            deeper.append(asker.ask(prompt, answer, keep=True))
        asker.leave(prompt, deeper[-1])
        if asker.has_time(shallow[0].total_s):
            progress(f"generating {answer} tokens at the start of the context again", 0.8)
            shallow.append(asker.ask(asker.prompts.prompt(), answer))
        fastest = [max(replies, key=rate_of) for replies in (shallow, deeper)]
        depths = tuple(
            AtDepth(depth_tokens=best.prompt_tokens + best.cached_tokens, tokens_per_s=rate_of(best))
            for best in fastest
        )
    except LookError as error:
        return Run(depths=unknown(error))
    return bound_facts(Run(depths=measured_fact(depths, f"the faster of two responses at each depth, {target.url}")))


def perform_long_prompt(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The time of a long prompt, which then also is what the speed of reading is known by.

    A prompt that fills several micro-batches: how fast the server reads, as short prompts can't show. A short prompt
    takes little more than one pass over the weights, whatever its length, so its rate says nothing of the compute. A
    quick server reads a second prompt, and the faster of the two counts: a disturbance only ever adds time, and the
    first prompt of its length also pays for kernels and buffers that were not needed before.
    """
    try:
        reply = _read(Asker(system, target, plan), progress)
    except LookError as error:
        return Run(long_prompt=unknown(error))
    if not reply.prompt_tokens:
        return Run(long_prompt=failed_fact("the server does not count the tokens of its prompts"))
    seconds = max(prefill_s(reply), 1e-6)
    source = f"{target.url}, {reply.clock}"
    read = LongPrompt(tokens=reply.prompt_tokens, seconds=seconds, first_token_s=first_token_s(reply))
    rate = measured_fact(reply.prompt_tokens / seconds, f"a prompt of {reply.prompt_tokens} tokens at {source}")
    return bound_facts(Run(long_prompt=measured_fact(read, source), prefill_tokens_per_s=rate))


def _read(asker: Asker, progress: Progress) -> Reply:
    progress("sending a short prompt to see how long a prompt fits the time", 0.0)
    asker.warm_up()
    whole = asker.prompt_in(ALL_BUT * asker.plan.seconds, LONG_PROMPT, answer=1)
    tokens = whole
    if whole > ENOUGH_TOKENS:
        tokens = max(ENOUGH_TOKENS, asker.prompt_in(asker.plan.seconds / 2, LONG_PROMPT, 1))
    progress(f"reading a prompt of {tokens:,} tokens", 0.2)
    first = _ask(asker, tokens)
    if first.total_s > QUICK_S or not asker.has_time(first.total_s):
        return first
    progress(f"reading a prompt of {tokens:,} tokens, the second", 0.6)
    try:
        second = _ask(asker, tokens)
    except LookError:
        return first
    return min((first, second), key=lambda reply: prefill_s(reply) / max(1, reply.prompt_tokens))


def _ask(asker: Asker, tokens: int) -> Reply:
    prompt = asker.prompts.prompt(tokens)
    reply = asker.ask(prompt, 1)
    asker.leave(prompt, reply)
    return reply


def perform_plain_sampling(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The same request with the server's settings, and with the likeliest token taken without any sampler.

    They are asked in turns, A B B A as far as there is time, so that what changed meanwhile favours neither, and the
    faster of each two counts.
    """
    asker = Asker(system, target, plan)
    speeds: dict[bool, list[float]] = {False: [], True: []}
    try:
        progress("sending a short prompt to see how many tokens fit the time", 0.0)
        asker.warm_up()
        tokens = asker.tokens_in(min(plan.seconds_per_completion, plan.seconds / 5), _MOST_TOKENS)
        asker.check_answers(2, tokens)
        for number, greedy in enumerate(_IN_TURNS):
            if speeds[greedy] and not asker.has_time(asker.spent_s / number):
                break
            how = "without samplers" if greedy else "with the server's settings"
            progress(f"generating {tokens} tokens {how}", (number + 1) / (len(_IN_TURNS) + 1))
            speeds[greedy].append(rate_of(asker.ask(asker.prompts.prompt(), tokens, greedy=greedy)))
    except LookError as error:
        return Run(plain_sampling=unknown(error))
    tried = TrialInTurns(
        changed=WITHOUT if target.runtime.endswith(_CAN_GO_WITHOUT) else COLD,
        as_set_tokens_per_s=max(speeds[False]),
        changed_tokens_per_s=max(speeds[True]),
    )
    return bound_facts(Run(plain_sampling=measured_fact(tried, f"responses of both kinds in turn, {target.url}")))


def rate_of(reply: Reply, least: int = _FEWEST_TIMED) -> float:
    """Tokens per second of an answer; LookError where it came in one piece, or ended too early to be timed."""
    if reply.generated_tokens < least:
        raise LookError(f"the response ended after {reply.generated_tokens} tokens, too early to be timed")
    return decode_rate(completion_of(reply))


def first_token_s(reply: Reply) -> float:
    """Until the first token was there, by the client's clock."""
    return reply.arrivals_s[0] if reply.arrivals_s else reply.total_s


def prefill_s(reply: Reply) -> float:
    """How long the prompt took: by the server's clock, else until the first token came."""
    return reply.server_prefill_s if reply.server_prefill_s is not None else first_token_s(reply)


def too_slow(what: str, seconds: float) -> LookError:
    """Why there is no such trial."""
    why = f"the server is too slow for {what} in the time that is left: it would take {seconds:.0f} s"
    return LookError(why, Absence.NOT_FOUND, "measure with --thorough")
