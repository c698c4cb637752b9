"""Holds the ledger of whoever asked against the account of the proxy: nothing missing, nothing twice, nothing wrong."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from lab.chaos.deeds import DEEDS, DIED, DOWN
from lab.chaos.proxy import Seen

from unslow.facts.bench import Failure, Pass

_APART_S = 1.5
"""A request reaches the proxy within this time of being sent, on a busy machine too."""


class Asked(NamedTuple):
    """One line of the ledger."""

    at_s: float
    kind: str
    """"answered", or the kind of its failure."""
    pieces: int | None
    """Pieces of text that came; None where the ledger does not tell."""
    tokens: int | None
    """What the server counted, of an answer."""
    why: str = ""
    lasted_s: float = 0.0


@dataclass
class Account:
    """What the comparison found."""

    asked: int = 0
    answered: int = 0
    failed: int = 0
    matched: int = 0
    refused_while_closed: int = 0
    tokens_forwarded: int = 0
    tokens_counted: int = 0
    by_deed: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the two agree about everything."""
        return not self.faults and self.asked > 0


def ledger(passes: Sequence[Pass], failures: Sequence[Failure], began_s: float) -> list[Asked]:
    """Both halves in one order, on the clock of the machine."""
    lines = [_answered(one, began_s) for one in passes]
    lines += [
        Asked(began_s + one.started_s, one.kind, one.generated_tokens, None, one.why, one.lasted_s) for one in failures
    ]
    return sorted(lines)


def _answered(one: Pass, began_s: float) -> Asked:
    pieces = one.gaps.count + 1 if one.gaps else None
    return Asked(began_s + one.started_s, "answered", pieces, one.generated_tokens)


def compared(
    lines: Sequence[Asked],
    seen: Sequence[Seen],
    closed: Sequence[tuple[float, float]],
    silence_s: float,
    kills: Sequence[tuple[float, float]] = (),
) -> Account:
    """One user asks one request after the other, so the n-th that reached the proxy is the n-th of the ledger."""
    account = Account(asked=len(lines), answered=sum(line.kind == "answered" for line in lines))
    account.failed = account.asked - account.answered
    reached = [line for line in lines if not _while_closed(line, closed)]
    account.refused_while_closed = len(lines) - len(reached)
    if len(reached) != len(seen):
        account.faults.append(f"the ledger has {len(reached)} requests that reached the proxy, which saw {len(seen)}")
    for line, row in zip(reached, seen, strict=False):
        _compare(account, line, row, right_kinds(row, silence_s) | _may_be_gone(line, row, kills))
    return account


def _while_closed(line: Asked, closed: Sequence[tuple[float, float]]) -> bool:
    """Whether nobody listened when it was asked; what waited to be accepted when that began is reset."""
    away = line.kind in ("refused", "gone") or (line.kind == "broke_off" and not line.pieces)
    return away and any(start - 0.2 <= line.at_s <= end for start, end in closed)


def _may_be_gone(line: Asked, row: Seen, kills: Sequence[tuple[float, float]]) -> frozenset[str]:
    """Whether the server was killed meanwhile, and was back before the proxy needed it: both are true then."""
    killed = any(line.at_s <= start <= line.at_s + line.lasted_s for start, _ in kills)
    return frozenset({"gone"}) if killed and "broke_off" in DEEDS[row.deed].kinds else frozenset()


def _compare(account: Account, line: Asked, row: Seen, right: frozenset[str]) -> None:
    counts = account.by_deed.setdefault(_name(row), {})
    counts[line.kind] = counts.get(line.kind, 0) + 1
    faults = _faults(line, row, right)
    account.faults += [f"request {row.number} ({row.deed}, {row.ended}): {fault}" for fault in faults]
    account.matched += not faults
    account.tokens_forwarded += row.tokens or 0 if row.ended == "whole" else 0
    account.tokens_counted += line.tokens or 0


def _name(row: Seen) -> str:
    return row.deed if row.ended not in ("died", "down") else f"server {row.ended}"


def _faults(line: Asked, row: Seen, right: frozenset[str]) -> list[str]:
    faults = []
    if not -0.2 <= row.at_s - line.at_s <= _APART_S:
        faults.append(f"reached the proxy {row.at_s - line.at_s:.2f} s after it was sent")
    if line.kind not in right:
        faults.append(f"counted as {line.kind} ({line.why}), is {' or '.join(sorted(right)) or 'nothing known'}")
    if row.ended == "whole" and line.tokens != row.tokens:
        faults.append(f"{line.tokens} tokens in the ledger, {row.tokens} passed on")
    exact = DEEDS[row.deed].exact or row.ended != "done"
    if line.pieces is not None and (line.pieces != row.pieces if exact else line.pieces > row.pieces):
        faults.append(f"{line.pieces} pieces in the ledger, {row.pieces} passed on")
    return faults


def right_kinds(row: Seen, silence_s: float) -> frozenset[str]:
    """As what a request must have been counted, by what the proxy did and saw."""
    if row.ended == "died":
        return DIED
    if row.ended == "down":
        return DOWN
    if row.ended == "left" and row.quiet_s >= silence_s - 0.5:
        return frozenset({"stalled" if row.pieces else "not_answered"})
    if row.ended in ("whole", "done"):
        return DEEDS[row.deed].kinds
    return frozenset()


def as_json(account: Account) -> dict[str, Any]:
    """All of it, with the verdict."""
    return {"holds": account.holds, **asdict(account)}
