"""What a case asks of its GPUs and of its CPU, for a token and for a prompt, as physics takes it."""

import math
import re
from functools import cached_property
from typing import NamedTuple

from unslow.catalog.device_names import find_cpu
from unslow.catalog.learned_speed import backends, learned_speed, spread_of
from unslow.facts.machine import Cpu, Gpu
from unslow.facts.model import Blueprint
from unslow.facts.run import Traffic
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.device import device_bandwidth, device_of, family_of
from unslow.think.case.gpus import FASTEST_BYTES_PER_S
from unslow.think.case.group import Group, missing, remember
from unslow.think.memo import once
from unslow.think.physics import token_time
from unslow.think.physics.chip import Chip, SpeedSetting, kind_of, type_class, type_class_of_model
from unslow.think.physics.decode import EAGER, LAUNCHED_ONE_BY_ONE, ROUND_TRIP, host_decode_terms, overlapped_s
from unslow.think.physics.placement import (
    CROSSINGS_PER_LAYER,
    F16_BYTES,
    SPLIT_BY_LAYER,
    SPLIT_BY_TENSOR,
    Placement,
    Shape,
    copied_cache_s,
    element_bytes,
    offload_terms,
)
from unslow.think.physics.terms import by_part, least_seconds, total_of_terms
from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY, Part, Side, Work
from unslow.think.speed.load import Totals, layer_totals, model_load
from unslow.think.speed.question import (
    USUAL_LINK,
    Host,
    SpeedQuestion,
    core_flops_per_s,
    gpu_chip,
    has_links,
    has_peers,
    has_wide_vectors,
    host_chip,
    host_launch_s,
    is_server_by_name,
    sound_clock_hz,
    step_terms,
)
from unslow.think.speed.rows import DEEP, DEEP_FROM, DENSE, MOE, SEVERAL

TRANSFORMERS = "transformers"
VLLM = "vllm"
OWN_TERMS = (VLLM, "exllama", "mlc", "mlx", TRANSFORMERS)
OWN_CPU_TERMS = ("mlx",)  # Those whose kernels for CPUs were measured too
"""Runtimes of which something was learned apart; the last has its launches, by `overheads`."""
HOST_PACE_SPREAD = 1.3
"""Where the host launches one kernel after the other: hosts differ that much; and of a loop in Python, around kernels
that PyTorch chooses, only launches were learned."""
_MAIN_TYPE = re.compile(r"(?i)(?:ud-)?((?:i?q|tq)\d_(?:k|\d|nl|xs|s)|b?f16|mxfp4)")
"""The type that a quant is mostly made of: Q4_K of Q4_K_M."""
_BITS_OF_A_WEIGHT = 4.85  # Q4_K_M, where nothing tells the quant
_FLOPS_PER_BYTE = 50.0  # of a GPU that the catalog does not have


class GpuQuestion(NamedTuple):
    """A question of the physics, and how far off the bandwidth in it may be, as a factor."""

    question: SpeedQuestion
    off: float


_FAMILIES = ("lpddr", "ddr5", "ddr4", "mrdimm")  # Of memories, by which arithmetic of the CPUs beside them was learned
_WIDE, _SERVER, _ARM = "avx512f", "amx_int8", "asimd"
"""AVX-512, and AMX: servers with both were measured no faster than CPUs with neither."""


class HostWork(NamedTuple):
    """What the CPU takes, and what hinders its threads."""

    side: Side | None
    crowding_s: float = 0.0
    throttling: float = 1.0


LENDS_FROM = 32
"""A micro-batch of fewer tokens is computed by the host itself (`op_offload_min_batch_size` in llama.cpp)."""
COPIES, CROSSINGS, SORTING = "copies of keys and values", "crossings to the host", "sorting the vocabulary"
LOGPROBS = "returning logprobs"
FETCHES = "weights fetched from the host"
USABLE = 0.85  # Of a GPU's memory for weights: an engine needs the rest for keys and values, buffers and itself
_SPREAD = 1.5  # Of copies and crossings: unpinned copies and waits differ that much between hosts


class PhysicsView(Group):
    """The case in the terms of physics."""

    @remember
    def gpu_device(self, shape: Shape, placement: Placement, depth: float) -> Side | None:
        """What the GPUs take for a token; None where nothing lies on them."""
        asked = self.gpu_question(shape, placement, depth)
        if asked is None:
            return None
        question, in_python = asked.question, asked.question.setting.runtime == TRANSFORMERS
        terms = [term for term in step_terms(question) if term.seconds]
        seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items()}
        launches = host_launch_s(question) if not question.setting.graphs or question.setting.pieces else None
        at_host_pace = float(in_python)  # the part of the time
        if launches is not None:
            alone = sum(seconds.values())
            seconds[LAUNCHED_ONE_BY_ONE] = float(overlapped_s(alone, launches)) - alone
            at_host_pace = max(at_host_pace, 1 - alone / sum(seconds.values()))
        elif in_python:  # a library that generates in Python has a step of its own besides
            seconds[ROUND_TRIP] = seconds.get(ROUND_TRIP, 0.0) + EAGER.step_s
        # Of predictions on devices never seen, as a factor either way; more where the bandwidth is uncertain too
        group = SEVERAL if question.gpus > 1 else MOE if question.totals and question.totals.experts > 1 else DENSE
        group = DEEP if group == DENSE and question.depth >= DEEP_FROM else group
        spread = spread_of(group, question.setting.backend)
        off = math.sqrt(spread.high / spread.low) * asked.off * HOST_PACE_SPREAD**at_host_pace
        return Side(seconds, float(least_seconds(terms)), off)

    def gpu_question(self, shape: Shape, placement: Placement, depth: float) -> GpuQuestion | None:
        """What is asked of the GPUs; None where nothing lies on them."""
        found = self._question_at_the_start(shape, placement)
        return found and found._replace(question=found.question._replace(depth=depth))

    @remember
    def _question_at_the_start(self, shape: Shape, placement: Placement) -> GpuQuestion | None:
        totals = self.held_on_gpus(shape, placement)
        return self.question_about(totals, 0.0) if totals.dense_bytes + totals.expert_bytes > 0 else None

    def question_about(self, totals: Totals, depth: float) -> GpuQuestion:
        """The question about these parts of a model on the GPUs of a case; MissingFactError where none is known."""
        gpus = self.case.gpus.in_use
        if not gpus:
            raise missing("which GPU it is", self.case.system.spell_out("{gpu_list}"))
        tensor = self.runtime.placement.tensor_parallel
        splits = len(gpus) > 1 and self.case.engine.runs_paged
        if splits and isinstance(tensor, Unknown) and tensor.absence is Absence.NOT_SUPPORTED:
            # whoever looked found nothing that tells how it splits
            raise MissingFactError(tensor, "runtime.placement.tensor_parallel")
        crew = self.case.gpus.split_over(len(gpus))
        chip, off = self._chip(gpus if crew.cuts_layers else gpus[: crew.gpus], cuts_layers=crew.cuts_layers)
        known = [device_of(gpu) for gpu in gpus]
        question = SpeedQuestion(
            totals, chip, self.gpu_setting(gpus[0]), self.case.engine.build_year, depth, self.cache_element_bytes,
            gpus=float(crew.gpus), split=SPLIT_BY_TENSOR if crew.cuts_layers else SPLIT_BY_LAYER,
            peers=not crew.cuts_layers or all(device is not None and has_peers(device) for device in known),
        )  # fmt: skip
        return GpuQuestion(question, off)

    def held_on_gpus(self, shape: Shape, placement: Placement) -> Totals:
        """The part of the model that is on GPUs."""
        layers, output = self.model_parts(shape)
        experts = placement.with_experts / max(1e-9, placement.attending)
        held = layers.with_experts(experts).share(placement.attending / max(1, shape.layers))
        if not placement.cache_on_gpu:  # it is copied for each token: see `host_cache`
            held = held._replace(full_cache=0.0, windowed_cache=0.0)
        return held.and_also(output) if placement.output_on_gpu else held

    @remember
    def model_parts(self, shape: Shape) -> tuple[Totals, Totals]:
        """All layers, and the output: from the tensors where they are known, else from the shape."""
        plan = self.case.memory.blueprint
        if plan is not None:
            return _parts_of_plan(plan)
        found = _MAIN_TYPE.match(self.model.quant.value_or("Q4_K_M"))
        kind = kind_of(found[1].upper() if found else "Q4_K")
        parameters, size = self.model.parameters.value_or(0), self.model.weights_bytes.value_or(0)
        bits = min(32.0, max(1.5, size * 8 / parameters)) if parameters and size else _BITS_OF_A_WEIGHT
        whole, mixture = shape.layers * shape.layer_bytes, shape.expert_share > 0
        dense, experts = whole * (1 - shape.expert_share), whole * shape.expert_share
        layers = Totals(
            dense_bytes=dense, dense_weights=dense * 8 / bits, kinds={kind: dense * 8 / bits},
            layers=float(shape.layers),
            expert_bytes=experts, expert_weights=experts * 8 / bits, expert_kinds={kind: experts * 8 / bits},
            experts=float(self.model.experts.value_or(1)) if mixture else 1.0,
            experts_used=float(self.model.experts_used.value_or(1)) if mixture else 1.0,
            expert_layers=float(shape.layers) if mixture else 0.0, width=shape.width,
            full_cache=shape.kv_bytes_per_token / self.cache_element_bytes,
            full_scores=shape.layers * 2 * shape.width,  # every head looks at a key and a value, which fill the width
        )  # fmt: skip
        words = shape.output_bytes * 8 / bits
        return layers, Totals(
            dense_bytes=shape.output_bytes, dense_weights=words, output_weights=words, kinds={kind: words},
            width=shape.width,
        )  # fmt: skip

    def _chip(self, gpus: tuple[Gpu, ...], *, cuts_layers: bool) -> tuple[Chip, float]:
        """One chip for all, and how far off its bandwidth may be.

        Where each has a part of every layer, all wait for the slowest; else they take turns, and times of unlike GPUs
        add up.
        """
        found = [chip_of_gpu(gpu) for gpu in gpus]
        shares = self.case.gpus.weight_shares(len(gpus))
        rates = {}
        for name in ("bytes_per_s", "flops_per_s", "matrix_flops_per_s"):
            each = [getattr(chip, name) for chip, _ in found]
            in_turn = 1 / sum(share / rate for share, rate in zip(shares, each, strict=True))
            rates[name] = min(each) if cuts_layers else in_turn
        return found[0][0]._replace(**rates), max(spread for _, spread in found)

    def gpu_setting(self, gpu: Gpu) -> SpeedSetting:
        """The software on a GPU, as what was learned is looked up."""
        known, linked = device_of(gpu), self.case.gpus.have_fast_links
        if linked is None:  # then as such modules are built
            linked = known is not None and has_links(known)
        # Whether every kernel is launched by itself: as it was set, else as the runtime does it by default
        return SpeedSetting(
            backend=self.case.gpus.backend,
            family=family_of(gpu),
            device=known.name if known else "",
            types=self.type_class,
            fused=self.runtime.compute.flash_attention.value_or(default=True),
            packed_cache=self.cache_element_bytes < F16_BYTES,
            runtime=self.learned_runtime,
            graphs=not self.runtime.compute.eager.value_or(default=self.learned_runtime == TRANSFORMERS),
            pieces=self.case.engine.graphs_without_attention,
            linked=linked,
        )

    @cached_property
    def type_class(self) -> str:
        """The class of the weights' types."""
        plan = self.case.memory.blueprint
        return type_class_of_model(plan) if plan else type_class(self.model.quant.value_or("Q4_K_M"))

    @cached_property
    def learned_runtime(self) -> str:
        """The runtime where it has learned terms of its own; empty for llama.cpp and what is built on it."""
        if self.case.engine.runs_paged:
            return VLLM
        name = self.runtime.name.value_or("").lower()
        return next((own for own in OWN_TERMS if own in name), "")

    @cached_property
    def cache_element_bytes(self) -> float:
        """Of a key or a value."""
        return sum(element_bytes(kind) for kind in self.case.memory.cache_types) / 2

    @remember
    def host_work(self, shape: Shape, placement: Placement, depth: float) -> HostWork:
        """What the CPU takes for a token; nothing where nothing lies with it."""
        totals = self.left_on_host(shape, placement)
        if totals.dense_bytes + totals.expert_bytes <= 0:
            return HostWork(None)
        rate, off = self.case.host.bandwidth
        chip = self.host_chip(rate, self.case.host.computing_threads())
        step = totals.step(depth, self.cache_element_bytes)
        terms = tuple(host_decode_terms(step, chip, self.host_setting(placement)))
        seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items() if s}
        threads, cpus = self.case.host.wanted_threads, self.case.host.own_cpus
        layers = float(max(totals.layers, totals.expert_layers))
        return HostWork(
            Side(seconds, float(least_seconds(terms)), off * backends()["cpu"].spread),
            token_time.crowding_s(layers, threads, cpus, openmp=self.runtime.build.openmp.value_or(default=True)),
            token_time.throttling(threads, cpus, self.case.host.quota[0].value_or(0.0)),
        )

    @remember
    def left_on_host(self, shape: Shape, placement: Placement) -> Totals:
        """The part of the model that is on the host and that the CPU computes."""
        layers, output = self.model_parts(shape)
        left = layers.without(self.held_on_gpus(shape, placement._replace(output_on_gpu=False, cache_on_gpu=True)))
        return left if placement.output_on_gpu else left.and_also(output)

    def host_setting(self, placement: Placement) -> SpeedSetting:
        """The CPU as what was learned is looked up; its family is that of its memory, where that is known."""
        kind = self.machine.memory.kind.value_or("").lower()
        return SpeedSetting(
            "cpu",
            family=next((name for name in _FAMILIES if name in kind), ""),
            types=self.type_class,
            runtime=self.learned_runtime if self.learned_runtime in OWN_CPU_TERMS else "",
            beside_gpu=placement.attending > 0,
            wide_vectors=multiplies_wide(self.machine.cpu),
            tiles=has_tiles(self.machine.cpu),
            server=is_server(self.machine.cpu),
        )

    def host_chip(self, bytes_per_s: float, threads: float) -> Chip:
        """The CPU of a case with this many threads."""
        return host_chip(bytes_per_s, threads, core_flops_of(self.machine.cpu))

    def prompt_question(self, shape: Shape, placement: Placement, each: float) -> SpeedQuestion:
        """The question about a prompt in an empty context, of which `each` tokens are computed at once."""
        asked = self.gpu_question(shape, placement, 0.0)
        if asked is not None and not (min(placement.attending, placement.with_experts) < shape.layers):
            return asked.question
        # The output is computed once for a whole prompt, so it stays out of this
        totals = self.left_on_host(shape, placement._replace(output_on_gpu=True))
        host = Host(
            totals,
            self.host_chip(self.case.host.bandwidth[0], self.threads_for_prompts),
            self.host_setting(placement),
            link_bytes_per_s=self.case.gpus.host_link_bytes_per_s or USUAL_LINK,
        )
        has_gpu = self.case.gpus.visible_to_runtime and self.case.gpus.in_use
        if asked is None and has_gpu and self.host_lends_weights(each):  # with no layer there it computes prompts too
            asked = self.question_about(Totals(width=shape.width), 0.0)
        if asked is not None:
            return asked.question._replace(host=host)
        return SpeedQuestion(None, host.chip, host.setting, element_bytes=self.cache_element_bytes, host=host)

    def host_lends_weights(self, each: float) -> bool:
        """Whether weights in host memory are copied to the GPU for a micro-batch instead of being computed there."""
        return self.runtime.placement.op_offload.value_or(default=True) and each >= LENDS_FROM

    @cached_property
    def threads_for_prompts(self) -> float:
        """Threads that compute a prompt on the host at once, each on a core, as far as a quota lets them."""
        threads = self.case.host.computing_threads(float(self.runtime.compute.threads_batch.value_or(0)))
        quota = self.case.host.quota[0].value_or(0.0)
        return min(threads, quota) if quota > 0 else threads

    @remember
    def beside_parts(self, shape: Shape, placement: Placement, cure: Cure, depth: float) -> tuple[Part, ...]:
        """The parts that take any time."""
        traffic = self._timed_traffic
        logprobs = traffic.logprobs.value_or(0) if traffic and not cure.plain_sampling else 0
        parts = (
            Part(COPIES, copied_cache_s(cache_away(shape, placement), depth, self.link_bytes_per_s), _SPREAD),
            Part(CROSSINGS, self.crossings_s(shape, placement), _SPREAD),
            Part(FETCHES, self.fetched_bytes(cure) / self.link_bytes_per_s, _SPREAD),
            Part(SORTING, 0.0 if cure.plain_sampling else self._sorting_s(shape), token_time.SORT_SPREAD),
            Part(LOGPROBS, token_time.logprobs_s(logprobs, shape.vocabulary), token_time.LOGPROBS_SPREAD),
        )
        return tuple(part for part in parts if part.seconds > 0)

    def fetched_bytes(self, cure: Cure) -> float:
        """Bytes of weights that each GPU fetches over its link for every step; with a cure, what still doesn't fit."""
        away = self.case.placement.host_weights_bytes if self.case.placement.computes_all_on_gpus else 0.0
        if cure.vram_bytes is None or not away:
            return away
        lacking = self.model.weights_bytes.value_or(0) - USABLE * cure.vram_bytes
        return min(away, max(0.0, lacking) / max(1, self.case.gpus.split_over(len(self.case.gpus.in_use)).gpus))

    @cached_property
    def link_bytes_per_s(self) -> float:
        """What the link between host and GPU copies; the fastest one where not measured."""
        return self.case.gpus.host_link_bytes_per_s or FASTEST_BYTES_PER_S

    @remember
    def crossings_s(self, shape: Shape, placement: Placement) -> float:
        """Seconds of a step for crossing between GPU and host: once for whole layers, there and back for parts."""
        if not placement.attending:
            return 0.0
        apart = placement.attending - placement.with_experts
        whole = 1.0 if placement.attending < shape.layers else 0.0
        cached = 0.0 if placement.cache_on_gpu else CROSSINGS_PER_LAYER * placement.attending
        count = CROSSINGS_PER_LAYER * apart + whole + cached + (not placement.output_on_gpu)
        return float(total_of_terms(offload_terms(count, self.case.gpus.backend), learned_speed().factors))

    def _sorting_s(self, shape: Shape) -> float:
        """What samplers add to a token: as tried, else a sort of all entries where `top_k` asks for one."""
        tried = self.case.speed.sampling_turns
        if tried and min(tried.value) > 0:
            return max(0.0, 1 / tried.value.as_set - 1 / tried.value.plain)
        traffic = self._timed_traffic
        asked = traffic.top_k if traffic and isinstance(traffic.top_k, Known) else self.runtime.sampling.top_k
        return token_time.sorting_s(shape.vocabulary) if asked.value_or(1) <= 0 else 0.0

    @cached_property
    def _timed_traffic(self) -> Traffic | None:
        traffic = self.run.traffic
        return traffic.value if isinstance(traffic, Known) and not isinstance(self.run.completions, Known) else None

    def work(self, cure: Cure | None = None) -> Work:
        """The case as the decode formula takes it: as configured, or with a cure applied."""
        cure = cure or Cure()
        case = self.case.with_cure(cure)
        shape, depth = case.memory.shape, case.speed.depth
        placement = case.placement.with_cure(shape, cure)
        host = case.physics.host_work(shape, placement, depth)
        return Work(
            device=case.physics.gpu_device(shape, placement, depth),
            host=host.side,
            vocabulary=shape.vocabulary,
            logits_s_per_entry=0.0 if case.engine.runs_paged else LOGITS_S_PER_ENTRY,  # such engines sample on the GPU
            crowding_s=host.crowding_s,
            throttling=host.throttling,
            beside=case.physics.beside_parts(shape, placement, cure, depth),
        )


@once
def _parts_of_plan(plan: Blueprint) -> tuple[Totals, Totals]:
    load = model_load(plan)
    return layer_totals(load, load.layers, with_output=False), layer_totals(load, (), with_output=True)


def chip_of_gpu(gpu: Gpu) -> tuple[Chip, float]:
    """One GPU, and how far off its bandwidth may be; MissingFactError where nobody knows it."""
    rate, spread = device_bandwidth(gpu)
    known = device_of(gpu)
    flops = rate * _FLOPS_PER_BYTE
    return (gpu_chip(known) if known else Chip(rate, flops, flops))._replace(bytes_per_s=rate), spread


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


def core_flops_of(cpu: Cpu) -> float:
    """What one of its cores computes: by the highest clock that the system tells, else by that of its kind."""
    kind = find_cpu(cpu.model.value_or(""))
    narrow = kind.narrow_cores if kind else _ARM in cpu.instruction_sets.value_or([])
    return core_flops_per_s(clock_of(cpu), narrow=narrow)


def clock_of(cpu: Cpu) -> float:
    """The highest clock that the system tells, else that of its kind, else the usual one."""
    kind = find_cpu(cpu.model.value_or(""))
    return sound_clock_hz(cpu.frequency_max_hz.value_or(0.0) or (kind.clock_hz if kind else 0.0))


def cache_away(shape: Shape, placement: Placement) -> float:
    """Bytes of a token's keys and values that lie with the host, of layers that a GPU computes."""
    away = 0.0 if placement.cache_on_gpu else placement.attending
    return shape.kv_bytes_per_token * away / max(1, shape.layers)
