"""The speed of an answer at the start of the context and deep in it: what a longer conversation costs.

Both are asked twice where there is time, the shallow ones first and last, so that what changed with time rather than
depth favours neither, and the faster of the two counts: a disturbance only ever adds time.
"""

from unslow.facts.bounded import bounded
from unslow.facts.run import AtDepth, Run
from unslow.facts.values import measured
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Reply, Target
from unslow.look.bench.trials._asker import Asker, Wanted, rate_of
from unslow.look.system import LookError, System, unknown

WANTED = Wanted("a deep prompt", fewest=1024, most=8192)
"""Shallower, the cache is too small a part of what is read for each token to show."""


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The speed at two depths."""
    try:
        depths = _depths(Asker(system, target, plan), progress)
    except LookError as error:
        return Run(depths=unknown(error))
    return bounded(Run(depths=measured(depths, f"the faster of two answers at each depth, {target.url}")))


def _depths(asker: Asker, progress: Progress) -> tuple[AtDepth, AtDepth]:
    progress("asking a short question, to see how deep there is time to go", 0.0)
    asker.warm_up()
    answer = asker.tokens_in(min(asker.plan.seconds_per_completion, asker.plan.seconds / 8))
    asker.check_answers(3, answer)
    deep = asker.prompt_in(asker.plan.seconds / 3, WANTED, answer)
    progress(f"generating {answer} tokens at the start of the context", 0.1)
    shallow = [asker.ask(asker.prompts.prompt(), answer)]
    progress(f"generating {answer} tokens after a prompt of {deep:,}", 0.3)
    deeper = _deep(asker, asker.prompts.prompt(deep), answer)
    if asker.has_time(shallow[0].total_s):
        progress(f"generating {answer} tokens at the start of the context again", 0.8)
        shallow.append(asker.ask(asker.prompts.prompt(), answer))
    return _fastest(shallow), _fastest(deeper)


def _deep(asker: Asker, prompt: str, answer: int) -> list[Reply]:
    """The same prompt twice, the second time from the cache, which costs no more than its answer."""
    replies = [asker.ask(prompt, answer, keep=True)]
    if asker.has_time(replies[0].total_s):
        replies.append(asker.ask(prompt, answer, keep=True))
    asker.leave(prompt, replies[-1])
    return replies


def _fastest(replies: list[Reply]) -> AtDepth:
    best = max(replies, key=rate_of)
    return AtDepth(depth_tokens=best.prompt_tokens + best.cached_tokens, tokens_per_s=rate_of(best))
