"""What the exporter on a member's own machine says of it, beside what a Prometheus can see."""

from typing import Any

import msgspec

from unslow.fleet.member import Member, OwnDiagnosis
from unslow.think.causes import all_causes
from unslow.think.fleet.judged import About, Judged
from unslow.think.fleet.loss_by_cause import UNEXPLAINED
from unslow.think.fleet.report import Instance
from unslow.think.predict import DECODE
from unslow.think.report import Expected, Range

STALE_S = 3600.0
"""A look that is older says nothing of now."""
MOST_NAMED = 3
LASTING = 0.5
"""Of the window: a cause that was named for less of it is not what the window is about."""


def about_of(member: Member) -> About:
    """Who it is, and how it was seen."""
    own = member.own
    named = {cause: share for cause, share in own.findings.items() if share >= LASTING} if own else {}
    return About(
        key=member.key,
        host=member.host_name,
        labels=member.labels,
        window_s=member.window_s,
        by_itself=named if _is_fresh(own) else {},
        by_itself_s=own.costs_s if own else {},
        notes=(*member.doubts, *_aged(own)),
    )


def with_own_verdict(judged: Judged, member: Member) -> Judged:
    """Where a Prometheus can't tell, the verdict of the machine itself, which sees logs and processes."""
    own, instance = member.own, judged.instance
    if instance.verdict != "cannot_tell" or own is None or not _is_fresh(own):
        return judged
    if own.verdict not in ("slow", "normal", "failed"):
        return judged
    measured = {DECODE: own.speed_tokens_per_s} | instance.measured if own.speed_tokens_per_s else instance.measured
    return judged._replace(
        instance=msgspec.structs.replace(
            instance,
            verdict=own.verdict,
            summary=_said(own.verdict, instance.by_itself),
            measured=measured,
            expected=instance.expected if instance.expected.achievable else _expected(own),
            **_lost(instance, own, member.window_s / 3600),
            notes=(*instance.notes, "the verdict is that of `unslow exporter` on its machine"),
        )
    )


def _said(verdict: str, named: tuple[str, ...]) -> str:
    """The verdict of the machine itself in a sentence, in place of the one that nothing can be told."""
    causes = all_causes()
    titles = "; ".join(causes[name].title if name in causes else name for name in named[:MOST_NAMED])
    words = {"slow": "It is slow", "failed": "It failed", "normal": "It is as fast as its hardware allows"}[verdict]
    why = f": {titles}" if titles and verdict != "normal" else ""
    return f"{words}, by what `unslow exporter` on its machine sees{why}."


def _lost(instance: Instance, own: OwnDiagnosis, hours: float) -> dict[str, Any]:
    """What it loses against the speed that its machine expects, where it is slow and gives tokens here."""
    rate, best = instance.measured.get(DECODE) or own.speed_tokens_per_s, own.achievable_tokens_per_s
    given, lost = instance.tokens_per_s, instance.lost
    if own.verdict != "slow" or not rate or not best or not given or lost.tokens_per_s is not None:
        return {}
    share = max(0.0, 1.0 - rate / best)
    missing = given * share / (1.0 - share)
    idle = lost.idle_gpu_hours
    spent = share * (instance.gpus * hours - idle) if instance.gpus is not None and idle is not None else None
    because = "against what `unslow exporter` on its machine expects"
    loss = msgspec.structs.replace(lost, tokens_per_s=missing, gpu_hours=spent, because=because)
    return {"lost": loss, "lost_by": {next(iter(instance.by_itself), UNEXPLAINED): missing}}


def _expected(own: OwnDiagnosis) -> Expected:
    low, mid, high = own.expected_tokens_per_s or (0.0, 0.0, 0.0)
    best = own.achievable_tokens_per_s
    return Expected(
        as_configured={DECODE: Range(low=low, mid=mid, high=high)} if mid else {},
        achievable={DECODE: Range(low=best, mid=best, high=best)} if best else {},
    )


def _is_fresh(own: OwnDiagnosis | None) -> bool:
    return own is not None and own.age_s is not None and own.age_s <= STALE_S


def _aged(own: OwnDiagnosis | None) -> tuple[str, ...]:
    if own is None or _is_fresh(own):
        return ()
    if own.age_s is None:
        return ("nothing tells when `unslow exporter` on its machine looked, so what it says is not taken",)
    return (f"`unslow exporter` on its machine has not looked for {own.age_s / 3600:.0f} hours",)
