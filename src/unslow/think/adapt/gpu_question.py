"""What a case asks of its GPUs, as the physics of decoding takes it."""

import math
import re
from typing import NamedTuple

from unslow.catalog.devices import find_device
from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.think.adapt.bandwidth import backend_name, device_bandwidth, family_of, shares_of
from unslow.think.adapt.exact import plan_of
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import gpus_used
from unslow.think.physics.chip import Chip, Setting
from unslow.think.physics.decode import Device
from unslow.think.physics.kinds import kind_of
from unslow.think.physics.kv_cache import F16_BYTES, element_bytes
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import by_part, least
from unslow.think.speed.builds import is_numbered, year_of
from unslow.think.speed.chips import gpu_chip
from unslow.think.speed.group import DEEP, DEEP_FROM, DENSE, MOE, SEVERAL
from unslow.think.speed.load import model_load
from unslow.think.speed.question import Question, step_terms
from unslow.think.speed.totals import Totals, layer_totals
from unslow.think.speed.types import class_of, class_of_model

RECENT_YEAR = 2026.5
"""Where the version of a runtime says nothing: people diagnose what they run today."""
_BITS_OF_A_WEIGHT = 4.85  # Q4_K_M, where nothing tells the quant
_FLOPS_PER_BYTE = 50.0  # of a GPU that the catalogue does not have


class Asked(NamedTuple):
    """A question of the physics, and how far off the bandwidth in it may be, as a factor."""

    question: Question
    off: float


def gpu_device(case: Case, shape: Shape, placement: Placement, depth: float) -> Device | None:
    """What the GPUs take for a token; None where nothing lies on them."""
    asked = gpu_question(case, shape, placement, depth)
    if asked is None:
        return None
    terms = [term for term in step_terms(asked.question) if term.seconds]
    seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items()}
    return Device(seconds, float(least(terms)), _spread(asked.question, asked.off))


def gpu_question(case: Case, shape: Shape, placement: Placement, depth: float) -> Asked | None:
    """What is asked of the GPUs; None where nothing lies on them."""
    totals = _on_gpus(case, shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return None
    gpus = gpus_used(case)
    if not gpus:
        raise missing("which GPU it is", "run `nvidia-smi -q`")
    chip, off = _chip(case, gpus)
    question = Question(
        totals, chip, _setting(case, gpus[0]), _year(case), depth, _element_bytes(case), gpus=float(len(gpus))
    )
    return Asked(question, off)


def _spread(question: Question, off: float) -> float:
    """Of predictions on devices never seen, as a factor either way; more where the bandwidth is uncertain too."""
    group = SEVERAL if question.gpus > 1 else MOE if question.totals and question.totals.experts > 1 else DENSE
    group = DEEP if group == DENSE and question.depth >= DEEP_FROM else group
    spread = spread_of(group, question.setting.backend)
    return math.sqrt(spread.high / spread.low) * off


def _on_gpus(case: Case, shape: Shape, placement: Placement) -> Totals:
    layers, output = _parts(case, shape)
    held = layers.share(placement.gpu_layers / max(1, shape.layers))
    return held.and_also(output) if placement.output_on_gpu else held


def _parts(case: Case, shape: Shape) -> tuple[Totals, Totals]:
    """All layers, and the output: from the tensors where they are known, else from the shape."""
    plan = plan_of(case)
    if plan is not None:
        load = model_load(plan)
        return layer_totals(load, load.layers, with_output=False), layer_totals(load, (), with_output=True)
    read = shape.layers * shape.layer_bytes * shape.active_share
    bits = _bits(case)
    kind = kind_of(_type_name(case))
    weights = read * 8 / bits
    layers = Totals(
        dense_bytes=read, dense_weights=weights, kinds={kind: weights}, layers=float(shape.layers), width=shape.width,
        expert_layers=float(shape.layers) if shape.active_share < 1 else 0.0,
        full_cache=shape.kv_bytes_per_token / _element_bytes(case),
    )  # fmt: skip
    words = shape.output_bytes * 8 / bits
    return layers, Totals(dense_bytes=shape.output_bytes, dense_weights=words, kinds={kind: words}, width=shape.width)


def _bits(case: Case) -> float:
    parameters = case.model.parameters.value_or(0)
    size = case.model.weights_bytes.value_or(0)
    return min(32.0, max(1.5, size * 8 / parameters)) if parameters and size else _BITS_OF_A_WEIGHT


def _type_name(case: Case) -> str:
    """The type that a quant is mostly made of: Q4_K of Q4_K_M."""
    found = re.match(r"(?i)(?:ud-)?((?:i?q|tq)\d_(?:k|\d|nl|xs|s)|b?f16|mxfp4)", case.model.quant.value_or("Q4_K_M"))
    return found[1].upper() if found else "Q4_K"


def _chip(case: Case, gpus: tuple[Gpu, ...]) -> tuple[Chip, float]:
    """One chip for all, and how far off its bandwidth may be: layers take turns, so the times of unlike GPUs add up."""
    found = [_chip_of(gpu) for gpu in gpus]
    shares = shares_of(case, len(gpus))
    rates = {
        name: 1 / sum(share / getattr(chip, name) for share, (chip, _) in zip(shares, found, strict=True))
        for name in ("bytes_per_s", "flops_per_s", "matrix_flops_per_s")
    }
    return found[0][0]._replace(**rates), max(spread for _, spread in found)


def _chip_of(gpu: Gpu) -> tuple[Chip, float]:
    rate, spread = device_bandwidth(gpu)
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    flops = rate * _FLOPS_PER_BYTE
    return (gpu_chip(known) if known else Chip(rate, flops, flops))._replace(bytes_per_s=rate), spread


def _setting(case: Case, gpu: Gpu) -> Setting:
    plan = plan_of(case)
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return Setting(
        backend=backend_name(case),
        family=family_of(gpu),
        device=known.name if known else "",
        types=class_of_model(plan) if plan else class_of(case.model.quant.value_or("Q4_K_M")),
        fused=case.runtime.flash_attention.value_or(default=True),
        packed_cache=_element_bytes(case) < F16_BYTES,
    )


def _element_bytes(case: Case) -> float:
    types = (case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16"))
    return sum(element_bytes(t) for t in types) / 2


def _year(case: Case) -> float:
    version = case.runtime.version.value_or("")
    return year_of(version) if is_numbered(version) else RECENT_YEAR
