"""The table of the experiment: what the fit gives and what the plan gives, side by side.

python -m lab.plan_gpu.table [ROWS.jsonl]
"""

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.plan_gpu.cases import CASES, LONG, SHORT, TINY
from lab.plan_gpu.planning import predicted
from lab.plan_gpu.sheet import read_rows

from unslow.facts.values import MIB

DATA = Path(__file__).parents[1] / "data" / "plan_gpu.jsonl"
NOTHING = "not measured yet"
PLANS = {SHORT: ("plan", "plan_short"), LONG: ("plan", "plan_long")}
"""The arms that may be the plan for a prompt."""
Row = dict[str, Any]


class Figures(NamedTuple):
    """One life at one prompt."""

    decode: float
    prefill: float
    request_s: float
    """As if every answer had its whole length."""


class Pair(NamedTuple):
    """A case at a prompt: every life of the two arms by round, and what was promised of the plan."""

    case: str
    prompt: str
    fit: dict[int, Figures]
    plan: dict[int, Figures]
    promised: Row

    def ratios(self, figure: str) -> list[float]:
        """The plan against the fit in each round; of seconds, how many times fewer."""
        both = sorted(self.fit.keys() & self.plan.keys())
        pairs = ((getattr(self.plan[n], figure), getattr(self.fit[n], figure)) for n in both)
        return [old / new if figure == "request_s" else new / old for new, old in pairs]


def figures(life: Row, prompt: str) -> Figures | None:
    """The middle of a life's requests with that prompt; None where none was answered."""
    heard = [one for one in life["requests"] if one["prompt"] == prompt]
    if not heard:
        return None
    request_s = [r["prompt_ms"] / 1e3 + life["answer"] / r["predicted_per_second"] for r in heard]
    decode, prefill = ([r[name] for r in heard] for name in ("predicted_per_second", "prompt_per_second"))
    return Figures(*(statistics.median(values) for values in (decode, prefill, request_s)))


def pairs(rows: Iterable[Row]) -> list[Pair]:
    """Every case and prompt that both arms were measured at, in the order of the cases."""
    kept = list(rows)
    found = (_pair(case.name, prompt, kept) for case in CASES for prompt in (SHORT, LONG))
    return [pair for pair in found if pair.fit.keys() & pair.plan.keys()]


def _pair(case: str, prompt: str, rows: list[Row]) -> Pair:
    lives = [row for row in rows if row["kind"] == "life" and row["case"] == case and not row.get("sweep")]
    promises = [r for r in rows if r["kind"] == "plan" and (r["case"], r["prompt"]) == (case, prompt)]
    told = [row for row in promises if "trouble" not in row]
    fit, plan = (_by_round(lives, arms, prompt) for arms in (("fit",), PLANS[prompt]))
    return Pair(case, prompt, fit, plan, told[-1] if told else {})


def _by_round(lives: list[Row], arms: tuple[str, ...], prompt: str) -> dict[int, Figures]:
    found = {row["round"]: figures(row, prompt) for row in lives if row["arm"] in arms}
    return {number: one for number, one in found.items() if one}


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def table(rows: Iterable[Row]) -> str:
    """All of it, and what it comes to."""
    kept = list(rows)
    found = pairs(kept)
    if not found:
        return NOTHING
    head = (
        f"{'case':12} {'prompt':6} {'fit':>7} {'plan':>7} {'promised':>8} {'times':>6} {'from - to':>13}"
        f" {'request':>7} {'from - to':>13} {'prefill':>14}  settings"
    )
    return "\n".join([head, *(_line(pair) for pair in found), "", *_totals(found, kept)])


def _line(pair: Pair) -> str:
    fit, plan = (_middle(lives.values()) for lives in (pair.fit, pair.plan))
    promised = predicted(pair.promised, "decode_tokens_per_s")
    decode, request = (pair.ratios(figure) for figure in ("decode", "request_s"))
    return (
        f"{pair.case:12} {pair.prompt:6} {fit.decode:>7.1f} {plan.decode:>7.1f} {_or_dash(promised):>8}"
        f" {geometric_mean(decode):>6.2f} {_span(decode):>13} {geometric_mean(request):>7.2f} {_span(request):>13}"
        f" {f'{fit.prefill:.0f} / {plan.prefill:.0f}':>14}  {' '.join(pair.promised.get('arguments', ()))}"
    )


def _middle(lives: Iterable[Figures]) -> Figures:
    return Figures(*(statistics.median(values) for values in zip(*lives, strict=True)))


def _span(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} - {max(ratios):.2f}" if len(ratios) > 1 else ""


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _totals(found: list[Pair], rows: list[Row]) -> list[str]:
    lines = []
    for name, figure in (("tokens per second", "decode"), ("whole requests", "request_s")):
        for prompts in ((SHORT,), (LONG,), (SHORT, LONG)):
            ratios = [geometric_mean(pair.ratios(figure)) for pair in found if pair.prompt in prompts]
            if ratios:
                at = f"{prompts[0]} prompts" if len(prompts) == 1 else "all"
                lines.append(f"{name}, {at}: {geometric_mean(ratios):.2f} times, geometric mean of {len(ratios)}")
    slower = [f"{p.case} {p.prompt}" for p in found if max(p.ratios("request_s")) < 1]
    lost = [f"{row['case']} {row.get('arm') or 'planning'}" for row in rows if _failed(row)]
    errors = [error for pair in found if (error := _error(pair)) is not None]
    off = f"{statistics.median(errors):.0%} of {len(errors)}" if errors else "none"
    return [
        *lines,
        f"not measured, or without a round that both arms answered: {', '.join(_left_out(found)) or 'none'}",
        f"slower in every round: {', '.join(slower) or 'none'}",
        f"ran out of memory or failed: {', '.join(lost) or 'none'}",
        f"predicted speed of the plan, median error: {off}",
    ]


def _left_out(found: list[Pair]) -> list[str]:
    """Cases that the means know nothing of."""
    there = {(pair.case, pair.prompt) for pair in found}
    wanted = [(case.name, prompt) for case in CASES if case.group != TINY for prompt in (SHORT, LONG)]
    return [" ".join(one) for one in wanted if one not in there]


def _failed(row: Row) -> bool:
    """A server of either arm that failed, or a plan that could not be made."""
    return "trouble" in row and not row.get("sweep")


def _error(pair: Pair) -> float | None:
    promised = predicted(pair.promised, "decode_tokens_per_s")
    return None if promised is None else abs(promised / _middle(pair.plan.values()).decode - 1)


def sweep_table(rows: Iterable[Row], sweep: str) -> str:
    """A sweep: every setting, the quickest request first, at each prompt."""
    lives = [row for row in rows if row["kind"] == "life" and row.get("sweep") == sweep]
    parts = [_ranked(lives, prompt) for prompt in (SHORT, LONG)] if lives else [NOTHING]
    return "\n\n".join(parts)


def _ranked(lives: list[Row], prompt: str) -> str:
    by_arm: dict[str, list[Figures]] = {}
    for life in lives:
        if one := figures(life, prompt):
            by_arm.setdefault(life["arm"], []).append(one)
    order = sorted(by_arm, key=lambda arm: _middle(by_arm[arm]).request_s)
    best = _middle(by_arm[order[0]]).request_s if order else 1.0
    head = f"{f'{prompt} prompt:':13} {'tok/s':>10} {'prefill':>8} {'request':>9} {'from - to':>13} {'of best':>7}"
    lines = [_ranked_line(arm, by_arm[arm], best) for arm in order]
    failed = [f"did not run: {arm}" for arm in dict.fromkeys(r["arm"] for r in lives if "trouble" in r)]
    return "\n".join([head, *lines, *failed])


def _ranked_line(arm: str, lives: list[Figures], best_s: float) -> str:
    one, span = _middle(lives), _span([life.request_s for life in lives])
    share = best_s / one.request_s
    return f"{one.decode:>24.1f} {one.prefill:>8.0f} {one.request_s:>7.2f} s {span:>13} {share:>7.0%}  {arm}"


def memory_table(rows: Iterable[Row]) -> str:
    """What each plan was predicted to ask of the GPU, the buffers that it got, and all that its process took."""
    kept = list(rows)
    lines = []
    for pair in pairs(kept):
        lives = [r for r in kept if r["kind"] == "life" and r["case"] == pair.case and r["arm"] in PLANS[pair.prompt]]
        ran = [row for row in lives if row.get("used_mib") and not row.get("sweep")]
        figures_mib = (_promised_mib(pair.promised), *(_most(ran, amount) for amount in (_buffers_mib, _used_mib)))
        lines += [f"{pair.case:12} {pair.prompt:6} " + " ".join(f"{one:>9}" for one in figures_mib)] if ran else []
    head = f"{'MiB on GPU':12} {'prompt':6} {'predicted':>9} {'buffers':>9} {'process':>9}"
    return "\n".join([head, *lines]) if lines else NOTHING


def _most(lives: list[Row], amount: Callable[[Row], float]) -> str:
    return f"{max(amount(row) for row in lives):.0f}" if lives else "-"


def _used_mib(life: Row) -> float:
    return float(life["used_mib"])


def _buffers_mib(life: Row) -> float:
    """Weights, cache and compute of the GPU."""
    pinned = "_Host"
    return float(
        sum(mib for name, mib in life["buffers_mib"].items() if name.startswith("CUDA") and pinned not in name)
    )


def _promised_mib(plan: Row) -> str:
    """Weights, cache and compute of the first device."""
    total = (plan.get("devices") or [{}])[0].get("total_bytes")
    return "-" if total is None else f"{total / MIB:.0f}"


if __name__ == "__main__":
    known = read_rows(Path(sys.argv[1]) if sys.argv[1:] else DATA)
    for text in (table(known), memory_table(known), *(sweep_table(known, name) for name in ("8b", "moe"))):
        print(text, end="\n\n")
