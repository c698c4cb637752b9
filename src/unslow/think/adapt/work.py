"""A case as the decode formula takes it: as configured, or with a cure applied."""

from typing import NamedTuple

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.adapt.bandwidth import cpus_of, host_side
from unslow.think.adapt.demand import fitting_placement
from unslow.think.adapt.gpu_question import gpu_device
from unslow.think.adapt.placement import read_placement, read_placement_or_none
from unslow.think.adapt.shape import read_shape
from unslow.think.physics.decode import Work
from unslow.think.physics.placement import Placement, Shape, reads_per_token

LOGITS_S_PER_ENTRY = 5.5e-9
"""Sampling in llama-server: 0.7 ms for 128,256 entries between llama-bench and the server on one H200 host."""


ALL_BYTES = 1e18


class Cure(NamedTuple):
    """What changes when a cause is gone; None leaves the fact as it is. An empty cure is the case as configured."""

    vram_bytes: float | None = None
    context: float | None = None
    threads: float | None = None
    flash_attention: bool | None = None

    def and_also(self, other: "Cure") -> "Cure":
        """Both cures at once."""
        vram = [v for v in (self.vram_bytes, other.vram_bytes) if v is not None]
        contexts = [c for c in (self.context, other.context) if c is not None]
        return Cure(
            max(vram, default=None),
            min(contexts, default=None),
            other.threads or self.threads,
            other.flash_attention or self.flash_attention,
        )


EVERYTHING = Cure(vram_bytes=ALL_BYTES)
"""As if the GPU had all the memory that the model asks for."""


def work(case: Case, cure: Cure | None = None) -> Work:
    """The case as the decode formula takes it: as configured, or with a cure applied."""
    shape = read_shape(case)
    case = _with_settings(case, cure) if cure else case
    placement = read_placement(case, shape) if not cure or cure.vram_bytes is None else _refitted(case, shape, cure)
    reads = reads_per_token(shape, placement, depth_of(case))
    host = host_side(case, reads.host, shape.layers - placement.gpu_layers)
    return Work(
        device=gpu_device(case, shape, placement, depth_of(case)),
        host=host,
        width=shape.width,
        vocabulary=shape.vocabulary,
        logits_s_per_entry=LOGITS_S_PER_ENTRY,
        threads_per_core=_threads_per_core(case) if host else 1.0,
    )


def _with_settings(case: Case, cure: Cure) -> Case:
    """The case with the settings that a cure changes."""
    changed: dict[str, Known[int] | Known[bool]] = {}
    if cure.threads:
        changed["threads"] = Known(int(cure.threads), Origin.ESTIMATED, "cured")
    if cure.flash_attention:
        changed["flash_attention"] = Known(value=True, origin=Origin.ESTIMATED, source="cured")
    return msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, **changed)) if changed else case


def _threads_per_core(case: Case) -> float:
    """Threads for each CPU that can run one: two on a core with SMT are no crowd."""
    return case.runtime.threads.value_or(0) / cpus_of(case) or 1.0


def depth_of(case: Case) -> float:
    """How far into the context the measurement ran."""
    return case.run.depth_tokens.value_or(0)


def _refitted(case: Case, shape: Shape, cure: Cure) -> Placement:
    context = cure.context if cure.context is not None else case.runtime.context_length.value_or(4096)
    now = read_placement_or_none(case, shape) if case.runtime.state.value_or("loaded") != "failed" else None
    best = fitting_placement(case, shape, cure.vram_bytes or 0.0, context)
    return max(best, now, key=lambda p: p.gpu_layers) if now else best
