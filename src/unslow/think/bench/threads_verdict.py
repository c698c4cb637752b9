"""How many threads are best, for generating and for reading prompts: the two often differ."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.machine import Cpu
from unslow.think.bench.best_value import FELT, Choice, Sample, Verdict, chosen, verdict_of

_WHOLE = 100


class Judged(NamedTuple):
    """A verdict on a setting."""

    verdict: Verdict
    because: str
    best: int | None = None
    knee: int | None = None


def judge_threads(
    decode: Sequence[Sample],
    prefill: Sequence[Sample],
    current: int | None,
    cpu: Cpu = Cpu(),  # noqa: B008 (frozen)
) -> Judged:
    """The best count for generating; the sentence tells that for reading too, and what the cores have to do with it."""
    choice = chosen(decode)
    verdict = verdict_of(choice, current)
    if choice is None:
        return Judged(verdict, "too few counts were measured, or none of them twice")
    if verdict == "cannot_tell":
        return Judged(verdict, f"runs differ by {choice.noise:.0%} among themselves: other work disturbs them")
    said = [_generating(choice, verdict, current), _reading(chosen(prefill), choice), *_cores(choice, cpu)]
    best = current if verdict == "current_is_best" else choice.best
    return Judged(verdict, "; ".join(part for part in said if part), best)


def _generating(choice: Choice, verdict: Verdict, current: int | None) -> str:
    best, speed = choice.best, choice.speeds[choice.fastest]
    equal = f", and {_listed(choice.leaders)} are equal within noise" if len(choice.leaders) > 1 else ""
    if verdict == "flat":
        told = f"the count of threads makes no difference ({spoken(speed)})"
        return f"{told}: the smallest, {best}, leaves most for others"
    if verdict == "current_is_best":
        return f"{_threads(current or best)} {spoken(choice.speeds[current or best])}, as it is set{equal}"
    now = ""
    if current in choice.speeds and current is not None:
        now = f"; {current}, as it is set, gives {spoken(choice.speeds[current])}, {choice.behind(current):.0%} less"
    return f"{_threads(best)} {spoken(choice.speeds[best])}{equal}{now}"


def _reading(choice: Choice | None, generating: Choice) -> str:
    if choice is None:
        return ""
    speed = f"{spoken(choice.speeds[choice.best])}"
    if generating.best in choice.leaders:
        return f"prompts are read fastest with as many, {spoken(choice.speeds[generating.best])}"
    gain = choice.speeds[choice.best] / choice.speeds[generating.best] - 1
    more = f"{speed}, {gain:.0%} more than with {generating.best}"
    return f"prompts are read fastest with {choice.best} threads of their own (-tb {choice.best}): {more}"


def _cores(choice: Choice, cpu: Cpu) -> list[str]:
    """What the layout of the processor explains."""
    cores, slow = cpu.physical_cores.value_or(None), cpu.efficiency_cores.value_or(0)
    fast = cpu.performance_cores.value_or(None)
    said = []
    beyond = [value for value in choice.speeds if cores is not None and value > cores]
    if beyond and choice.best <= (cores or 0) and min(choice.behind(value) for value in beyond) > FELT:
        said.append(f"beyond the {cores} physical cores it gets slower, for two threads of one core share its units")
    if slow and fast and choice.best <= fast < max(choice.speeds):
        said.append(f"{slow} of the cores are slow ones, which the fast ones wait for")
    return said


def _threads(count: int) -> str:
    return f"{count} thread generates" if count == 1 else f"{count} threads generate"


def spoken(speed: float) -> str:
    """A speed in words."""
    return f"{speed:,.0f} tok/s" if speed >= _WHOLE else f"{speed:.3g} tok/s"


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:-1])) + f" and {values[-1]}"
