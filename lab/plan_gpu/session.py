"""Rounds over cases and arms within the time of one call, in turns: there and back."""

import argparse
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lab.faults.fault import SkippedError
from lab.plan_gpu.cases import ALONE, LONG, SHORT, Case
from lab.plan_gpu.gpu import Holder
from lab.plan_gpu.planning import planned
from lab.plan_gpu.serving import Arm, Asked, OutOfTimeError, Place, live
from lab.plan_gpu.sheet import Sheet

FIT = Arm("fit", ())
SPARE = 1.3
"""A life may take that much longer than the last one did."""
HOLD_S = 6.0
"""To take the memory, and to plan twice."""


class Session:
    """What one call does."""

    def __init__(self, cases: list[Case], sheet: Sheet, args: argparse.Namespace, more: list[Arm]) -> None:
        self._cases, self._sheet, self._args, self._more = cases, sheet, args, more
        self._until: float = time.monotonic() + args.seconds
        self._holder = Holder(gpu=not args.no_gpu)
        self._place = Place(args.server, args.port, args.log)
        self._asked = Asked(args.short, args.long, args.shorts, args.most_s)

    def play(self) -> bool:
        """All rounds that there is time for; False where some are left."""
        for number in range(self._args.rounds):
            for case in self._cases:
                try:
                    self._play(case, number)
                except OutOfTimeError:
                    print(f"[{self._left_s():.0f} s left] round {number + 1} ends before {case.name} does", flush=True)
                    return False
                except SkippedError as why:
                    print(f"{case.name}: {why}", flush=True)
        return True

    def _left_s(self) -> float:
        return self._until - time.monotonic()

    def _play(self, case: Case, number: int) -> None:
        arms = self._arms(case)
        if arms is not None and not [*self._missing(case, number, arms)]:
            return
        if self._left_s() < HOLD_S + case.life_s / SPARE:
            raise OutOfTimeError
        with self._holder.leaving(case.free_gib) as free:
            print(f"[{self._left_s():.0f} s left] round {number + 1}, {case.name}: {free} MiB free", flush=True)
            if arms is None:
                self._plan(case)
                arms = self._arms(case) or []
            for arm in self._missing(case, number, self._ordered(arms, number)):
                self._live(case, arm, number)

    def _missing(self, case: Case, number: int, arms: Iterable[Arm]) -> Iterator[Arm]:
        done = self._sheet.done()
        return (arm for arm in arms if (self._args.sweep or "", case.name, number, arm.name) not in done)

    def _ordered(self, arms: list[Arm], number: int) -> list[Arm]:
        """There and back; those of a sweep at random."""
        if self._args.sweep:
            return random.Random(number).sample(arms, len(arms))
        return arms[:: -1 if number % 2 else 1]

    def _live(self, case: Case, arm: Arm, number: int) -> None:
        expected_s = self._sheet.life_s(case.name, arm.name) or case.life_s
        if self._left_s() < expected_s * SPARE:
            raise OutOfTimeError
        free = self._holder.settle(case.free_gib)
        row = live(case, arm, self._model(case), self._place, self._asked, self._until)
        about = {"sweep": self._args.sweep or "", "case": case.name, "round": number, "free_mib": free}
        self._sheet.write({"kind": "life", **about, "context": case.context, "answer": case.answer_tokens, **row})
        print(f"  {told(row)}", flush=True)

    def _model(self, case: Case) -> Path:
        return Path(self._args.models) / f"{case.model}.gguf"

    def _plan(self, case: Case) -> None:
        """Plans that are not there yet, made while the memory is held; a failed one is told and leaves its arm out."""
        works: list[tuple[str, int, list[str]]] = [(SHORT, self._args.short, []), (LONG, self._args.long, [])]
        if self._args.sweep:
            works.append((ALONE, self._args.short, ["--this-work-only"]))
        for prompt, count, words in works:
            if self._sheet.plan(case.name, prompt):
                continue
            more = [*self._args.plan_args.split(), *words]
            row = planned(case, prompt, self._model(case), case.room_for(count), more)
            self._sheet.write(row)
            print(f"  plan for a {prompt} prompt, {row['seconds']} s: {_said(row)}", flush=True)

    def _arms(self, case: Case) -> list[Arm] | None:
        """Every arm that was asked for; None where the case was not planned yet."""
        wanted = self._args.arms.split(",") if self._args.arms else ["fit", "plan"]
        works = (SHORT, LONG, *((ALONE,) if self._args.sweep else ()))
        plans = {prompt: self._sheet.plan(case.name, prompt) for prompt in works}
        tried = {r["prompt"] for r in self._sheet.rows if r["kind"] == "plan" and r["case"] == case.name}
        if "plan" in wanted and not tried.issuperset(works):
            return None
        fit = [FIT] if "fit" in wanted else []
        return [*fit, *(plan_arms(plans, both=bool(self._args.sweep)) if "plan" in wanted else ()), *self._more]


def plan_arms(plans: dict[str, dict[str, Any] | None], *, both: bool) -> list[Arm]:
    """One arm where both works have the same plan; else each is measured at its own work alone, unless at both."""
    words = {prompt: tuple(row["arguments"]) for prompt, row in plans.items() if row}
    if not both and len(words) > 1 and len(set(words.values())) == 1:
        return [Arm("plan", words[SHORT])]
    at = (SHORT, LONG)
    return [Arm(f"plan_{prompt}", given, at if both else (prompt,)) for prompt, given in words.items()]


def _said(row: dict[str, Any]) -> str:
    return row.get("trouble") or " ".join(row["arguments"])


def told(row: dict[str, Any]) -> str:
    """A life in one line."""
    heard = [
        f"{r['prompt']} {r['prompt_per_second']:.0f} in, {r['predicted_per_second']:.1f} tok/s ({r['predicted_n']})"
        for r in row["requests"]
    ]
    trouble = "OUT OF MEMORY " * bool(row.get("out_of_memory")) + row.get("trouble", "")
    head = f"{row['arm']}: load {row.get('load_s')} s, {row['used_mib']} MiB, {row['offloaded']}"
    return "; ".join([head, *heard, *([trouble] if trouble else [])]) + f" [{row['wall_s']} s]"
