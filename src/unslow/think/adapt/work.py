"""A case as the decode formula takes it: as configured, or with a cure applied."""

from unslow.facts.snapshot import Case
from unslow.think.adapt.beside import beside_parts
from unslow.think.adapt.cure import EVERYTHING, Cure, with_settings
from unslow.think.adapt.cured_placement import cured_placement
from unslow.think.adapt.gpu_question import gpu_device
from unslow.think.adapt.host_question import host_work
from unslow.think.adapt.runtime_family import runs_paged
from unslow.think.adapt.shape import read_shape
from unslow.think.physics.decode import Work
from unslow.think.physics.sampling import LOGITS_S_PER_ENTRY

__all__ = ["EVERYTHING", "LOGITS_S_PER_ENTRY", "Cure", "depth_of", "work"]


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
