"""The same engine in the window that this one is compared with."""

from unslow.facts.run import Earlier
from unslow.facts.values import Fact, Known, not_found
from unslow.fleet.member import Member
from unslow.fleet.snapshot.readings import SOURCE, Readings
from unslow.fleet.snapshot.traffic import requests_at_once, speed_of_each

SLOWER = 1.2
"""Times as long for a token: two windows of one sound server differ by less where as many requests share its steps."""
MORE, FEW = 1.5, 2.0
"""Times as many requests at once: more of them slow each other down; and how many do not."""


def earlier_of(member: Member, engine: Readings) -> Fact[Earlier]:
    """The speed of a request then and now, and whether the load explains the difference."""
    now, then = speed_of_each(engine), _then(engine)
    if not then:
        return not_found(f"{SOURCE} has nothing of it from the time that it is compared with")
    if not isinstance(now, Known):
        return now
    slower = now.value * SLOWER < then
    known = Earlier(
        bench=SOURCE,
        taken_at="",
        decode_tokens_per_s=then,
        now_tokens_per_s=now.value,
        slower=slower,
        version=member.version_before,
        version_now=member.version,
        also_changed=_also_changed(engine) if slower else (),
    )
    return engine.worked_out(
        known, "token_gap_s", "token_gap_before_s", "decode_tokens_per_busy_s", "decode_tokens_per_busy_s_before"
    )


def _then(engine: Readings) -> float:
    gap = engine.value("token_gap_before_s") if "token_gap_s" in engine else 0.0
    return 1 / gap if gap > 0 else engine.value("decode_tokens_per_busy_s_before")


def _also_changed(engine: Readings) -> tuple[str, ...]:
    """The load, where that is not what it was, or nobody tells."""
    now, then = requests_at_once(engine), engine.value("running_before")
    if "running_before" not in engine or now is None:
        return ("nothing tells whether as many requests shared it",)
    if now <= max(FEW, MORE * then):
        return ()
    return (f"{now:.1f} requests at a time instead of {then:.1f}",)
