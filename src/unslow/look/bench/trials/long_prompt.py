"""A prompt that fills several micro-batches: how fast the server reads, as short prompts can't show.

A short prompt takes little more than one pass over the weights, whatever its length, so its rate says nothing of the
compute. A quick server reads a second prompt, and the faster of the two counts: a disturbance only ever adds time, and
the first prompt of its length also pays for kernels and buffers that nobody had needed before.
"""

from unslow.facts.bounded import bounded
from unslow.facts.run import LongPrompt, Run
from unslow.facts.values import measured
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Reply, Target
from unslow.look.bench.trials._asker import Asker, Wanted, first_token_s, prefill_s
from unslow.look.system import LookError, System, unknown

WANTED = Wanted("a long prompt", fewest=96, most=2048)
"""Four micro-batches of llama.cpp's 512, one chunk of vLLM's 2,048; below 96 it is no longer than the usual prompt."""
QUICK_S = 3.0
ENOUGH_TOKENS, ALL_BUT = 512, 0.8
"""One such prompt tells more than two that are shorter: for it a slow server gets nearly all of the time."""


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The time of a long prompt, which then also is what the speed of reading is known by."""
    asker = Asker(system, target, plan)
    try:
        reply = _counted(_read(asker, progress))
    except LookError as error:
        return Run(long_prompt=unknown(error))
    seconds = max(prefill_s(reply), 1e-6)
    source = f"{target.url}, {reply.clock}"
    read = LongPrompt(tokens=reply.prompt_tokens, seconds=seconds, first_token_s=first_token_s(reply))
    return bounded(
        Run(
            long_prompt=measured(read, source),
            prefill_tokens_per_s=measured(
                reply.prompt_tokens / seconds, f"a prompt of {reply.prompt_tokens} tokens at {source}"
            ),
        )
    )


def _counted(reply: Reply) -> Reply:
    if not reply.prompt_tokens:
        raise LookError("the server does not count the tokens of its prompts")
    return reply


def _read(asker: Asker, progress: Progress) -> Reply:
    progress("asking a short question, to see how long a prompt may be", 0.0)
    asker.warm_up()
    tokens = _tokens(asker)
    progress(f"reading a prompt of {tokens:,} tokens", 0.2)
    first = _ask(asker, tokens)
    if first.total_s > QUICK_S or not asker.has_time(first.total_s):
        return first
    progress(f"reading a prompt of {tokens:,} tokens, the second", 0.6)
    try:
        second = _ask(asker, tokens)
    except LookError:
        return first
    return min((first, second), key=_seconds_per_token)


def _tokens(asker: Asker) -> int:
    whole = asker.prompt_in(ALL_BUT * asker.plan.seconds, WANTED, answer=1)
    return whole if whole <= ENOUGH_TOKENS else max(ENOUGH_TOKENS, asker.prompt_in(asker.plan.seconds / 2, WANTED, 1))


def _ask(asker: Asker, tokens: int) -> Reply:
    prompt = asker.prompts.prompt(tokens)
    reply = asker.ask(prompt, 1)
    asker.leave(prompt, reply)
    return reply


def _seconds_per_token(reply: Reply) -> float:
    return prefill_s(reply) / max(1, reply.prompt_tokens)
