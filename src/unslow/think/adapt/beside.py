"""What settings cost a token beside what it reads and computes: copies of the cache, crossings, sorting."""

from unslow.catalog.learned_speed import learned_speed
from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import backend_name
from unslow.think.adapt.cure import Cure
from unslow.think.adapt.host_weights import FASTEST_BYTES_PER_S, host_link_bytes_per_s, host_weights_bytes
from unslow.think.adapt.placement import computes_all_on_gpus
from unslow.think.adapt.remembered import once
from unslow.think.adapt.sampling_trial import sampling_turns
from unslow.think.adapt.several_gpus import crew_of
from unslow.think.adapt.vram import gpus_used
from unslow.think.physics.decode import Part
from unslow.think.physics.host_cache import CROSSINGS_PER_LAYER, copied_cache_s, prompt_copies_s
from unslow.think.physics.interconnect import offload_terms
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.sampling import LOGPROBS_SPREAD, SORT_SPREAD, logprobs_s, sorting_s
from unslow.think.physics.terms import total

COPIES, CROSSINGS, SORTING = "copies of keys and values", "crossings to the host", "sorting the vocabulary"
LOGPROBS = "returning logprobs"
FETCHES = "weights fetched from the host"
USABLE = 0.85
"""Of a GPU's memory for weights: an engine needs the rest for keys and values, buffers and itself."""
_SPREAD = 1.5
"""Of copies and crossings: unpinned copies and waits differ that much between hosts."""


@once
def beside_parts(case: Case, shape: Shape, placement: Placement, cure: Cure, depth: float) -> tuple[Part, ...]:
    """The parts that take any time."""
    parts = (
        Part(COPIES, cache_copies_s(case, shape, placement, depth), _SPREAD),
        Part(CROSSINGS, crossings_s(case, shape, placement), _SPREAD),
        Part(FETCHES, fetched_bytes(case, cure) / link_of(case), _SPREAD),
        Part(SORTING, 0.0 if cure.plain_sampling else _sorting_s(case, shape), SORT_SPREAD),
        Part(LOGPROBS, 0.0 if cure.plain_sampling else _logprobs_s(case, shape), LOGPROBS_SPREAD),
    )
    return tuple(part for part in parts if part.seconds > 0)


def fetched_bytes(case: Case, cure: Cure) -> float:
    """Bytes of weights that each GPU reads over its link for every step; with more memory, those that still lack it."""
    away = host_weights_bytes(case) if computes_all_on_gpus(case) else 0.0
    if cure.vram_bytes is None or not away:
        return away
    lacking = case.model.weights_bytes.value_or(0) - USABLE * cure.vram_bytes
    return min(away, max(0.0, lacking) / max(1, crew_of(case, len(gpus_used(case))).gpus))


def cache_copies_s(case: Case, shape: Shape, placement: Placement, depth: float) -> float:
    """Seconds of a token for keys and values that the host has and a GPU needs."""
    return copied_cache_s(_cache_away(shape, placement), depth, link_of(case))


def prompt_cache_copies_s(case: Case, shape: Shape, placement: Placement, tokens: float, each: float) -> float:
    """The same for each token of a prompt, of which so many are computed at once."""
    return prompt_copies_s(_cache_away(shape, placement), tokens, each, link_of(case))


def _cache_away(shape: Shape, placement: Placement) -> float:
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
    return float(total(offload_terms(count, backend_name(case)), learned_speed().factors))


def _sorting_s(case: Case, shape: Shape) -> float:
    """What samplers add to a token: as tried, else a sort of all entries where `top_k` asks for one."""
    tried = sampling_turns(case)
    if tried and min(tried.value) > 0:
        return max(0.0, 1 / tried.value.as_set - 1 / tried.value.plain)
    traffic = _timed_traffic(case)
    asked = traffic.top_k if traffic and isinstance(traffic.top_k, Known) else case.runtime.top_k
    return sorting_s(shape.vocabulary) if asked.value_or(1) <= 0 else 0.0


def _logprobs_s(case: Case, shape: Shape) -> float:
    """What the logprobs cost that clients ask for."""
    traffic = _timed_traffic(case)
    return logprobs_s(traffic.logprobs.value_or(0), shape.vocabulary) if traffic else 0.0


def _timed_traffic(case: Case) -> Traffic | None:
    """The requests of others, where it is them that were timed."""
    traffic = case.run.traffic
    return traffic.value if isinstance(traffic, Known) and not isinstance(case.run.completions, Known) else None
