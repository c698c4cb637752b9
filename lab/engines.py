"""One shape in four engines on one H200: what each reaches of the bandwidth, and where the rest of a step goes.

python -m lab.engines
"""

import json
import statistics
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from lab.h200_speed.questions import question as llama_cpp_question
from lab.speed.served import swept_rows
from lab.speed.table import DATA

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.decode import LAUNCHED_ONE_BY_ONE, LAUNCHES, READS, ROUND_TRIP
from unslow.think.physics.terms import by_part, least_seconds
from unslow.think.speed.question import SpeedQuestion, step_terms

MODEL = "llama-3.1-8b"
COMPILED_TOKENS_PER_S = 139.0  # as in tests/machines/h200_transformers_8b_static
SHALLOW = 2048
"""Tokens of depth, which cost a step of this shape less than 2 %."""
TOGETHER, SHORT, LONG = 32, 512, 8192
_ANSWER = 64
_DASH = "–"


class Engine(NamedTuple):
    """What one engine reached; None where it was not measured."""

    name: str
    alone: float
    many: dict[int, float]
    """Tokens per second of all together, by how many there are."""
    prompts: dict[int, float]
    """Prompt tokens per second, by the length of the prompt."""
    question: SpeedQuestion
    is_launched: bool = False
    """Whether every kernel is launched by itself."""


@cache
def _learned(run: str) -> list[dict[str, Any]]:
    lines = (DATA / "h200_speed_learning.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if _name(row) == run and not row.get("asked", {}).get("cpu_only")]


def _name(row: dict[str, Any]) -> str:
    model = row.get("model", "")
    return str(model.get("name", "") if isinstance(model, dict) else model)


def llama_cpp() -> Engine:
    """llama-bench and llama-batched-bench, weights in F16."""
    rows = _learned(f"{MODEL}@F16")
    alone = next(
        statistics.median(row["samples_ts"]) for row in rows if row.get("n_gen") == _ANSWER and "samples_ts" in row
    )
    many = {row["pl"]: row["speed_tg"] for row in rows if row.get("pl", 0) > 1}
    prompts = {row["n_prompt"]: statistics.median(row["samples_ts"]) for row in rows if row.get("n_prompt", 0) > 0}
    question = llama_cpp_question(f"{MODEL}@F16", {"kind": "decode", "generate": _ANSWER})
    return Engine("llama.cpp F16", alone, many, prompts, question)


def transformers() -> Iterator[Engine]:
    """`generate()` as it comes, and with a static cache and a compiled forward pass."""
    rows = [row for row in _learned(f"{MODEL}@BF16") if row.get("asked", {}).get("runtime") == "transformers"]
    alone = next(max(row["samples_ts"]) for row in rows if row["test"] == "decode" and row["batch"] == 1)
    prompts = {row["n_prompt"]: statistics.median(row["samples_ts"]) for row in rows if row["test"] == "prefill"}
    plain = llama_cpp().question
    question = plain._replace(setting=plain.setting._replace(runtime="transformers"))
    yield Engine("Transformers BF16, compiled", COMPILED_TOKENS_PER_S, {}, {}, question)
    yield Engine("Transformers BF16", alone, {}, prompts, question, is_launched=True)


def vllm() -> Iterator[Engine]:
    """`vllm serve` with recorded graphs, and with --enforce-eager."""
    for eager in (False, True):
        name = f"llama-8b BF16{' eager' if eager else ''}"
        rows = [row for row in swept_rows() if row.name == name]
        steps: dict[int, list[float]] = {}
        for _, line, _question in rows:
            if line["kind"] == "step" and line["depth"] <= SHALLOW and line["together_s"] > 0:
                steps.setdefault(line["users"], []).append(line["step_s"])
        speeds = {users: users / min(some) for users, some in steps.items()}
        prompts: dict[int, list[float]] = {}
        for row in rows:
            if row.line["kind"] == "prompt":
                prompts.setdefault(row.line["tokens"], []).append(row.line["tokens"] / row.line["seconds"])
        question = rows[0].question._replace(depth=0.0, tokens=1.0)
        best = {tokens: max(some) for tokens, some in prompts.items()}
        label = f"vLLM BF16{', --enforce-eager' if eager else ''}"
        yield Engine(label, speeds.pop(1), speeds, best, question, is_launched=eager)


def table() -> str:
    """All of them, as the documentation shows it."""
    speeds = f"alone, tok/s | of the bandwidth | {TOGETHER} together, tok/s | prompt of {SHORT}, tok/s | of {LONG:,}"
    lines = [f"| engine | {speeds} | where a step goes |", "|---|--:|--:|--:|--:|--:|---|"]
    for engine in (*vllm(), llama_cpp(), *transformers()):
        least = float(least_seconds(step_terms(engine.question)))
        reached = [engine.many.get(TOGETHER), engine.prompts.get(SHORT), engine.prompts.get(LONG)]
        cells = [f"{speed:,.0f}" if speed else _DASH for speed in reached]
        row = [engine.name, f"{engine.alone:,.0f}", f"{least * engine.alone:.0%}", *cells, _shares(engine)]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _shares(engine: Engine) -> str:
    """The parts of the measured step: reading by physics, and the rest by what the engine is known to do."""
    step_s = 1 / engine.alone
    parts = {name: float(s) for name, s in by_part(step_terms(engine.question), learned_speed().factors).items()}
    reads = parts.get(READS, 0.0)
    if engine.is_launched or engine.question.setting.runtime == "transformers":
        rest = {LAUNCHED_ONE_BY_ONE if engine.is_launched else LAUNCHES: step_s - reads}
    else:
        rest = {name: parts.get(name, 0.0) for name in (LAUNCHES, ROUND_TRIP)}
    shown = {READS: reads} | rest
    return ", ".join(f"{name} {seconds / step_s:.0%}" for name, seconds in shown.items() if seconds > 0)


if __name__ == "__main__":
    print(table())
