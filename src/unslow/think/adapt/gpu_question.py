"""What a case asks of its GPUs, as the physics of decoding takes it."""

import math
import re
from typing import NamedTuple

from unslow.catalog.device import Device
from unslow.catalog.devices import find_device
from unslow.catalog.learned_speed import learned_speed, spread_of
from unslow.facts.blueprint import Blueprint
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, MissingFactError, Unknown
from unslow.think.adapt.bandwidth import backend_name, device_bandwidth, family_of, shares_of
from unslow.think.adapt.exact import plan_of
from unslow.think.adapt.remembered import once, remembered
from unslow.think.adapt.runtime_family import runs_paged
from unslow.think.adapt.several_gpus import crew_of, has_fast_links
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import gpus_used
from unslow.think.instructions import spelled_out
from unslow.think.physics.chip import Chip, Setting
from unslow.think.physics.decode import Side
from unslow.think.physics.decoding import ROUND_TRIP
from unslow.think.physics.interconnect import LAYER, TENSOR
from unslow.think.physics.kinds import kind_of
from unslow.think.physics.kv_cache import F16_BYTES, element_bytes
from unslow.think.physics.overheads import EAGER, LAUNCHED_ONE_BY_ONE, overlapped
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import by_part, least
from unslow.think.speed.builds import is_numbered, year_of
from unslow.think.speed.chips import gpu_chip, has_links, has_peers
from unslow.think.speed.group import DEEP, DEEP_FROM, DENSE, MOE, SEVERAL
from unslow.think.speed.load import model_load
from unslow.think.speed.outcome import host_launch_s
from unslow.think.speed.question import Question, step_terms
from unslow.think.speed.totals import Totals, layer_totals
from unslow.think.speed.types import class_of, class_of_model

RECENT_YEAR = 2026.5
"""Where the version of a runtime says nothing: people diagnose what they run today."""
TRANSFORMERS = "transformers"
VLLM = "vllm"
OWN_TERMS = (VLLM, "exllama", "mlc", "mlx", TRANSFORMERS)
"""Runtimes of which something was learned apart; the last has its launches, by `overheads`."""
PYTHON_SPREAD = 1.3
"""Of what only launches were learned: kernels are chosen by PyTorch, and the loop around them is the host's pace."""
_BITS_OF_A_WEIGHT = 4.85  # Q4_K_M, where nothing tells the quant
_FLOPS_PER_BYTE = 50.0  # of a GPU that the catalogue does not have


class Asked(NamedTuple):
    """A question of the physics, and how far off the bandwidth in it may be, as a factor."""

    question: Question
    off: float


@once
def gpu_device(case: Case, shape: Shape, placement: Placement, depth: float) -> Side | None:
    """What the GPUs take for a token; None where nothing lies on them."""
    asked = gpu_question(case, shape, placement, depth)
    if asked is None:
        return None
    terms = [term for term in step_terms(asked.question) if term.seconds]
    seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items()}
    return Side(_with_launches(asked.question, seconds), float(least(terms)), _spread(asked.question, asked.off))


def _with_launches(question: Question, seconds: dict[str, float]) -> dict[str, float]:
    """With what launching one by one adds; a library that generates in Python has a step of its own besides."""
    alone, setting = sum(seconds.values()), question.setting
    launches = host_launch_s(question) if not setting.graphs else None
    if launches is not None:
        return {**seconds, LAUNCHED_ONE_BY_ONE: float(overlapped(alone, launches)) - alone}
    if setting.runtime != TRANSFORMERS:
        return seconds
    return {**seconds, ROUND_TRIP: seconds.get(ROUND_TRIP, 0.0) + EAGER.step_s}


def gpu_question(case: Case, shape: Shape, placement: Placement, depth: float) -> Asked | None:
    """What is asked of the GPUs; None where nothing lies on them."""
    found = _question_at_the_start(case, shape, placement)
    return found and found._replace(question=found.question._replace(depth=depth))


@once
def _question_at_the_start(case: Case, shape: Shape, placement: Placement) -> Asked | None:
    totals = held_on_gpus(case, shape, placement)
    return question_about(case, totals, 0.0) if totals.dense_bytes + totals.expert_bytes > 0 else None


def question_about(case: Case, totals: Totals, depth: float) -> Asked:
    """The question about these parts of a model on the GPUs of a case; MissingFactError where none is known."""
    gpus = gpus_used(case)
    if not gpus:
        raise missing("which GPU it is", spelled_out("{gpu_list}", case))
    _must_tell_its_crew(case, gpus)
    crew = crew_of(case, len(gpus))
    chip, off = _slowest(gpus) if crew.cuts_layers else _chip(case, gpus[: crew.gpus])
    question = Question(
        totals, chip, gpu_setting(case, gpus[0]), build_year(case), depth, element_bytes_of(case),
        gpus=float(crew.gpus), split=TENSOR if crew.cuts_layers else LAYER,
        peers=not crew.cuts_layers or _are_peers(gpus),
    )  # fmt: skip
    return Asked(question, off)


def _must_tell_its_crew(case: Case, gpus: tuple[Gpu, ...]) -> None:
    """MissingFactError where an engine has several GPUs, and whoever looked found nothing that tells how it splits."""
    tensor = case.runtime.tensor_parallel
    if not isinstance(tensor, Unknown) or tensor.absence is not Absence.NOT_SUPPORTED:
        return
    if len(gpus) > 1 and runs_paged(case):
        raise MissingFactError(tensor, "runtime.tensor_parallel")


def _spread(question: Question, off: float) -> float:
    """Of predictions on devices never seen, as a factor either way; more where the bandwidth is uncertain too."""
    group = SEVERAL if question.gpus > 1 else MOE if question.totals and question.totals.experts > 1 else DENSE
    group = DEEP if group == DENSE and question.depth >= DEEP_FROM else group
    spread = spread_of(group, question.setting.backend)
    unlearned = PYTHON_SPREAD if question.setting.runtime == TRANSFORMERS else 1.0
    return math.sqrt(spread.high / spread.low) * off * unlearned


def held_on_gpus(case: Case, shape: Shape, placement: Placement) -> Totals:
    """The part of the model that lies on GPUs."""
    layers, output = model_parts(case, shape)
    every = max(1, shape.layers)
    held = layers.with_experts(placement.with_experts / max(1e-9, placement.attending)).share(
        placement.attending / every
    )
    if not placement.cache_on_gpu:  # it is copied for each token: see `host_cache`
        held = held._replace(full_cache=0.0, windowed_cache=0.0)
    return held.and_also(output) if placement.output_on_gpu else held


@once
def model_parts(case: Case, shape: Shape) -> tuple[Totals, Totals]:
    """All layers, and the output: from the tensors where they are known, else from the shape."""
    plan = plan_of(case)
    if plan is not None:
        return remembered(plan, "parts", lambda: _parts_of_plan(plan))
    bits, kind = _bits(case), kind_of(_type_name(case))
    whole, mixture = shape.layers * shape.layer_bytes, shape.expert_share > 0
    dense, experts = whole * (1 - shape.expert_share), whole * shape.expert_share
    layers = Totals(
        dense_bytes=dense, dense_weights=dense * 8 / bits, kinds={kind: dense * 8 / bits}, layers=float(shape.layers),
        expert_bytes=experts, expert_weights=experts * 8 / bits, expert_kinds={kind: experts * 8 / bits},
        experts=float(case.model.experts.value_or(1)) if mixture else 1.0,
        experts_used=float(case.model.experts_used.value_or(1)) if mixture else 1.0,
        expert_layers=float(shape.layers) if mixture else 0.0, width=shape.width,
        full_cache=shape.kv_bytes_per_token / element_bytes_of(case),
        full_scores=shape.layers * 2 * shape.width,  # every head looks at a key and at a value, which fill the width
    )  # fmt: skip
    words = shape.output_bytes * 8 / bits
    return layers, Totals(
        dense_bytes=shape.output_bytes, dense_weights=words, output_weights=words, kinds={kind: words},
        width=shape.width,
    )  # fmt: skip


def _parts_of_plan(plan: Blueprint) -> tuple[Totals, Totals]:
    load = model_load(plan)
    return layer_totals(load, load.layers, with_output=False), layer_totals(load, (), with_output=True)


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
    found = [chip_of_gpu(gpu) for gpu in gpus]
    shares = shares_of(case, len(gpus))
    rates = {
        name: 1 / sum(share / getattr(chip, name) for share, (chip, _) in zip(shares, found, strict=True))
        for name in ("bytes_per_s", "flops_per_s", "matrix_flops_per_s")
    }
    return found[0][0]._replace(**rates), max(spread for _, spread in found)


def _slowest(gpus: tuple[Gpu, ...]) -> tuple[Chip, float]:
    """The chip that all wait for: each has an equal part of every layer."""
    found = [chip_of_gpu(gpu) for gpu in gpus]
    rates = {
        name: min(getattr(chip, name) for chip, _ in found)
        for name in ("bytes_per_s", "flops_per_s", "matrix_flops_per_s")
    }
    return found[0][0]._replace(**rates), max(spread for _, spread in found)


def _are_peers(gpus: tuple[Gpu, ...]) -> bool:
    """Whether all can read each other's memory, as far as the catalogue knows them."""
    known = [find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0))) for gpu in gpus]
    return all(device is not None and has_peers(device) for device in known)


def _is_linked(case: Case, device: Device | None) -> bool:
    """As the driver tells, else as such modules are built."""
    said = has_fast_links(case)
    return said if said is not None else device is not None and has_links(device)


def chip_of_gpu(gpu: Gpu) -> tuple[Chip, float]:
    """One GPU, and how far off its bandwidth may be; MissingFactError where nobody knows it."""
    rate, spread = device_bandwidth(gpu)
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    flops = rate * _FLOPS_PER_BYTE
    return (gpu_chip(known) if known else Chip(rate, flops, flops))._replace(bytes_per_s=rate), spread


def gpu_setting(case: Case, gpu: Gpu) -> Setting:
    """The software on a GPU, as what was learned is looked up."""
    known = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    return Setting(
        backend=backend_name(case),
        family=family_of(gpu),
        device=known.name if known else "",
        types=types_of(case),
        fused=case.runtime.flash_attention.value_or(default=True),
        packed_cache=element_bytes_of(case) < F16_BYTES,
        runtime=_runtime(case),
        graphs=not _launches_one_by_one(case),
        linked=_is_linked(case, known),
    )


def types_of(case: Case) -> str:
    """The class of the weights' types."""
    plan = plan_of(case)
    return class_of_model(plan) if plan else class_of(case.model.quant.value_or("Q4_K_M"))


def _runtime(case: Case) -> str:
    """The runtime where it has terms of its own, or those of its kin; empty for llama.cpp and what is built on it."""
    if runs_paged(case):
        return VLLM
    name = case.runtime.name.value_or("").lower()
    return next((own for own in OWN_TERMS if own in name), "")


def samples_at_once(case: Case) -> bool:
    """Whether the tokens of all conversations are chosen together, on the GPU; what is llama.cpp does it one by one."""
    return bool(_runtime(case))


def _launches_one_by_one(case: Case) -> bool:
    """Whether every kernel is launched by itself: as it was set, else as the runtime does it by default."""
    return case.runtime.eager.value_or(default=_runtime(case) == TRANSFORMERS)


@once
def element_bytes_of(case: Case) -> float:
    """Of a key or a value."""
    types = (case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16"))
    return sum(element_bytes(t) for t in types) / 2


def build_year(case: Case) -> float:
    """When the build was made, by its number."""
    version = case.runtime.version.value_or("")
    return year_of(version) if is_numbered(version) else RECENT_YEAR
