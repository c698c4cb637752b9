"""The model of a case in the numbers that decide its speed, and its memory, to the byte where tensors are known."""

import re
from typing import Any, NamedTuple

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, Model, unpacked_tensors
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown, estimated, first_known, not_found
from unslow.think.case.instructions import spelled_out
from unslow.think.case.runtime import NEWEST, build_number
from unslow.think.case.vram import available_vram_bytes, compute_bytes, gpus_used, margin_bytes
from unslow.think.memo import once, remembered
from unslow.think.memory.llama_cpp.fused_kernels import UNFUSED_UNTIL
from unslow.think.memory.llama_cpp.hyperparameters import hyper_of
from unslow.think.memory.llama_cpp.need import Need, memory_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.placement import (
    Placement,
    Shape,
    bytes_on_gpu,
    fitted,
    kv_bytes_per_token,
    largest_fitting,
    without_experts,
)

_BITS_TOKEN_TABLE, _BITS_OUTPUT = 4.5, 6.5625  # Q4_K and Q6_K, as the K mixes store them
_EXPERT_MATRICES = 3  # gate, up, down
_PARAMETERS_PER_WIDTH_SQUARED = 13  # of a layer with grouped heads: 13.0 in Llama 3 8B, 12.8 in 70B, 14.5 in 1B
_MOST_LAYERS = 130
ACTIVE_PART = re.compile(r"(?<![a-z0-9.])(?:(\d{1,4}(?:\.\d)?)b[-_ ]?)?a(\d{1,3}(?:\.\d)?)b(?![a-z0-9])", re.IGNORECASE)
"""Names of mixtures that say how many parameters there are, and how many a token uses."""


def missing(what: str, how_to_get: str = "") -> MissingFactError:
    """The error that becomes "cannot tell"."""
    return MissingFactError(not_found(what, how_to_get))


def is_mixture(case: Case) -> bool:
    """Whether the model is a mixture of experts: by its file, by the catalogue, or by a name such as 30B-A3B."""
    return case.model.experts.value_or(0) >= 1 or bool(ACTIVE_PART.search(case.model.name.value_or("")))


def kv_per_token(case: Case) -> float:
    """Bytes of keys and values for a token: as allocated, else from the heads; 0 where neither is known."""
    runtime, model = case.runtime, case.model
    cells = runtime.kv_cells.value_or(0)
    if cells and isinstance(runtime.kv_bytes, Known):
        return runtime.kv_bytes.value / cells
    facts = (model.layers, model.kv_heads, model.key_length, model.value_length)
    layers, heads, key_length, value_length = (fact.value_or(0) for fact in facts)
    return kv_bytes_per_token(layers, heads, key_length, value_length, cache_types(case))


def cache_types(case: Case) -> tuple[str, str]:
    """The types of keys and of values."""
    return case.runtime.kv_type_k.value_or("f16"), case.runtime.kv_type_v.value_or("f16")


@once
def read_shape(case: Case) -> Shape:
    """The model in plain numbers; MissingFactError where its size or its layers are unknown."""
    model = case.model
    weights = model.weights_bytes.need()
    layers = model.layers.value_or(0) or case.runtime.layers.value_or(0) - 1
    if layers < 1:
        layers = _layers_by_size(case)
    entries = model.vocabulary.value_or(0) * model.width.value_or(0)
    table = model.token_table_bytes.value_or(entries * _BITS_TOKEN_TABLE / 8)
    output = model.output_bytes.value_or(entries * _BITS_OUTPUT / 8)
    outside = table if model.output_tied.value_or(default=False) else table + output
    if outside >= weights:
        raise missing("what the weights consist of", "give the path of the model file")
    layer_bytes = (weights - outside) / layers
    some_sit_out = 0 < model.experts_used.value_or(0) < model.experts.value_or(0)
    experts = _expert_share(model, layers * layer_bytes) if some_sit_out else 0.0
    width, vocabulary = model.width.value_or(4096), model.vocabulary.value_or(0)
    return Shape(layers, layer_bytes, output, kv_per_token(case), width, vocabulary, experts)


def _layers_by_size(case: Case) -> int:
    """The number of layers of a dense model by its parameters and width, where no log and no file tells it."""
    model = case.model
    width, vocabulary = model.width.need(), model.vocabulary.need()
    inside = model.parameters.need() - 2 * width * vocabulary
    layers = round(inside / (_PARAMETERS_PER_WIDTH_SQUARED * width**2)) if width else 0
    if not 1 <= layers <= _MOST_LAYERS:  # far more parameters than a dense model of this width has: experts
        raise missing("the number of layers", spelled_out("{load_log}, or the path of the model file", case))
    return layers


def _expert_share(model: Model, layers_bytes: float) -> float:
    """The part of the layers' bytes that is experts."""
    if isinstance(model.expert_bytes, Known):
        return min(1.0, model.expert_bytes.value / layers_bytes)
    width, wide = model.expert_width.need(), model.width.need()
    parameters = _EXPERT_MATRICES * width * wide * model.experts.need() * model.layers.need()
    tables = (1 if model.output_tied.value_or(default=False) else 2) * model.vocabulary.value_or(0) * wide
    return min(1.0, parameters / max(1, model.parameters.need() - tables))


_RUNTIME = "llama.cpp"
ROTATES_FROM = 8624  # The build from which on quantised keys and values are rotated (docs/explanation/quality.md)


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

    return largest_fitting(0, plan.count("block_count") + 1, left)


def _needs(case: Case, plan: Blueprint, context: float, gpu_layers: int) -> list[Need] | None:
    settings = settings_of(case)._replace(context=int(context), gpu_layers=gpu_layers)
    shares = tuple(float(g.vram_total_bytes.value_or(0)) or 1.0 for g in gpus_used(case)) or (1.0,)

    def reckon() -> list[Need] | None:
        try:
            return memory_of(plan, settings, shares).needs
        except UserError:  # numbers that can't be, from a header that nobody could load
            return None

    return remembered(case.model, (settings, shares), reckon)


def settings_of(case: Case) -> Settings:
    """The settings that decide memory, in llama.cpp's own defaults where nothing is known."""
    runtime = case.runtime
    slots, (keys, values) = max(1, runtime.slots.value_or(1)), cache_types(case)
    return Settings(
        batch=runtime.batch.value_or(2048),
        micro_batch=runtime.ubatch.value_or(512),
        slots=slots,
        unified=runtime.kv_unified.value_or(default=slots == 1),
        key_type=keys.upper(),
        value_type=values.upper(),
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
    return blueprint_of(case.model) if case.runtime.name.value_or(_RUNTIME).endswith(_RUNTIME) else None


@once
def blueprint_of(model: Model) -> Blueprint | None:
    """The model down to its tensors, whatever runs it."""
    name, metadata, table = model.architecture, model.metadata, model.tensors
    if not (isinstance(name, Known) and isinstance(metadata, Known) and isinstance(table, Known)):
        return None
    try:
        tensors = unpacked_tensors(table.value)
        plan = Blueprint(architecture=name.value, metadata=metadata.value, tensors=tensors)
        plan.check()
        hyper_of(plan)  # UserError for numbers that no model has
    except (ValueError, UserError):  # a snapshot that was edited by hand
        return None
    return plan


_MOST_ASKED: dict[str, Any] = {"flash_attention": False, "ubatch": 2048}
"""Settings that the compute buffer grows with, at the most that is usual: llama.cpp's own batch is 2048 tokens."""


class Demand(NamedTuple):
    """Bytes for the whole model at a context, the margin the runtime keeps, and what it found free."""

    asked: float
    margin: float
    available: float

    @property
    def lacking(self) -> float:
        """What is missing for all of it to fit; negative where there is room."""
        return self.asked + self.margin - self.available


def read_demand(case: Case, context: float | None = None) -> Demand:
    """The demand at the configured context, or at another; the runtime's own sum where nothing better is known."""
    runtime = case.runtime
    # The runtime's own sum: with a number of layers set, it is only of those
    own = not isinstance(case.model.tensors, Known) and not isinstance(runtime.gpu_layers_set, Known)
    if context is None and own and isinstance(runtime.asked_bytes, Known):
        return Demand(runtime.asked_bytes.value, margin_bytes(case), available_vram_bytes(case))
    if context is None:
        context = first_known(runtime.context_length, runtime.context_set, case.model.context_trained).need()
    return Demand(_asked(case, context), margin_bytes(case), available_vram_bytes(case))


def must_have_room(case: Case) -> None:
    """That nothing lacks is sure where it holds for any setting that nobody knows; MissingFactError names one."""
    unknown = {n: most for n, most in _MOST_ASKED.items() if isinstance(getattr(case.runtime, n), Unknown)}
    if not unknown:
        return
    facts = {name: estimated(most, "the most that it may ask for") for name, most in unknown.items()}
    worst = msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, **facts))
    if read_demand(worst).lacking > 0:
        name = next(iter(unknown))
        raise MissingFactError(getattr(case.runtime, name), f"runtime.{name}")


def _asked(case: Case, context: float) -> float:
    needs = exact_needs(case, context)
    if needs is not None:
        return sum(need.total for need in needs[:-1])
    return bytes_on_gpu(read_shape(case), context, compute_bytes(case))


def fitting_placement(case: Case, shape: Shape, vram_bytes: float, context: float) -> Placement:
    """As much as so much GPU memory holds at this context, the margin left free; of a mixture, experts leave first."""
    room = vram_bytes - margin_bytes(case)
    layers = exact_layers(case, context, room)
    if layers is not None:
        placed = Placement(min(shape.layers, max(0, layers - 1)), output_on_gpu=layers > 0)
    else:
        placed = fitted(shape, vram_bytes, context, compute_bytes(case), margin_bytes(case))
    lacking = _asked(case, context) - room
    if placed.gpu_layers >= shape.layers or not 0 < lacking <= shape.layers * shape.layer_bytes * shape.expert_share:
        return placed
    return without_experts(shape, shape.layers, lacking, output_on_gpu=True)


_NO_FLASH_ATTENTION = re.compile(
    r"flash attention[^.]{0,40}(?:not supported|disabled)|quantized kv cache requested", re.IGNORECASE
)


def can_shrink_cache(case: Case) -> bool:
    """Whether the cache is not small already, and the runtime did not refuse to make it so."""
    refused = any(_NO_FLASH_ATTENTION.search(line) for line in case.runtime.warnings.value_or([]))
    return cache_types(case) == ("f16", "f16") and not refused
