"""Our own measurements of processors with the embedded engine (lab/cpu_decode.py), as rows to learn from."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.h200_speed.models import named
from lab.speed.table import DATA, TRUSTED_WEIGHT, Measured

from unslow.catalog.architectures import made_up_shapes
from unslow.catalog.device_names import find_cpu
from unslow.catalog.devices import Device
from unslow.facts.machine import Cpu
from unslow.facts.values import GB, reported_fact
from unslow.think.case.physics import has_tiles, is_server, multiplies_wide
from unslow.think.physics.chip import SpeedSetting, type_class_of_model
from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY
from unslow.think.speed.load import model_load, totals
from unslow.think.speed.question import Host, SpeedQuestion, core_flops_per_s, host_chip, prompt_terms, step_terms
from unslow.think.speed.rows import CPU, PREFILL

FILE = "cpu_speed_learning.jsonl"
MODELS = {"llama_135m": "smollm2-135m", "llama_1b": "llama-3.2-1b", "llama_3b": "llama-3.2-3b"}
"""The models of the catalogue that have those shapes."""
PLATFORMS = {("AuthenticAMD", "25", "1"): "EPYC Milan"}
"""What the catalogue calls a processor whose name tells no number, by maker, family and model."""


def processor_rows(path: Path = DATA / FILE) -> list[Measured]:
    """Every figure, weighed so that no device outshouts the others."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [m for line in lines for m in _rows(line)]
    return [m._replace(weight=TRUSTED_WEIGHT / sum(n.group == m.group for n in rows) ** 0.5) for m in rows]


def _rows(line: dict[str, Any]) -> Iterator[Measured]:
    """The answer and the prompt of one configuration."""
    q = question(line)
    sampling = made_up_shapes()[line["shape"]].vocabulary * LOGITS_S_PER_ENTRY
    answer = 1 / statistics.median(line["decode"]) - sampling  # the terms are those of llama-bench, which chooses none
    yield _measured(line, q, CPU, tuple(step_terms(q)), answer)
    prompt = prompt_terms(q._replace(depth=0.0), float(line["prompt_tokens"]))
    yield _measured(line, q, PREFILL, tuple(prompt), 1 / statistics.median(line["prompt"]))


def question(line: dict[str, Any]) -> SpeedQuestion:
    """What a line asks, with the bandwidth that its threads were given."""
    plan = named(f"{MODELS[line['shape']]}@{line['quant']}").blueprint
    cpu = line["cpu"]
    known, facts = platform(cpu), Cpu(instruction_sets=reported_fact(cpu["vectors"], FILE))
    chip = host_chip(statistics.median(line["memory"]) * GB, float(line["threads"]), core_flops_per_s(known.clock_hz))
    setting = SpeedSetting(
        "cpu",
        family=known.family,
        device=device_name(cpu),
        types=type_class_of_model(plan),
        wide_vectors=multiplies_wide(facts),
        tiles=has_tiles(facts),
        server=is_server(facts),
    )
    depth = line["prompt_tokens"] + line["tokens"] / 2
    return SpeedQuestion(None, chip, setting, depth=float(depth), host=Host(totals(model_load(plan)), chip, setting))


def platform(cpu: dict[str, Any]) -> Device:
    """The processor with its memory as the catalogue has it."""
    named_so = PLATFORMS.get((cpu["vendor_id"], cpu["cpu family"], cpu["model"]), cpu["model name"])
    found = find_cpu(named_so)
    if found is None:
        raise LookupError(named_so)
    return found


def device_name(cpu: dict[str, Any]) -> str:
    """The processor as a device that may deviate from its family."""
    return f"{cpu['model name']} family {cpu['cpu family']} model {cpu['model']}, {cpu['processors']} processors"


def _measured(line: dict[str, Any], q: SpeedQuestion, group: str, terms: tuple[Any, ...], seconds: float) -> Measured:
    return Measured(
        device=q.setting.device,
        group=group,
        backend="cpu",
        family=q.setting.family,
        terms=tuple(t for t in terms if t.seconds),
        seconds=seconds,
        weight=1.0,
        is_trusted=False,
        source=f"{line['shape']} {line['quant']} {line['threads']} threads",
    )
