"""How large a batch pays for reading prompts, and what it costs in memory."""

from collections.abc import Mapping, Sequence

from unslow.facts.units import MB
from unslow.think.bench.best_value import Choice, Sample, Verdict, chosen, verdict_of
from unslow.think.bench.threads_verdict import Judged, spoken

_FEWEST_MB = 16


def judge_batch(name: str, prefill: Sequence[Sample], current: int | None, memory_bytes: Mapping[int, float]) -> Judged:
    """The smallest batch that reads as fast as any: beyond it nothing is gained; `name` is the flag."""
    choice = chosen(prefill)
    verdict = verdict_of(choice, current)
    if choice is None:
        return Judged(verdict, "too few sizes were measured, or none of them twice")
    if verdict == "cannot_tell":
        return Judged(verdict, f"runs differ by {choice.noise:.0%} among themselves: other work disturbs them")
    said = [_reading(name, choice, verdict, current), _memory(choice, memory_bytes, current)]
    best = current if verdict == "current_is_best" else choice.best
    return Judged(verdict, "; ".join(part for part in said if part), best, choice.best)


def _reading(name: str, choice: Choice, verdict: Verdict, current: int | None) -> str:
    best = choice.best
    speed = spoken(choice.speeds[best])
    if verdict == "flat":
        return (
            f"{name} makes no difference from {min(choice.speeds)} to {max(choice.speeds)}: prompts are read at {speed}"
        )
    slowest = min(choice.speeds, key=lambda value: choice.speeds[value])
    knee = f"{name} {best} reads prompts at {speed}, {slowest} at {spoken(choice.speeds[slowest])}"
    beyond = f"; beyond {best} nothing is gained" if best < max(choice.speeds) else ""
    if verdict == "current_is_best":
        return f"{knee}{beyond}; {current}, as it is set, is as fast as any"
    if current in choice.speeds and current is not None:
        return f"{knee}{beyond}; {current}, as it is set, is {choice.behind(current):.0%} slower than the fastest"
    return f"{knee}{beyond}"


def _memory(choice: Choice, memory_bytes: Mapping[int, float], current: int | None) -> str:
    """What the memory of the largest, and of the one that is set, is beyond that of the best."""
    best = memory_bytes.get(choice.best)
    if best is None:
        return ""
    others = dict.fromkeys([*([current] if current in choice.speeds and current else []), max(choice.speeds)])
    extra = [(value, (memory_bytes[value] - best) / MB) for value in others if value in memory_bytes]
    told = [
        f"{value} takes {abs(mb):.0f} MB {'more' if mb > 0 else 'less'}" for value, mb in extra if abs(mb) > _FEWEST_MB
    ]
    return f"of memory, {' and '.join(told)} than {choice.best}" if told else ""
