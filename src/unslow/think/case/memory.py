"""What the model of a case asks for in bytes: its shape, its KV cache, what fits."""

import math
import re
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from unslow.catalog.architectures import architecture
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, Model, unpacked_tensors
from unslow.facts.runtime import FACT_PATHS
from unslow.facts.values import Known, MissingFactError, Unknown, estimated_fact, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.engine import NEWEST, build_number
from unslow.think.case.group import Group, missing
from unslow.think.memo import once, remember_once
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.memory.llama_cpp.need import Need, memory_of
from unslow.think.memory.llama_cpp.scheduler import UNFUSED_UNTIL
from unslow.think.physics.placement import (
    Placement,
    Shape,
    fit_layers,
    kv_bytes_per_token,
    largest_fitting,
    without_experts,
)

_BITS_TOKEN_TABLE, _BITS_OUTPUT = 4.5, 6.5625  # Q4_K and Q6_K, as the K mixes store them
_EXPERT_MATRICES = 3  # gate, up, down
_PARAMETERS_PER_WIDTH_SQUARED = 13  # of a layer with grouped heads: 13.0 in Llama 3 8B, 12.8 in 70B, 14.5 in 1B
_MOST_LAYERS = 130
_FEWEST_BITS = 4.0  # Of a weight, where only the number of parameters is known: a usual quant is hardly smaller
_USUAL_CONTEXT = 4096  # Tokens, the default of most runtimes
ACTIVE_PART = re.compile(r"(?<![a-z0-9.])(?:(\d{1,4}(?:\.\d)?)b[-_ ]?)?a(\d{1,3}(?:\.\d)?)b(?![a-z0-9])", re.IGNORECASE)
"""Names of mixtures that say how many parameters there are, and how many a token uses."""
_RUNTIME = "llama.cpp"
ROTATES_FROM = 8624  # The build from which on quantised keys and values are rotated (docs/explanation/quality.md)
_MOST_ASKED: dict[str, Any] = {"flash_attention": False, "ubatch": 2048}
"""Settings that the compute buffer grows with, at the most that is usual: llama.cpp's own batch is 2048 tokens."""


class ExpertsWithoutRoom(NamedTuple):
    """Layers whose experts have no room on the GPU, in words too; at least as many where it is not exact."""

    layers: int
    words: str
    is_exact: bool = True

    @property
    def setting(self) -> int | None:
        """The number to set; None where no experts have to stay, or their number is not known."""
        return self.layers or None if self.is_exact else None


class Demand(NamedTuple):
    """Bytes for the whole model at a context, the margin the runtime keeps, and what it found free."""

    asked: float
    margin: float
    available: float

    @property
    def lacking(self) -> float:
        """What is missing for all of it to fit; negative where there is room."""
        return self.asked + self.margin - self.available


_NO_FLASH_ATTENTION = re.compile(
    r"flash attention[^.]{0,40}(?:not supported|disabled)|quantized kv cache requested", re.IGNORECASE
)


class MemoryView(Group):
    """Bytes that the model takes."""

    @cached_property
    def weights_bytes(self) -> int:
        """Bytes of the weights; 0 where neither file nor log says."""
        return self.model.weights_bytes.value_or(0)

    @cached_property
    def context_tokens(self) -> int:
        """The configured context; 0 where neither the log nor a setting says."""
        return first_known(self.runtime.context.length, self.runtime.context.requested).value_or(0)

    @cached_property
    def context_used(self) -> int:
        """The longest conversation so far, or the context that the user asked for; 0 where neither is known."""
        return max(self.runtime.history.longest_sequence.value_or(0), self.case.wish.context_tokens.value_or(0))

    @cached_property
    def is_mixture(self) -> bool:
        """Whether the model is a mixture of experts: by its file, by the catalog, or by a name such as 30B-A3B."""
        return self.model.experts.value_or(0) >= 1 or bool(ACTIVE_PART.search(self.model.name.value_or("")))

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """Bytes of keys and values for a token: as allocated, else from the heads; 0 where neither is known."""
        runtime, model = self.runtime, self.model
        cells = runtime.cache.cells.value_or(0)
        if cells and isinstance(runtime.cache.bytes, Known):
            return runtime.cache.bytes.value / cells
        facts = (model.layers, model.kv_heads, model.key_length, model.value_length)
        layers, heads, key_length, value_length = (fact.value_or(0) for fact in facts)
        return kv_bytes_per_token(layers, heads, key_length, value_length, self.cache_types)

    @cached_property
    def cache_types(self) -> tuple[str, str]:
        """The types of keys and of values."""
        return self.runtime.cache.type_k.value_or("f16"), self.runtime.cache.type_v.value_or("f16")

    @cached_property
    def shape(self) -> Shape:
        """The model in plain numbers; MissingFactError where its size or its layers are unknown."""
        model = self.model
        weights = model.weights_bytes.need()
        layers = model.layers.value_or(0) or self.runtime.placement.layers.value_or(0) - 1
        if layers < 1:
            layers = self._layers_by_size
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
        return Shape(layers, layer_bytes, output, self.kv_bytes_per_token, width, vocabulary, experts)

    @cached_property
    def _layers_by_size(self) -> int:
        """The number of layers of a dense model by its parameters and width, where no log and no file tells it."""
        model = self.model
        width, vocabulary = model.width.need(), model.vocabulary.need()
        inside = model.parameters.need() - 2 * width * vocabulary
        layers = round(inside / (_PARAMETERS_PER_WIDTH_SQUARED * width**2)) if width else 0
        if not 1 <= layers <= _MOST_LAYERS:  # far more parameters than a dense model of this width has: experts
            raise missing(
                "the number of layers", self.case.system.spell_out("{load_log}, or the path of the model file")
            )
        return layers

    def exact_needs(self, context: float, gpu_layers: int = -1) -> list[Need] | None:
        """The needs of the GPUs and at the end of the host; None where the tensors are not known, or invalid."""
        plan = self.blueprint
        if plan is None:
            return None
        settings = self.settings._replace(context=int(context), gpu_layers=gpu_layers)
        shares = tuple(float(g.vram_total_bytes.value_or(0)) or 1.0 for g in self.case.gpus.in_use) or (1.0,)

        def reckon() -> list[Need] | None:
            try:
                return memory_of(plan, settings, shares).needs
            except UserError:  # numbers that no model has, from a header that nothing could load
                return None

        return remember_once(self.model, (settings, shares), reckon)

    def exact_layers(self, context: float, vram_bytes: float) -> int | None:
        """The most layers that fit so much GPU memory, the output counted as one; None where it is unknown."""
        plan = self.blueprint
        if plan is None:
            return None

        def left(layers: int) -> float:
            needs = self.exact_needs(context, layers)
            return -1.0 if needs is None else vram_bytes - sum(n.total for n in needs[:-1])

        return largest_fitting(0, plan.count("block_count") + 1, left)

    @cached_property
    def settings(self) -> Settings:
        """The settings that decide memory, in llama.cpp's own defaults where nothing is known."""
        runtime = self.runtime
        slots, (keys, values) = max(1, runtime.scheduling.slots.value_or(1)), self.cache_types
        return Settings(
            batch=runtime.compute.batch.value_or(2048),
            micro_batch=runtime.compute.ubatch.value_or(512),
            slots=slots,
            unified=runtime.cache.unified.value_or(default=slots == 1),
            key_type=keys.upper(),
            value_type=values.upper(),
            flash_attention=runtime.compute.flash_attention.value_or(None),
            outputs=slots,
            fuses=self.keeps_fused_inputs or False,
        )

    @cached_property
    def keeps_fused_inputs(self) -> bool | None:
        """Whether its build keeps what fused kernels read; None where the build is not known."""
        build = build_number(self.runtime.version.value_or(""))
        return None if build == NEWEST else build > UNFUSED_UNTIL

    @cached_property
    def rotates_cache(self) -> bool:
        """Whether its build is known to rotate quantised keys and values before they are stored."""
        build = build_number(self.runtime.version.value_or(""))
        return build != NEWEST and build >= ROTATES_FROM

    @cached_property
    def blueprint(self) -> Blueprint | None:
        """The model down to its tensors, where llama.cpp runs it."""
        return blueprint_of(self.model) if self.runtime.name.value_or(_RUNTIME).endswith(_RUNTIME) else None

    def demand(self, context: float | None = None) -> Demand:
        """The demand at the configured context, or at another; the runtime's own sum where nothing better is known."""
        runtime, vram = self.runtime, self.case.vram
        asked, placed = runtime.memory.asked_bytes, runtime.placement
        if context is None and isinstance(asked, Known) and not isinstance(self.model.tensors, Known):
            own = Demand(asked.value, vram.margin_bytes, vram.available_bytes)
            # With a number of layers set, the runtime's own sum is only of those: some stay out although all of it fits
            some_stay_out = placed.gpu_layers.value_or(0) < placed.layers.value_or(0) and own.lacking <= 0
            if not some_stay_out and not isinstance(placed.gpu_layers_set, Known):
                return own
        if context is None:
            context = first_known(runtime.context.length, runtime.context.requested, self.model.context_trained).need()
        return Demand(self._asked_bytes(context), self.case.vram.margin_bytes, self.case.vram.available_bytes)

    def need_room(self) -> None:
        """That nothing lacks is sure where it holds for any unknown setting; MissingFactError names one."""
        unknown = {n: most for n, most in _MOST_ASKED.items() if isinstance(self.runtime.fact(n), Unknown)}
        if not unknown:
            return
        facts = {name: estimated_fact(most, "the most that it may ask for") for name, most in unknown.items()}
        worst = self.case.replace(runtime=self.runtime.with_facts(**facts))
        if worst.memory.demand().lacking > 0:
            name = next(iter(unknown))
            raise MissingFactError(self.runtime.fact(name), f"runtime.{FACT_PATHS[name]}")

    def _asked_bytes(self, context: float) -> float:
        needs = self.exact_needs(context)
        if needs is not None:
            return sum(need.total for need in needs[:-1])
        shape, compute = self.shape, self.case.vram.compute_bytes
        return shape.layers * shape.layer_bytes + shape.output_bytes + shape.kv_bytes_per_token * context + compute

    def fitting_placement(self, shape: Shape, vram_bytes: float, context: float | None = None) -> Placement:
        """What fits into this much GPU memory, less the margin; of a mixture, experts leave first.

        At this context, else at the configured one, or at 4096 tokens where that is not known.
        """
        context = self.runtime.context.length.value_or(_USUAL_CONTEXT) if context is None else context
        room = vram_bytes - self.case.vram.margin_bytes
        layers = self.exact_layers(context, room)
        if layers is not None:
            placed = Placement(min(shape.layers, max(0, layers - 1)), output_on_gpu=layers > 0)
        else:
            placed = fit_layers(shape, vram_bytes, context, self.case.vram.compute_bytes, self.case.vram.margin_bytes)
        lacking = self._asked_bytes(context) - room
        experts_bytes = shape.layers * shape.layer_bytes * shape.expert_share
        if placed.gpu_layers >= shape.layers or not 0 < lacking <= experts_bytes:
            return placed
        return without_experts(shape, shape.layers, lacking, output_on_gpu=True)

    @cached_property
    def can_shrink_cache(self) -> bool:
        """Whether the cache is not small already, and the runtime did not refuse to make it so."""
        refused = any(_NO_FLASH_ATTENTION.search(line) for line in self.runtime.history.warnings.value_or([]))
        return self.cache_types == ("f16", "f16") and not refused

    @cached_property
    def least_weights_bytes(self) -> float:
        """Bytes of the weights, at least: as known, by the parameters, or by the size in the name; 0 where none is."""
        size = ACTIVE_PART.search(self.model.name.value_or(""))
        parameters = self.model.parameters.value_or(0) or (float(size[1]) * 1e9 if size and size[1] else 0.0)
        return float(self.model.weights_bytes.value_or(parameters * _FEWEST_BITS / 8))

    def experts_without_room(self, lacking: float) -> ExpertsWithoutRoom:
        """The layers whose experts have to stay on the host, where this many bytes of GPU memory are missing."""
        shape = self.shape
        if lacking <= 0:
            return ExpertsWithoutRoom(0, "all experts fit")
        if not shape.expert_share:
            layers = math.ceil(lacking / shape.layer_bytes)
            return ExpertsWithoutRoom(layers, "only the experts that do not fit belong on the CPU", is_exact=False)
        layers = math.ceil(lacking / (shape.layer_bytes * shape.expert_share))
        if layers > shape.layers:
            return ExpertsWithoutRoom(layers, "even without experts, not all layers fit")
        return ExpertsWithoutRoom(layers, f"only the experts of {layers} layers do not fit")

    @cached_property
    def asked_of_gpu(self) -> tuple[float, str]:
        """What the model takes, and by which fact: the runtime's own sum, else weights and cache; 0 for neither."""
        runtime, weights = self.runtime, self.model.weights_bytes
        if isinstance(runtime.memory.asked_bytes, Known):
            return float(runtime.memory.asked_bytes.value), "runtime.memory.asked_bytes"
        size = weights.value_or(0) or sum(b.bytes for b in self.case.vram.buffers("model", on_gpu=True))
        cache = self.kv_bytes_per_token * runtime.context.length.value_or(0)
        fact = "model.weights_bytes" if isinstance(weights, Known) else "runtime.memory.buffers"
        return (size + cache if size else 0.0), fact

    @cached_property
    def context_fact(self) -> str:
        """The path of the context: as it runs, as it was requested, or the default; empty where none is known."""
        paths = ("runtime.context.length", "runtime.context.requested", "runtime.context.default")
        return next((path for path in paths if isinstance(self.case.fact(path), Known)), "")

    def need_context(self) -> int:
        """The configured context; a missing one is asked for."""
        return int(first_known(self.runtime.context.length, self.runtime.context.requested).need())

    def need_context_used(self, how_to_get: str) -> None:
        """Without the length of the conversations, nothing can be said of a context that is longer."""
        known = first_known(self.case.wish.context_tokens, self.runtime.history.longest_sequence)
        if isinstance(known, Unknown):
            asked = msgspec.structs.replace(known, how_to_get=known.how_to_get or how_to_get)
            raise MissingFactError(asked, "wish.context_tokens")

    @cached_property
    def fits_with_flash_attention(self) -> bool:
        """Whether only the buffer for scores of attention that is not fused leaves no room, and not the cache."""
        if self.runtime.compute.flash_attention.get() is not False:
            return False
        if self.blueprint:
            return self.case.with_cure(Cure(flash_attention=True)).memory.demand().lacking <= 0
        context, allocated = self.need_context(), self.runtime.cache.bytes.get()
        cache = self.kv_bytes_per_token * context if allocated is None else allocated
        return self.model.weights_bytes.need() + cache + self.case.vram.margin_bytes <= self.case.vram.available_bytes

    @cached_property
    def has_sliding_windows(self) -> bool:
        """Whether some of its layers attend to a sliding window; False where the architecture is not known."""
        return architecture(self.model.architecture.value_or("")).has_windows

    def layers_that_fit(self, vram_bytes: float, context: float | None = None) -> int:
        """Layers that so much GPU memory holds at this or the configured context, the output counted as one more."""
        placed = self.fitting_placement(self.shape, vram_bytes, context)
        return int(placed.gpu_layers) + placed.output_on_gpu

    @cached_property
    def layer_bytes(self) -> float:
        """A layer with its share of the cache: by the runtime's own sum, else by the model."""
        asked, layers = self.runtime.memory.asked_bytes, self.runtime.placement.layers.get() or self.model.layers.get()
        if isinstance(asked, Known) and layers:
            return asked.value / layers
        shape, context = self.shape, self.runtime.context.length.need()
        return shape.layer_bytes + shape.kv_bytes_per_token * context / max(1, shape.layers)


def _expert_share(model: Model, layers_bytes: float) -> float:
    """The part of the layers' bytes that is experts."""
    if isinstance(model.expert_bytes, Known):
        return min(1.0, model.expert_bytes.value / layers_bytes)
    width, wide = model.expert_width.need(), model.width.need()
    parameters = _EXPERT_MATRICES * width * wide * model.experts.need() * model.layers.need()
    tables = (1 if model.output_tied.value_or(default=False) else 2) * model.vocabulary.value_or(0) * wide
    return min(1.0, parameters / max(1, model.parameters.need() - tables))


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
