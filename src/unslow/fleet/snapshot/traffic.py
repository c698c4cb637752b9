"""What an engine did for its users over the window.

The window holds pauses. Means over it are right for what is counted by the second, and wrong for how many requests
share a step: ten at once for a tenth of the time are one on average, and each of them shares its steps with nine
others. How many a request meets is the mean of the squares over the mean; and by Little's law it is never fewer than
the tokens of a second times the seconds between two tokens.
"""

import math

from unslow.facts.run import Traffic
from unslow.facts.values import Fact, Known, not_found, reported
from unslow.fleet.member import Member
from unslow.fleet.snapshot.readings import SOURCE, Readings

ENOUGH_TOKENS = 50
"""Fewer say more of first tokens than of speed."""
USUAL_INTERVAL_S = 30.0
"""Between two scrapes, where nobody counted them."""
_HOW_MANY = "how many requests shared its steps while it worked is not told"


def traffic_of(member: Member, engine: Readings) -> Fact[Traffic]:
    """The traffic; unknown where nothing tells how many requests were answered."""
    if "running" not in engine and "generated_tokens_per_s" not in engine:
        return engine.missing("running")
    speed, among = speed_of_each(engine), requests_at_once(engine)
    each = speed if among is not None else not_found(_HOW_MANY)
    known = Traffic(
        seconds=member.window_s,
        looks=max(1, round(engine.value("samples", member.window_s / USUAL_INTERVAL_S))),
        running=_running(engine),
        waiting=engine.value("waiting"),
        counts_waiting="waiting" in engine,
        tokens_per_s=engine.fact("generated_tokens_per_s"),
        prompt_tokens_per_s=_prompts_while_at_work(engine, among),
        preemptions=engine.whole("preemptions"),
        cache_used=engine.share("cache_used"),  # the mean: its peak need not be when requests waited
        each_tokens_per_s=each,
        each_among=among or 0.0,
    )
    names = ("running", "waiting", "generated_tokens_per_s")
    return reported(known, engine.source(*(name for name in names if name in engine)))


def speed_of_each(engine: Readings) -> Fact[float]:
    """Tokens a second of one request; unknown where too few were generated to tell."""
    counted = engine.value("tokens_counted", math.inf)
    if counted < ENOUGH_TOKENS:
        return not_found(f"its tokens are too few to tell a speed: {counted:.0f} tokens were generated in the window")
    if engine.value("token_gap_s") > 0:
        return engine.worked_out(1 / engine.value("token_gap_s"), "token_gap_s")
    if engine.value("decode_tokens_per_busy_s") > 0:
        return engine.fact("decode_tokens_per_busy_s")
    if engine.value("running", 1.0) == 0 and not engine.value("generated_tokens_per_s"):
        return not_found("it answered nobody in the window")
    return not_found(f"{SOURCE} has nothing that tells the time between two tokens of it")


def requests_at_once(engine: Readings) -> float | None:
    """How many a request shares its steps with, itself counted; None where the readings leave that open."""
    if "running_spread" not in engine:
        return None  # a mean alone may be of any number at once, and of pauses
    mean = engine.value("running")
    met = (engine.value("running_spread") ** 2 + mean**2) / mean if mean > 0 else 0.0
    return max(1.0, _answering(engine), met)


def share_at_work(engine: Readings) -> float | None:
    """The part of the window in which it worked; None where nothing tells. Who reads a prompt is at work as well."""
    among = requests_at_once(engine)
    return min(1.0, _running(engine) / among) if among and _answering(engine) else None


def _answering(engine: Readings) -> float:
    """How many generated on average, pauses counted in: by Little's law, whatever the moments of the scrapes missed."""
    speed = speed_of_each(engine)
    return engine.value("generated_tokens_per_s") / speed.value if isinstance(speed, Known) and speed.value else 0.0


def _running(engine: Readings) -> float:
    """The mean; scrapes may miss every one of a few short answers, so no fewer than generated."""
    return max(engine.value("running"), _answering(engine))


def _prompts_while_at_work(engine: Readings, among: float | None) -> Fact[float]:
    """Answers wait for prompts only while there are any: what was read in the window was read in the working part."""
    share = share_at_work(engine) if among is not None else None
    if share is None or "prompt_tokens_per_s" not in engine:
        return engine.fact("prompt_tokens_per_s")
    return engine.worked_out(engine.value("prompt_tokens_per_s") / share, "prompt_tokens_per_s", "token_gap_s")
