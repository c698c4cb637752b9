"""What a case asks of memory to the byte, where the model's tensors are known."""

from functools import lru_cache

from unslow.facts.blueprint import Blueprint, Value
from unslow.facts.errors import UserError
from unslow.facts.packed import unpacked
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.vram import gpus_used
from unslow.think.memory.llama_cpp.need import Need, memory_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.search import largest


def exact_needs(case: Case, context: float, gpu_layers: int = -1) -> list[Need] | None:
    """The needs of the GPUs and at the end of the host; None where the tensors or the settings are not known."""
    plan = _plan_of(case)
    if plan is None or case.runtime.name.value_or("llama.cpp") != "llama.cpp":
        return None
    settings = _settings(case)._replace(context=int(context), gpu_layers=gpu_layers)
    try:
        return memory_of(plan, settings, _shares(case)).needs
    except UserError:  # numbers that can't be, from a header that nobody could load
        return None


def exact_layers(case: Case, context: float, vram_bytes: float) -> int | None:
    """The most layers that fit so much GPU memory, the output counted as one; None where it can't be told."""
    plan = _plan_of(case)
    if plan is None:
        return None

    def left(layers: int) -> float:
        needs = exact_needs(case, context, layers)
        return -1.0 if needs is None else vram_bytes - sum(n.total for n in needs[:-1])

    return largest(0, plan.count("block_count") + 1, left)


def _shares(case: Case) -> list[float]:
    """The GPUs by their memory; one where they are not known."""
    return [float(g.vram_total_bytes.value_or(0)) or 1.0 for g in gpus_used(case)] or [1.0]


def _settings(case: Case) -> Settings:
    runtime = case.runtime
    slots = max(1, runtime.slots.value_or(1))
    return Settings(
        batch=runtime.batch.value_or(2048),
        micro_batch=runtime.ubatch.value_or(512),
        slots=slots,
        unified=runtime.kv_unified.value_or(default=slots == 1),
        key_type=runtime.kv_type_k.value_or("f16").upper(),
        value_type=runtime.kv_type_v.value_or("f16").upper(),
        flash_attention=runtime.flash_attention.value_or(None),
        outputs=slots,
    )


def _plan_of(case: Case) -> Blueprint | None:
    model = case.model
    known = isinstance(model.tensors, Known) and isinstance(model.metadata, Known)
    if not known or not isinstance(model.architecture, Known):
        return None
    lines, metadata = tuple(model.tensors.need()), model.metadata.need()
    return _plan(model.architecture.value, lines, _Frozen(metadata))


class _Frozen(dict[str, Value]):
    """A dictionary that a cache can remember by its contents."""

    def __hash__(self) -> int:  # type: ignore[override]
        """By the keys: the values are compared."""
        return hash(tuple(self))


@lru_cache(maxsize=8)
def _plan(architecture: str, lines: tuple[str, ...], metadata: _Frozen) -> Blueprint | None:
    try:
        return Blueprint(architecture=architecture, metadata=dict(metadata), tensors=unpacked(lines))
    except ValueError:
        return None
