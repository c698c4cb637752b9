"""Cures: what changes about a case when a cause is gone."""

from typing import Any, NamedTuple

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.adapt.remembered import once
from unslow.think.adapt.several_gpus import split_anew

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
    kv_on_gpu: bool | None = None
    """The KV cache lies with the layers that it belongs to."""
    output_on_gpu: bool | None = None
    experts_on_gpu: bool | None = None
    """As many experts as the GPU has room for."""
    ubatch: float | None = None
    plain_sampling: bool | None = None
    """No sort of the whole vocabulary, no grammar, no logprobs."""
    alone: bool | None = None
    """Nobody else uses the processors, nor the GPU."""
    best_split: bool | None = None
    """Of several GPUs the fastest hold as much of the model as they can."""
    one_gpu: bool | None = None
    """The whole model on one of the GPUs."""
    by_layers: bool | None = None
    """Whole layers on each GPU, where each had a part of every layer."""
    graphs: bool | None = None
    """Launches are recorded and replayed, the model compiled."""

    def and_also(self, other: "Cure") -> "Cure":
        """Both cures at once, whichever is first: the larger memory and batch, the shorter context, fewer threads."""
        pairs = {
            name: [v for v in (mine, getattr(other, name)) if v is not None] for name, mine in self._asdict().items()
        }
        chosen = {name: _WHERE_BOTH.get(name, max)(values) if values else None for name, values in pairs.items()}
        return Cure(**chosen)


_WHERE_BOTH = {"context": min, "threads": min}
"""Which of two values counts; the larger where nothing is said, and what either switches on is on."""
EVERYTHING = Cure(vram_bytes=ALL_BYTES)
"""As if the GPU had all the memory that the model asks for."""
AS_USUAL = Cure(kv_on_gpu=True, plain_sampling=True, alone=True, graphs=True)
"""Placed and threaded as it is, with nothing else in the way: what a speed is held against to see whether it lacks."""


@once
def with_settings(case: Case, cure: Cure) -> Case:
    """The case with the settings that a cure changes."""
    changed: dict[str, Known[Any]] = {}
    for name, value in (("threads", cure.threads), ("ubatch", cure.ubatch)):
        if value:
            changed[name] = Known(int(value), Origin.ESTIMATED, "cured")
    if cure.ubatch and case.runtime.batch.value_or(0) < cure.ubatch and isinstance(case.runtime.batch, Known):
        changed["batch"] = changed["ubatch"]  # which no micro-batch exceeds
    if cure.flash_attention:
        changed["flash_attention"] = Known(value=True, origin=Origin.ESTIMATED, source="cured")
    if cure.best_split:
        changed["buffers"] = Known(split_anew(case), Origin.ESTIMATED, "cured")
    if cure.one_gpu or cure.by_layers:
        changed |= _split(case, 1 if cure.one_gpu else case.runtime.tensor_parallel.value_or(1))
    if cure.graphs and _may_lack_graphs(case):
        changed["eager"] = Known(value=False, origin=Origin.ESTIMATED, source="cured")
    return msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, **changed)) if changed else case


def _may_lack_graphs(case: Case) -> bool:
    """Whether its kernels may be launched one by one: where they are not, a cure leaves the case as it is."""
    by_default = "transformers" in case.runtime.name.value_or("").lower()
    return case.runtime.eager.value_or(default=by_default)


def _split(case: Case, stages: int) -> dict[str, Known[Any]]:
    """Settings for no layer that is cut, over so many times the stages that there are; none where nobody cuts any."""
    if not isinstance(case.runtime.tensor_parallel, Known):
        return {}
    pipeline = stages * case.runtime.pipeline_parallel.value_or(1) if stages > 1 else 1
    return {
        "tensor_parallel": Known(1, Origin.ESTIMATED, "cured"),
        "pipeline_parallel": Known(pipeline, Origin.ESTIMATED, "cured"),
    }
