"""A case as the decode formula takes it, as configured or with a cure, and what settings cost beside its reads."""

import statistics
from typing import Any, NamedTuple

import msgspec

from unslow.catalog.learned_speed import learned_speed
from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, Origin, first_known, not_found
from unslow.think.case.bandwidth import backend_name, gpu_split_of, split_anew
from unslow.think.case.demand import fitting_placement, read_shape
from unslow.think.case.placement import (
    FASTEST_BYTES_PER_S,
    cache_on_host,
    computes_all_on_gpus,
    host_link_bytes_per_s,
    host_weights_bytes,
    read_placement,
    read_placement_or_none,
)
from unslow.think.case.questions import gpu_device, host_work
from unslow.think.case.runtime import runs_paged
from unslow.think.case.vram import available_vram_bytes, gpus_used
from unslow.think.memo import once
from unslow.think.physics.links import CROSSINGS_PER_LAYER, copied_cache_s, offload_terms
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import total_of_terms
from unslow.think.physics.token_time import (
    LOGITS_S_PER_ENTRY,
    LOGPROBS_SPREAD,
    SORT_SPREAD,
    Part,
    Work,
    logprobs_s,
    sorting_s,
)

ALL_BYTES = 1e18


class Cure(NamedTuple):
    """What changes when a cause is gone; None leaves the fact as it is. An empty cure is the case as configured."""

    vram_bytes: float | None = None
    """So much memory for the runtime, which places the model anew: output, layers, experts."""
    only_own_memory: bool | None = None
    """The driver lends a GPU nothing of the host's: the runtime places what fits, and the CPU computes the rest."""
    context: float | None = None
    threads: float | None = None
    flash_attention: bool | None = None
    kv_on_gpu: bool | None = None  # The KV cache lies with the layers that it belongs to
    output_on_gpu: bool | None = None
    experts_on_gpu: bool | None = None  # As many experts as the GPU has room for
    ubatch: float | None = None
    plain_sampling: bool | None = None  # No sort of the whole vocabulary, no grammar, no logprobs
    alone: bool | None = None  # Nobody else uses the processors, nor the GPU
    best_split: bool | None = None  # Of several GPUs the fastest hold as much of the model as they can
    one_gpu: bool | None = None  # The whole model on one of the GPUs
    by_layers: bool | None = None  # Whole layers on each GPU, where each had a part of every layer
    graphs: bool | None = None  # Launches are recorded and replayed, the model compiled

    def and_also(self, other: "Cure") -> "Cure":
        """Both cures at once, whichever is first: the larger memory and batch, the shorter context, fewer threads."""
        pairs = {
            name: [v for v in (mine, getattr(other, name)) if v is not None] for name, mine in self._asdict().items()
        }
        chosen = {name: _WHERE_BOTH.get(name, max)(values) if values else None for name, values in pairs.items()}
        return Cure(**chosen)


_WHERE_BOTH = {"context": min, "threads": min}
"""Which of two values counts; the larger where nothing is said, and what either switches on is on."""
EVERYTHING = Cure(vram_bytes=ALL_BYTES)  # As if the GPU had all the memory that the model asks for
AS_USUAL = Cure(kv_on_gpu=True, plain_sampling=True, alone=True, graphs=True)
"""Placed and threaded as it is, with nothing else in the way: what a speed is held against to see whether it lacks."""


@once
def with_settings(case: Case, cure: Cure) -> Case:
    """The case with the settings that a cure changes."""
    runtime, values = case.runtime, dict[str, Any]()
    for name, value in (("threads", cure.threads), ("ubatch", cure.ubatch)):
        if value:
            values[name] = int(value)
    if cure.ubatch and runtime.batch.value_or(0) < cure.ubatch and isinstance(runtime.batch, Known):
        values["batch"] = values["ubatch"]  # which no micro-batch exceeds
    if cure.flash_attention:
        values["flash_attention"] = True
    if cure.best_split:
        values["buffers"] = split_anew(case)
    if (cure.one_gpu or cure.by_layers) and isinstance(runtime.tensor_parallel, Known):
        # No layer is cut, over so many times the stages that there are
        stages = 1 if cure.one_gpu else runtime.tensor_parallel.value
        values["tensor_parallel"] = 1
        values["pipeline_parallel"] = stages * runtime.pipeline_parallel.value_or(1) if stages > 1 else 1
    # Where kernels are not launched one by one, a cure leaves the case as it is
    by_default = "transformers" in runtime.name.value_or("").lower()
    if cure.graphs and runtime.eager.value_or(default=by_default):
        values["eager"] = False
    changed = {name: Known(value, Origin.ESTIMATED, "cured") for name, value in values.items()}
    return msgspec.structs.replace(case, runtime=msgspec.structs.replace(runtime, **changed)) if changed else case


_USUAL_CONTEXT = 4096


@once
def cured_placement(case: Case, shape: Shape, cure: Cure) -> Placement:
    """The placement; MissingFactError where nothing tells how it is and no cure says how it would be."""
    context = case.runtime.context_length.value_or(_USUAL_CONTEXT)
    if (cure.vram_bytes is None and not cure.only_own_memory) or case.machine.gpus.value_or(None) == ():
        placed = read_placement(case, shape)
    else:
        # What so much memory holds, unless more is there already, and is not lent
        memory = cure.vram_bytes if cure.vram_bytes is not None else available_vram_bytes(case)
        placed = fitting_placement(case, shape, memory, context if cure.context is None else cure.context)
        placed = placed._replace(cache_on_gpu=not cache_on_host(case))
        loaded = not cure.only_own_memory and case.runtime.state.value_or("loaded") != "failed"
        if now := read_placement_or_none(case, shape) if loaded else None:
            placed = max(placed, now, key=lambda p: (p.gpu_layers, p.output_on_gpu))
    if cure.experts_on_gpu and placed.with_experts < placed.attending:
        # With as many experts as there was room for, on the layers that the GPU computes anyway
        room = fitting_placement(case, shape, available_vram_bytes(case), context)
        experts = max(placed.with_experts, min(placed.attending, room.with_experts))
        by_bytes = placed.attending * (1 - shape.expert_share) + experts * shape.expert_share
        placed = placed._replace(gpu_layers=by_bytes, expert_layers=experts, dense_layers=placed.attending)
    return placed._replace(
        output_on_gpu=placed.output_on_gpu or bool(cure.output_on_gpu and placed.attending),
        cache_on_gpu=placed.cache_on_gpu or bool(cure.kv_on_gpu),
    )


class Turns(NamedTuple):
    """Tokens per second with the samplers as they are set, and without any."""

    as_set: float
    plain: float


def sampling_turns(case: Case) -> Known[Turns] | None:
    """Both speeds of the trial; None where nobody tried.

    With the samplers as they are set it was timed before as well: where that was faster, answers scatter, and only what
    lies beyond it is the samplers'.
    """
    tried, before = case.run.plain_sampling, case.run.decode_tokens_per_s.value_or(0.0)
    if not isinstance(tried, Known):
        return None
    as_set = max(tried.value.as_set_tokens_per_s, before)
    return Known(Turns(as_set, tried.value.changed_tokens_per_s), tried.origin, tried.source)


SHORT_PROMPT = 256  # A prompt of fewer new tokens tells nothing: starting takes as long as reading it


def prompt_speed(case: Case) -> Fact[float]:
    """Prompt tokens per second: of the long prompt where one was tried; unknown where only short ones were measured."""
    tried = case.run.long_prompt
    if isinstance(tried, Known) and tried.value.tokens >= SHORT_PROMPT and tried.value.seconds > 0:
        return Known(tried.value.tokens / tried.value.seconds, tried.origin, tried.source)
    runs = case.run.completions
    if isinstance(runs, Known) and all(c.prompt_tokens - c.cached_tokens < SHORT_PROMPT for c in runs.value):
        return not_found("only short prompts were measured", "send a prompt of a thousand words or more")
    return first_known(case.run.prefill_tokens_per_s, case.runtime.prefill_tokens_per_s)


def measured_prompt_tokens(case: Case) -> float | None:
    """New tokens of the prompts that tell the speed: of the long one that was tried, else of the long ones among all.

    None where no prompt was long enough, or nobody counted them.
    """
    tried = case.run.long_prompt
    if isinstance(tried, Known) and tried.value.tokens:
        return float(tried.value.tokens)
    new = [c.prompt_tokens - c.cached_tokens for c in case.run.completions.value_or(())]
    long = [tokens for tokens in new if tokens >= SHORT_PROMPT]
    return float(statistics.median(long)) if long else None


COPIES, CROSSINGS, SORTING = "copies of keys and values", "crossings to the host", "sorting the vocabulary"
LOGPROBS = "returning logprobs"
FETCHES = "weights fetched from the host"
USABLE = 0.85  # Of a GPU's memory for weights: an engine needs the rest for keys and values, buffers and itself
_SPREAD = 1.5  # Of copies and crossings: unpinned copies and waits differ that much between hosts


@once
def beside_parts(case: Case, shape: Shape, placement: Placement, cure: Cure, depth: float) -> tuple[Part, ...]:
    """The parts that take any time."""
    traffic = _timed_traffic(case)
    logprobs = traffic.logprobs.value_or(0) if traffic and not cure.plain_sampling else 0
    parts = (
        Part(COPIES, copied_cache_s(cache_away(shape, placement), depth, link_of(case)), _SPREAD),
        Part(CROSSINGS, crossings_s(case, shape, placement), _SPREAD),
        Part(FETCHES, fetched_bytes(case, cure) / link_of(case), _SPREAD),
        Part(SORTING, 0.0 if cure.plain_sampling else _sorting_s(case, shape), SORT_SPREAD),
        Part(LOGPROBS, logprobs_s(logprobs, shape.vocabulary), LOGPROBS_SPREAD),
    )
    return tuple(part for part in parts if part.seconds > 0)


def fetched_bytes(case: Case, cure: Cure) -> float:
    """Bytes of weights that each GPU reads over its link for every step; with more memory, those that still lack it."""
    away = host_weights_bytes(case) if computes_all_on_gpus(case) else 0.0
    if cure.vram_bytes is None or not away:
        return away
    lacking = case.model.weights_bytes.value_or(0) - USABLE * cure.vram_bytes
    return min(away, max(0.0, lacking) / max(1, gpu_split_of(case, len(gpus_used(case))).gpus))


def cache_away(shape: Shape, placement: Placement) -> float:
    """Bytes of a token's keys and values that lie with the host, of layers that a GPU computes."""
    away = 0.0 if placement.cache_on_gpu else placement.attending
    return shape.kv_bytes_per_token * away / max(1, shape.layers)


@once
def link_of(case: Case) -> float:
    """What the link between host and GPU copies; the fastest that there is where nobody looked."""
    return host_link_bytes_per_s(case) or FASTEST_BYTES_PER_S


@once
def crossings_s(case: Case, shape: Shape, placement: Placement) -> float:
    """Seconds of a step for changing between GPU and host: once for whole layers, there and back for parts of one."""
    if not placement.attending:
        return 0.0
    apart = placement.attending - placement.with_experts
    whole = 1.0 if placement.attending < shape.layers else 0.0
    cached = 0.0 if placement.cache_on_gpu else CROSSINGS_PER_LAYER * placement.attending
    count = CROSSINGS_PER_LAYER * apart + whole + cached + (not placement.output_on_gpu)
    return float(total_of_terms(offload_terms(count, backend_name(case)), learned_speed().factors))


def _sorting_s(case: Case, shape: Shape) -> float:
    """What samplers add to a token: as tried, else a sort of all entries where `top_k` asks for one."""
    tried = sampling_turns(case)
    if tried and min(tried.value) > 0:
        return max(0.0, 1 / tried.value.as_set - 1 / tried.value.plain)
    traffic = _timed_traffic(case)
    asked = traffic.top_k if traffic and isinstance(traffic.top_k, Known) else case.runtime.top_k
    return sorting_s(shape.vocabulary) if asked.value_or(1) <= 0 else 0.0


def _timed_traffic(case: Case) -> Traffic | None:
    traffic = case.run.traffic
    return traffic.value if isinstance(traffic, Known) and not isinstance(case.run.completions, Known) else None


def work(case: Case, cure: Cure | None = None) -> Work:
    """The case as the decode formula takes it: as configured, or with a cure applied."""
    cure = cure or Cure()
    case = with_settings(case, cure)
    shape, depth = read_shape(case), depth_of(case)
    placement = cured_placement(case, shape, cure)
    host = host_work(case, shape, placement, depth)
    return Work(
        device=gpu_device(case, shape, placement, depth),
        host=host.side,
        vocabulary=shape.vocabulary,
        logits_s_per_entry=0.0 if runs_paged(case) else LOGITS_S_PER_ENTRY,  # such engines sample on the GPU
        crowding_s=host.crowding_s,
        throttling=host.throttling,
        beside=beside_parts(case, shape, placement, cure, depth),
    )


def depth_of(case: Case) -> float:
    """How far into the context the measurement ran."""
    return case.run.depth_tokens.value_or(0)
