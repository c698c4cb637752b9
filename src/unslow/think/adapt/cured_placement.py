"""Where the weights and the cache of a case lie, as configured or with a cure applied."""

from unslow.facts.snapshot import Case
from unslow.think.adapt.cure import Cure
from unslow.think.adapt.demand import fitting_placement
from unslow.think.adapt.placement import cache_on_host, read_placement, read_placement_or_none
from unslow.think.adapt.remembered import once
from unslow.think.adapt.vram import available_vram_bytes
from unslow.think.physics.placement import Placement, Shape

_USUAL_CONTEXT = 4096


@once
def cured_placement(case: Case, shape: Shape, cure: Cure) -> Placement:
    """The placement; MissingFactError where nothing tells how it is and no cure says how it would be."""
    stays = (cure.vram_bytes is None and not cure.only_own_memory) or case.machine.gpus.value_or(None) == ()
    placed = read_placement(case, shape) if stays else _refitted(case, shape, cure)
    if cure.experts_on_gpu and placed.with_experts < placed.attending:
        placed = _with_experts(case, shape, placed)
    return placed._replace(
        output_on_gpu=placed.output_on_gpu or bool(cure.output_on_gpu and placed.attending),
        cache_on_gpu=placed.cache_on_gpu or bool(cure.kv_on_gpu),
    )


def _refitted(case: Case, shape: Shape, cure: Cure) -> Placement:
    """What so much memory holds, unless more is there already, and is not lent."""
    memory = cure.vram_bytes if cure.vram_bytes is not None else available_vram_bytes(case)
    best = fitting_placement(case, shape, memory, _context(case, cure))
    best = best._replace(cache_on_gpu=not cache_on_host(case))
    if cure.only_own_memory:
        return best
    now = read_placement_or_none(case, shape) if case.runtime.state.value_or("loaded") != "failed" else None
    return max(best, now, key=lambda p: (p.gpu_layers, p.output_on_gpu)) if now else best


def _with_experts(case: Case, shape: Shape, placed: Placement) -> Placement:
    """With as many experts as there was room for, on the layers that the GPU computes anyway."""
    room = fitting_placement(case, shape, available_vram_bytes(case), _context(case, Cure()))
    experts = max(placed.with_experts, min(placed.attending, room.with_experts))
    by_bytes = placed.attending * (1 - shape.expert_share) + experts * shape.expert_share
    return placed._replace(gpu_layers=by_bytes, expert_layers=experts, dense_layers=placed.attending)


def _context(case: Case, cure: Cure) -> float:
    return cure.context if cure.context is not None else case.runtime.context_length.value_or(_USUAL_CONTEXT)
