"""A real vLLM over users and depths on one H200 (lab/real/vllm.py), as rows to learn from and to be judged by."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.h200_speed.questions import DEVICE, FAMILY
from lab.speed.own import BATCHED, WEIGHT
from lab.speed.table import DATA, Measured

from unslow.catalog.devices import find_device
from unslow.catalog.weight_parts import parts_of_shape, storage_of_quant
from unslow.facts.model import HfShape
from unslow.think.physics.chip import BYTES, HALF, NIBBLES, SpeedSetting
from unslow.think.physics.terms import total_of_terms
from unslow.think.speed.load import hf_load, totals
from unslow.think.speed.question import SpeedQuestion, gpu_chip, prompt_terms, step_terms
from unslow.think.speed.rows import DEEP, DEEP_FROM, DENSE, PREFILL

SWEEP = "vllm_h200_sweep.jsonl"
BATCHED_TOKENS = 8192  # vLLM 0.26 on such a GPU, by its log
FEWEST_STEPS = 10
"""In which all users decoded together; fewer tell little."""
_VOCABULARY = 128_256
SHAPES = {
    "llama-1b": HfShape(layers=16, width=2048, heads=32, kv_heads=8, key_length=64, value_length=64,
                        feed_forward=8192, vocabulary=_VOCABULARY, tied=True),
    "llama-3b": HfShape(layers=28, width=3072, heads=24, kv_heads=8, key_length=128, value_length=128,
                        feed_forward=8192, vocabulary=_VOCABULARY, tied=True),
    "llama-8b": HfShape(layers=32, width=4096, heads=32, kv_heads=8, key_length=128, value_length=128,
                        feed_forward=14336, vocabulary=_VOCABULARY),
    "llama-70b": HfShape(layers=80, width=8192, heads=64, kv_heads=8, key_length=128, value_length=128,
                         feed_forward=28672, vocabulary=_VOCABULARY),
}  # fmt: skip


class SweptRow(NamedTuple):
    """One line of a sweep, and what it asks."""

    name: str
    """Of the configuration: model, type of its weights, and whether it is eager."""
    line: dict[str, Any]
    question: SpeedQuestion


def swept_rows(path: Path = DATA / SWEEP) -> Iterator[SweptRow]:
    """All of them, loads among them."""
    device = find_device(DEVICE)
    assert device, DEVICE
    chip = gpu_chip(device)
    for text in path.read_text("utf-8").splitlines():
        line = json.loads(text)
        model, packed = line["model"].removesuffix("-gptq"), line["model"].endswith("-gptq")
        eager, fp8 = "--enforce-eager" in line["arguments"], "fp8" in line["arguments"]
        quant = "W4A16" if packed else "FP8" if fp8 else "BF16"
        types = NIBBLES if packed else BYTES if fp8 else HALF
        shape = SHAPES[model]
        load = totals(hf_load(shape, parts_of_shape(shape, storage_of_quant(quant)), types))
        setting = SpeedSetting(
            backend="cuda", family=FAMILY, device=DEVICE, types=types, runtime="vllm", graphs=not eager
        )
        question = SpeedQuestion(load, chip, setting)
        if line["kind"] == "step":
            depth = float(line["depth"]) + _steps_together(line) / 2
            question = question._replace(depth=depth, tokens=float(line["users"]))
        yield SweptRow(f"{model} {quant}{' eager' if eager else ''}", line, question)


def _steps_together(line: dict[str, Any]) -> float:
    """How many tokens each got while all were answered."""
    return max(0.0, float(line["together_s"]) / float(line["step_s"]))


def served_rows(path: Path = DATA / SWEEP) -> list[Measured]:
    """Steps and prompts with recorded graphs; steps in which not all users decoded together teach nothing."""
    found = []
    for name, line, question in swept_rows(path):
        if not question.setting.graphs or line["kind"] == "load":
            continue
        if line["kind"] == "prompt":
            terms = prompt_terms(question, float(line["tokens"]), BATCHED_TOKENS)
            seconds, group = float(line["seconds"]) / float(line["tokens"]), PREFILL
        elif _steps_together(line) < FEWEST_STEPS:
            continue
        else:
            terms, seconds = step_terms(question), float(line["step_s"])
            group = BATCHED if question.tokens > 1 else DEEP if float(question.depth) >= DEEP_FROM else DENSE
        some = tuple(term for term in terms if term.seconds)
        found.append(Measured(DEVICE, group, "cuda", FAMILY, some, seconds, WEIGHT, is_trusted=False, source=name))
    return found


def load_ratios(logs: Mapping[str, float], path: Path = DATA / SWEEP) -> Iterator[tuple[str, float]]:
    """Every load that was measured, by its configuration: predicted over measured tokens per second of all together.

    They ask again as soon as they are answered, so that of their time one part goes to prompts and one to steps.
    """
    for name, line, question in swept_rows(path):
        if line["kind"] != "load" or not question.setting.graphs:
            continue
        users, prompt, answer = (float(line[key]) for key in ("users", "prompt", "answer"))
        step = question._replace(tokens=users, depth=prompt + answer / 2)
        prompt_s = float(total_of_terms(prompt_terms(question, prompt, BATCHED_TOKENS, users), logs))
        seconds = users * prompt * prompt_s + answer * float(total_of_terms(step_terms(step), logs))
        yield name, users * answer / seconds / line["tokens_per_s"]
