"""What a case asks of memory to the byte, where the model's tensors are known."""

from unslow.facts.blueprint import Blueprint, Value
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case
from unslow.facts.tensor_table import Table, unpacked
from unslow.facts.values import Known
from unslow.think.adapt.remembered import remembered
from unslow.think.adapt.versions import NEWEST, build_number
from unslow.think.adapt.vram import gpus_used
from unslow.think.memory.llama_cpp.fused import UNFUSED_UNTIL
from unslow.think.memory.llama_cpp.hyper import hyper_of
from unslow.think.memory.llama_cpp.need import Need, memory_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.search import largest

_RUNTIME = "llama.cpp"
ROTATES_FROM = 8624
"""The build from which on quantised keys and values are rotated (docs/explanation/quality.md)."""


def exact_needs(case: Case, context: float, gpu_layers: int = -1) -> list[Need] | None:
    """The needs of the GPUs and at the end of the host; None where the tensors are not known, or can't be."""
    plan = plan_of(case)
    return None if plan is None else _needs(case, plan, context, gpu_layers)


def exact_layers(case: Case, context: float, vram_bytes: float) -> int | None:
    """The most layers that fit so much GPU memory, the output counted as one; None where it can't be told."""
    plan = plan_of(case)
    if plan is None:
        return None

    def left(layers: int) -> float:
        needs = _needs(case, plan, context, layers)
        return -1.0 if needs is None else vram_bytes - sum(n.total for n in needs[:-1])

    return largest(0, plan.count("block_count") + 1, left)


def _needs(case: Case, plan: Blueprint, context: float, gpu_layers: int) -> list[Need] | None:
    settings, shares = settings_of(case)._replace(context=int(context), gpu_layers=gpu_layers), _shares(case)
    return remembered(case.model, (settings, shares), lambda: _reckoned(plan, settings, shares))


def _reckoned(plan: Blueprint, settings: Settings, shares: tuple[float, ...]) -> list[Need] | None:
    try:
        return memory_of(plan, settings, shares).needs
    except UserError:  # numbers that can't be, from a header that nobody could load
        return None


def _shares(case: Case) -> tuple[float, ...]:
    """The GPUs by their memory; one where they are not known."""
    return tuple(float(g.vram_total_bytes.value_or(0)) or 1.0 for g in gpus_used(case)) or (1.0,)


def settings_of(case: Case) -> Settings:
    """The settings that decide memory, in llama.cpp's own defaults where nothing is known."""
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
        fuses=fuses_of(case) or False,
    )


def fuses_of(case: Case) -> bool | None:
    """Whether its build keeps what fused kernels read; None where the build is not known."""
    build = build_number(case.runtime.version.value_or(""))
    return None if build == NEWEST else build > UNFUSED_UNTIL


def rotates_of(case: Case) -> bool:
    """Whether its build is known to rotate quantised keys and values before they are stored."""
    build = build_number(case.runtime.version.value_or(""))
    return build != NEWEST and build >= ROTATES_FROM


def plan_of(case: Case) -> Blueprint | None:
    """The model down to its tensors, where llama.cpp runs it."""
    return blueprint_of(case) if case.runtime.name.value_or(_RUNTIME).endswith(_RUNTIME) else None


def blueprint_of(case: Case) -> Blueprint | None:
    """The model down to its tensors, whatever runs it."""
    model = case.model
    if not isinstance(model.tensors, Known) or not isinstance(model.metadata, Known):
        return None
    if not isinstance(model.architecture, Known):
        return None
    parts = model.architecture.value, model.metadata.value, model.tensors.value
    return remembered(model, "plan", lambda: _laid_out(*parts))


def _laid_out(architecture: str, metadata: dict[str, Value], table: Table) -> Blueprint | None:
    try:
        plan = Blueprint(architecture=architecture, metadata=metadata, tensors=unpacked(table))
        plan.check()
        hyper_of(plan)  # UserError for numbers that no model has
    except (ValueError, UserError):  # a snapshot that was edited by hand
        return None
    return plan
