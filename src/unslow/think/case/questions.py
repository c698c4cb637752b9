"""What a case asks of its GPUs and of its CPU, for a token and for a prompt, as physics takes it."""

import math
import re
from typing import NamedTuple

from unslow.catalog.device_names import find_cpu
from unslow.catalog.learned_speed import backends, learned_speed, spread_of
from unslow.facts.machine import Cpu, Gpu
from unslow.facts.model import Blueprint
from unslow.facts.snapshot import Case
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.case.bandwidth import (
    backend_name,
    computing_threads,
    device_bandwidth,
    family_of,
    gpu_split_of,
    has_fast_links,
    host_bandwidth,
    own_cpus,
    quota_of,
    shares_of,
    wanted_threads,
)
from unslow.think.case.demand import cache_types, missing, plan_of
from unslow.think.case.gpus import device_of
from unslow.think.case.instructions import spelled_out
from unslow.think.case.placement import host_link_bytes_per_s
from unslow.think.case.runtime import runs_paged
from unslow.think.case.vram import gpus_used, runtime_sees_gpu
from unslow.think.memo import once
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.physics.decode import EAGER, LAUNCHED_ONE_BY_ONE, ROUND_TRIP, host_decode_terms, overlapped
from unslow.think.physics.links import SPLIT_BY_LAYER, SPLIT_BY_TENSOR
from unslow.think.physics.placement import F16_BYTES, Placement, Shape, element_bytes
from unslow.think.physics.terms import by_part, least_seconds
from unslow.think.physics.token_time import Side, crowding_s, throttling
from unslow.think.physics.weight_types import kind_of, type_class, type_class_of_model
from unslow.think.speed.chips import (
    core_flops_per_s,
    gpu_chip,
    has_links,
    has_peers,
    has_wide_vectors,
    host_chip,
    is_numbered,
    is_server_by_name,
    sound_clock_hz,
    year_of_build,
)
from unslow.think.speed.load import Totals, layer_totals, model_load
from unslow.think.speed.question import USUAL_LINK, Host, SpeedQuestion, host_launch_s, step_terms
from unslow.think.speed.rows import DEEP, DEEP_FROM, DENSE, MOE, SEVERAL

RECENT_YEAR = 2026.5  # Where the version of a runtime says nothing: people diagnose what they run today
TRANSFORMERS = "transformers"
VLLM = "vllm"
OWN_TERMS = (VLLM, "exllama", "mlc", "mlx", TRANSFORMERS)
"""Runtimes of which something was learned apart; the last has its launches, by `overheads`."""
PYTHON_SPREAD = 1.3
"""Of what only launches were learned: kernels are chosen by PyTorch, and the loop around them is the host's pace."""
_BITS_OF_A_WEIGHT = 4.85  # Q4_K_M, where nothing tells the quant
_FLOPS_PER_BYTE = 50.0  # of a GPU that the catalogue does not have


class GpuQuestion(NamedTuple):
    """A question of the physics, and how far off the bandwidth in it may be, as a factor."""

    question: SpeedQuestion
    off: float


@once
def gpu_device(case: Case, shape: Shape, placement: Placement, depth: float) -> Side | None:
    """What the GPUs take for a token; None where nothing lies on them."""
    asked = gpu_question(case, shape, placement, depth)
    if asked is None:
        return None
    question, in_python = asked.question, asked.question.setting.runtime == TRANSFORMERS
    terms = [term for term in step_terms(question) if term.seconds]
    seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items()}
    launches = host_launch_s(question) if not question.setting.graphs else None
    if launches is not None:
        alone = sum(seconds.values())
        seconds[LAUNCHED_ONE_BY_ONE] = float(overlapped(alone, launches)) - alone
    elif in_python:  # a library that generates in Python has a step of its own besides
        seconds[ROUND_TRIP] = seconds.get(ROUND_TRIP, 0.0) + EAGER.step_s
    # Of predictions on devices never seen, as a factor either way; more where the bandwidth is uncertain too
    group = SEVERAL if question.gpus > 1 else MOE if question.totals and question.totals.experts > 1 else DENSE
    group = DEEP if group == DENSE and question.depth >= DEEP_FROM else group
    spread = spread_of(group, question.setting.backend)
    off = math.sqrt(spread.high / spread.low) * asked.off * (PYTHON_SPREAD if in_python else 1.0)
    return Side(seconds, float(least_seconds(terms)), off)


def gpu_question(case: Case, shape: Shape, placement: Placement, depth: float) -> GpuQuestion | None:
    """What is asked of the GPUs; None where nothing lies on them."""
    found = _question_at_the_start(case, shape, placement)
    return found and found._replace(question=found.question._replace(depth=depth))


@once
def _question_at_the_start(case: Case, shape: Shape, placement: Placement) -> GpuQuestion | None:
    totals = held_on_gpus(case, shape, placement)
    return question_about(case, totals, 0.0) if totals.dense_bytes + totals.expert_bytes > 0 else None


def question_about(case: Case, totals: Totals, depth: float) -> GpuQuestion:
    """The question about these parts of a model on the GPUs of a case; MissingFactError where none is known."""
    gpus = gpus_used(case)
    if not gpus:
        raise missing("which GPU it is", spelled_out("{gpu_list}", case))
    tensor = case.runtime.tensor_parallel
    if isinstance(tensor, Unknown) and tensor.absence is Absence.NOT_SUPPORTED and len(gpus) > 1 and runs_paged(case):
        # whoever looked found nothing that tells how it splits
        raise MissingFactError(tensor, "runtime.tensor_parallel")
    crew = gpu_split_of(case, len(gpus))
    chip, off = _chip(case, gpus if crew.cuts_layers else gpus[: crew.gpus], cuts_layers=crew.cuts_layers)
    known = [device_of(gpu) for gpu in gpus]
    question = SpeedQuestion(
        totals, chip, gpu_setting(case, gpus[0]), build_year(case), depth, element_bytes_of(case),
        gpus=float(crew.gpus), split=SPLIT_BY_TENSOR if crew.cuts_layers else SPLIT_BY_LAYER,
        peers=not crew.cuts_layers or all(device is not None and has_peers(device) for device in known),
    )  # fmt: skip
    return GpuQuestion(question, off)


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
        return _parts_of_plan(plan)
    # The type that a quant is mostly made of: Q4_K of Q4_K_M
    found = re.match(r"(?i)(?:ud-)?((?:i?q|tq)\d_(?:k|\d|nl|xs|s)|b?f16|mxfp4)", case.model.quant.value_or("Q4_K_M"))
    kind = kind_of(found[1].upper() if found else "Q4_K")
    parameters, size = case.model.parameters.value_or(0), case.model.weights_bytes.value_or(0)
    bits = min(32.0, max(1.5, size * 8 / parameters)) if parameters and size else _BITS_OF_A_WEIGHT
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


@once
def _parts_of_plan(plan: Blueprint) -> tuple[Totals, Totals]:
    load = model_load(plan)
    return layer_totals(load, load.layers, with_output=False), layer_totals(load, (), with_output=True)


def _chip(case: Case, gpus: tuple[Gpu, ...], *, cuts_layers: bool) -> tuple[Chip, float]:
    """One chip for all, and how far off its bandwidth may be.

    Where each has a part of every layer all wait for the slowest; else they take turns, and the times of unlike GPUs
    add up.
    """
    found = [chip_of_gpu(gpu) for gpu in gpus]
    shares = shares_of(case, len(gpus))
    rates = {}
    for name in ("bytes_per_s", "flops_per_s", "matrix_flops_per_s"):
        each = [getattr(chip, name) for chip, _ in found]
        in_turn = 1 / sum(share / rate for share, rate in zip(shares, each, strict=True))
        rates[name] = min(each) if cuts_layers else in_turn
    return found[0][0]._replace(**rates), max(spread for _, spread in found)


def chip_of_gpu(gpu: Gpu) -> tuple[Chip, float]:
    """One GPU, and how far off its bandwidth may be; MissingFactError where nobody knows it."""
    rate, spread = device_bandwidth(gpu)
    known = device_of(gpu)
    flops = rate * _FLOPS_PER_BYTE
    return (gpu_chip(known) if known else Chip(rate, flops, flops))._replace(bytes_per_s=rate), spread


def gpu_setting(case: Case, gpu: Gpu) -> SpeedSetting:
    """The software on a GPU, as what was learned is looked up."""
    known, linked = device_of(gpu), has_fast_links(case)
    if linked is None:  # then as such modules are built
        linked = known is not None and has_links(known)
    # Whether every kernel is launched by itself: as it was set, else as the runtime does it by default
    return SpeedSetting(
        backend=backend_name(case),
        family=family_of(gpu),
        device=known.name if known else "",
        types=types_of(case),
        fused=case.runtime.flash_attention.value_or(default=True),
        packed_cache=element_bytes_of(case) < F16_BYTES,
        runtime=_runtime(case),
        graphs=not case.runtime.eager.value_or(default=_runtime(case) == TRANSFORMERS),
        linked=linked,
    )


def types_of(case: Case) -> str:
    """The class of the weights' types."""
    plan = plan_of(case)
    return type_class_of_model(plan) if plan else type_class(case.model.quant.value_or("Q4_K_M"))


def _runtime(case: Case) -> str:
    """The runtime where it has terms of its own, or those of its kin; empty for llama.cpp and what is built on it."""
    if runs_paged(case):
        return VLLM
    name = case.runtime.name.value_or("").lower()
    return next((own for own in OWN_TERMS if own in name), "")


def samples_at_once(case: Case) -> bool:
    """Whether the tokens of all conversations are chosen together, on the GPU; what is llama.cpp does it one by one."""
    return bool(_runtime(case))


@once
def element_bytes_of(case: Case) -> float:
    """Of a key or a value."""
    return sum(element_bytes(kind) for kind in cache_types(case)) / 2


def build_year(case: Case) -> float:
    """When the build was made, by its number."""
    version = case.runtime.version.value_or("")
    return year_of_build(version) if is_numbered(version) else RECENT_YEAR


_FAMILIES = ("lpddr", "ddr5", "ddr4", "mrdimm")
"""Of memories, by which arithmetic of the CPUs beside them was learned."""
_WIDE, _SERVER, _ARM = "avx512f", "amx_int8", "asimd"
"""AVX-512, and AMX: servers with both were measured no faster than CPUs with neither."""


class HostWork(NamedTuple):
    """What the CPU takes, and what hinders its threads."""

    side: Side | None
    crowding_s: float = 0.0
    throttling: float = 1.0


@once
def host_work(case: Case, shape: Shape, placement: Placement, depth: float) -> HostWork:
    """What the CPU takes for a token; nothing where nothing lies with it."""
    totals = left_on_host(case, shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return HostWork(None)
    rate, off = host_bandwidth(case)
    chip = chip_of_host(case, rate, computing_threads(case))
    terms = tuple(host_decode_terms(totals.step(depth, element_bytes_of(case)), chip, host_setting(case, placement)))
    seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items() if s}
    threads, cpus = wanted_threads(case), own_cpus(case)
    layers = float(max(totals.layers, totals.expert_layers))
    return HostWork(
        Side(seconds, float(least_seconds(terms)), off * backends()["cpu"].spread),
        crowding_s(layers, threads, cpus),
        throttling(threads, cpus, quota_of(case)[0].value_or(0.0)),
    )


@once
def left_on_host(case: Case, shape: Shape, placement: Placement) -> Totals:
    """The part of the model that lies with the host and that the CPU computes."""
    layers, output = model_parts(case, shape)
    left = layers.without(held_on_gpus(case, shape, placement._replace(output_on_gpu=False, cache_on_gpu=True)))
    return left if placement.output_on_gpu else left.and_also(output)


def host_setting(case: Case, placement: Placement) -> SpeedSetting:
    """The CPU as what was learned is looked up; its family is that of its memory, where that is known."""
    kind = case.machine.memory.kind.value_or("").lower()
    return SpeedSetting(
        "cpu",
        family=next((name for name in _FAMILIES if name in kind), ""),
        types=types_of(case),
        beside_gpu=placement.attending > 0,
        wide_vectors=multiplies_wide(case.machine.cpu),
        tiles=has_tiles(case.machine.cpu),
        server=is_server(case.machine.cpu),
    )


def multiplies_wide(cpu: Cpu) -> bool:
    """Whether a CPU multiplies vectors of 512 bits: by its instructions, by its name where nobody listed them."""
    known = cpu.instruction_sets
    if isinstance(known, Known):
        return _WIDE in known.value and _SERVER not in known.value
    return has_wide_vectors(cpu.model.value_or(""))


def has_tiles(cpu: Cpu) -> bool:
    """Whether a CPU is known to have matrix units that llama.cpp uses (AMX)."""
    return _SERVER in cpu.instruction_sets.value_or([])


def is_server(cpu: Cpu) -> bool:
    """Whether it is one of the servers that have them: by its instructions, by its name where nobody listed them."""
    return has_tiles(cpu) if isinstance(cpu.instruction_sets, Known) else is_server_by_name(cpu.model.value_or(""))


def chip_of_host(case: Case, bytes_per_s: float, threads: float) -> Chip:
    """The CPU of a case with so many threads."""
    return host_chip(bytes_per_s, threads, core_flops_of(case.machine.cpu))


def core_flops_of(cpu: Cpu) -> float:
    """What one of its cores computes: by the highest clock that the system tells, else by that of its kind."""
    kind = find_cpu(cpu.model.value_or(""))
    narrow = kind.narrow_cores if kind else _ARM in cpu.instruction_sets.value_or([])
    return core_flops_per_s(clock_of(cpu), narrow=narrow)


def clock_of(cpu: Cpu) -> float:
    """The highest clock that the system tells, else that of its kind, else the usual one."""
    kind = find_cpu(cpu.model.value_or(""))
    return sound_clock_hz(cpu.frequency_max_hz.value_or(0.0) or (kind.clock_hz if kind else 0.0))


LENDS_FROM = 32
"""A micro-batch of fewer tokens is computed by the host itself (`op_offload_min_batch_size` in llama.cpp)."""


def prompt_question(case: Case, shape: Shape, placement: Placement, each: float) -> SpeedQuestion:
    """The question about a prompt in an empty context, of which so many tokens are computed at once."""
    asked = gpu_question(case, shape, placement, 0.0)
    if asked is not None and not (min(placement.attending, placement.with_experts) < shape.layers):
        return asked.question
    # The output is computed once for a whole prompt, so it stays out of this
    totals = left_on_host(case, shape, placement._replace(output_on_gpu=True))
    host = Host(
        totals,
        chip_of_host(case, host_bandwidth(case)[0], threads_for_prompts(case)),
        host_setting(case, placement),
        link_bytes_per_s=host_link_bytes_per_s(case) or USUAL_LINK,
    )
    if asked is None and host_lends(case, each) and runtime_sees_gpu(case) and gpus_used(case):
        asked = question_about(case, Totals(width=shape.width), 0.0)  # even with no layer there, a GPU computes prompts
    if asked is not None:
        return asked.question._replace(host=host)
    return SpeedQuestion(None, host.chip, host.setting, element_bytes=element_bytes_of(case), host=host)


def host_lends(case: Case, each: float) -> bool:
    """Whether weights in the host's memory are copied to the GPU for a micro-batch, instead of being computed there."""
    return case.runtime.op_offload.value_or(default=True) and each >= LENDS_FROM


def threads_for_prompts(case: Case) -> float:
    """Threads that compute a prompt on the host at once, each on a core, as far as a quota lets them."""
    threads = computing_threads(case, float(case.runtime.threads_batch.value_or(0)))
    quota = quota_of(case)[0].value_or(0.0)
    return min(threads, quota) if quota > 0 else threads
