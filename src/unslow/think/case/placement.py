"""Where the weights of a case are, on GPUs and in host memory, and which processors compute a part of the model."""

import re
from functools import cached_property
from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB, Absence, Known, MissingFactError, Origin, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.engine import build_number
from unslow.think.case.group import Group, if_known, missing, remember
from unslow.think.case.overrides import SentAway, bytes_on_host, layers_without_experts, names_in, tensors_sent_to_cpu
from unslow.think.case.vram import RUNTIME_CONTEXT_BYTES
from unslow.think.physics.placement import Placement, Shape, without_experts

MLX = "MLX"  # An engine that has all of a model in the memory which GPU and CPU share, and computes with the GPU
ALL_LAYERS = 99  # Who asks for so many means all: no common model has more
CLEARLY_MORE = 1.15  # Times the weights: buffers and an estimate of a file's size are within it
HARDLY_THERE = 0.5
"""Of the layers that count as on the GPU: where it holds less, tensors of them lie elsewhere, whoever sent them."""
OUTPUT_LAST_UNTIL = 5000  # Builds of llama.cpp below this number (March 2025) certainly placed the output layer last
_TABLE_BYTES = 1024 * MIB
"""No token table is much larger: what else of the model lies in the host's memory is there to be computed with."""


class Split(NamedTuple):
    """What the runtime itself says of a model that is only in part on GPUs, in words, and the fact that says so."""

    words: str
    fact: str


class Layers(NamedTuple):
    """Layers on the GPU and in all, the output counted as one more; `fact` is where that was read."""

    on_gpu: int
    total: int
    fact: str


class DecidedLayers(NamedTuple):
    """A number of GPU layers that a setting or a build decides on, in words too; `fact` is where that was read."""

    number: int
    fact: str
    words: str


class GrownModel(NamedTuple):
    """Bytes that a loaded model takes in all, on GPUs, and as weights."""

    size: float
    on_gpu: float
    weights: float


_WHOLE_SHARE = 0.6
_WHOLE_BYTES = 1.5 * GIB
"""Weights on the host that are more than a token table: this share of the model, or where that is unknown, so much."""
_USUAL_CONTEXT = 4096
_OLD_PROGRAM = re.compile(r"(?:^|/)(?:main|server)(?:\.exe)?$")
"""What llama.cpp's programs were called until June 2024, long before it placed layers itself."""


class PlacementView(Group):
    """Where the model is, and who computes it."""

    def read(self, shape: Shape) -> Placement:
        """Where the layers and their cache are; MissingFactError where nothing tells."""
        return self._weights_placement(shape)._replace(cache_on_gpu=not self.cache_on_host)

    @remember
    def with_cure(self, shape: Shape, cure: Cure) -> Placement:
        """The placement; MissingFactError where nothing tells how it is and no cure says how it would be."""
        context = self.runtime.context.length.value_or(_USUAL_CONTEXT)
        if (cure.vram_bytes is None and not cure.only_own_memory) or self.machine.gpus.value_or(None) == ():
            placed = self.read(shape)
        else:
            # What so much memory holds, unless more is there already, and is not lent
            memory = cure.vram_bytes if cure.vram_bytes is not None else self.case.vram.available_bytes
            tokens = context if cure.context is None else cure.context
            placed = self.case.memory.fitting_placement(shape, memory, tokens)
            placed = placed._replace(cache_on_gpu=not self.cache_on_host)
            loaded = not cure.only_own_memory and self.runtime.state.value_or("loaded") != "failed"
            if now := if_known(lambda: self.read(shape)) if loaded else None:
                placed = max(placed, now, key=lambda p: (p.gpu_layers, p.output_on_gpu))
        if cure.experts_on_gpu and placed.with_experts < placed.attending:
            # With as many experts as there was room for, on the layers that the GPU computes anyway
            room = self.case.memory.fitting_placement(shape, self.case.vram.available_bytes, context)
            experts = max(placed.with_experts, min(placed.attending, room.with_experts))
            by_bytes = placed.attending * (1 - shape.expert_share) + experts * shape.expert_share
            placed = placed._replace(gpu_layers=by_bytes, expert_layers=experts, dense_layers=placed.attending)
        return placed._replace(
            output_on_gpu=placed.output_on_gpu or bool(cure.output_on_gpu and placed.attending),
            cache_on_gpu=placed.cache_on_gpu or bool(cure.kv_on_gpu),
        )

    def _weights_placement(self, shape: Shape) -> Placement:
        runtime = self.runtime
        if self.computes_all_on_gpus:
            return Placement(shape.layers, output_on_gpu=True)
        held_there = self.case.vram.buffers("model", on_gpu=True)
        if isinstance(runtime.memory.buffers, Known) and (held_there or self._host_only):
            return self._from_buffers(shape)
        if isinstance(runtime.placement.gpu_layers, Known) and not self.sent_to_cpu.of_layers:
            return self._by_count(shape)
        if MLX in runtime.build.backends.value_or([]):
            on_gpu = self.machine.gpus.value_or(None) != ()  # mlx[cpu] computes on a Linux without a GPU
            return Placement(shape.layers if on_gpu else 0, output_on_gpu=on_gpu)
        if runtime.embedded or self._host_only or self.case.gpus.visible_to_runtime is False:
            return Placement(0, output_on_gpu=False)
        if held := self._from_held_memory(shape):
            return held
        gpus = self.machine.gpus
        if self.case.engine.runs_on_gpus_alone and isinstance(gpus, Unknown) and gpus.absence is Absence.NOT_FOUND:
            raise MissingFactError(gpus, "machine.gpus")  # which these are, where somebody looked in vain
        raise missing("where the weights are", self.case.system.spell_out("{placement}"))

    def _by_count(self, shape: Shape) -> Placement:
        """By the runtime's count: the output is one of the layers, unless it is elsewhere or not counted."""
        placed, output = self.runtime.placement, not self.sent_to_cpu.output and self._counted_output is not False
        count, all_counted = placed.gpu_layers.value_or(0), placed.layers.value_or(shape.layers + 1)
        not_counted = self._counted_output is False or (all_counted <= shape.layers and count >= all_counted)
        layers = min(shape.layers, max(0, count if not_counted else count - 1))
        return Placement(layers, output_on_gpu=count > 0 and output)

    def _from_buffers(self, shape: Shape) -> Placement:
        on_gpu = float(sum(b.bytes for b in self.case.vram.buffers("model", on_gpu=True)))
        if not on_gpu:
            return Placement(0, output_on_gpu=False)
        whole, by_count = self.runtime.placement.gpu_layers.value_or(0), self._by_count(shape)
        overridden = self.sent_to_cpu.of_layers or self.runtime.placement.overflowing_layers.value_or(0)
        overridden = overridden or on_gpu < HARDLY_THERE * by_count.gpu_layers * shape.layer_bytes
        if whole and not overridden:  # the count is exact where every layer is on one side as a whole
            return by_count
        said = False if self.sent_to_cpu.output else self._counted_output
        output = on_gpu >= shape.output_bytes if said is None else said
        counted = by_count.gpu_layers if whole else shape.layers
        if shape.expert_share and overridden:
            lacking = counted * shape.layer_bytes + output * shape.output_bytes - on_gpu
            return without_experts(shape, counted, max(0.0, lacking), output_on_gpu=output)
        return _holding(shape, on_gpu, output_on_gpu=output)

    def _from_held_memory(self, shape: Shape) -> Placement | None:
        """By what the process holds on the GPU: less than the weights is a spill; more, with room left, is none."""
        held = self.case.vram.own_bytes
        if held is None or not self.case.vram.own_is_counted or self.case.vram.own_lent_bytes >= GIB:
            return None  # with memory lent to it, what it holds there is not what it put there
        weights = shape.layers * shape.layer_bytes + shape.output_bytes
        if held < weights:
            return _holding(shape, max(0.0, held - RUNTIME_CONTEXT_BYTES - self.case.vram.compute_bytes))
        if any(self.sent_to_cpu):
            return None
        if partly := self._part_that_is_held(shape, held):
            return partly
        forced = self.runtime.placement.gpu_layers_set.value_or(None) is not None
        roomy = self.case.vram.free_bytes > self.case.vram.margin_bytes + shape.layer_bytes
        # Where the heads are unknown, an f16 cache of one head in eight
        for_one = shape.kv_bytes_per_token or shape.layers * shape.width / 2
        whole = held >= weights + (for_one * self.runtime.context.length.value_or(0))
        return Placement(shape.layers, output_on_gpu=True) if roomy and whole and not forced else None

    def _part_that_is_held(self, shape: Shape, held: float) -> Placement | None:
        """More than the weights, and still clearly less than they take together with cache and compute buffers.

        Each layer brings its part of the cache along, so layers are on the host as well; None where nothing is missing.
        """
        context = self.runtime.context.length.value_or(0)
        needs = self.case.memory.exact_needs(context) if context and not self.cache_on_host else None
        if needs is None:
            return None
        asked, used = sum(need.total for need in needs[:-1]), held - RUNTIME_CONTEXT_BYTES
        if asked - used < max(RUNTIME_CONTEXT_BYTES, asked / (shape.layers + 1)):
            return None
        return self.case.memory.fitting_placement(shape, used + self.case.vram.margin_bytes, context)

    @cached_property
    def _host_only(self) -> bool:
        devices = self.runtime.placement.devices
        no_gpu_here = isinstance(self.machine.gpus, Known) and not self.machine.gpus.value
        model_on_host = self.weights_on_host and not self.case.vram.buffers("model", on_gpu=True)
        return no_gpu_here or model_on_host or (isinstance(devices, Known) and not self.case.gpus.seen_by_runtime)

    @cached_property
    def cpu_computes(self) -> bool | None:
        """Whether the CPU has layers or experts to compute; None where nothing tells."""
        # attention is computed where its cache lies
        if self.case.vram.buffers("kv", on_gpu=False) or not self.runtime.cache.offload.value_or(default=True):
            return True
        if isinstance(self.machine.gpus, Known) and not self.machine.gpus.value:
            return True
        if self.runtime.embedded or any(self.sent_to_cpu) or self.case.narrative.remarks_on(Topic.GPU_ABSENT):
            return True
        if self.holds_weights_on_host:
            return True  # whatever number of layers was counted: experts may be left behind
        if isinstance(self.runtime.memory.vram_share, Known):
            return self.runtime.memory.vram_share.value < 1
        try:
            return self.layers_on_host > 0
        except MissingFactError:
            return True if self.case.gpus.visible_to_runtime is False else None

    @cached_property
    def uses_no_gpu(self) -> bool:
        """Whether it is sure that no GPU computes: none is seen, all are hidden, or a setting keeps away from them."""
        if self.runtime.embedded:
            return True
        sees, placed = self.case.gpus.visible_to_runtime, self.runtime.placement
        if placed.device_set.value_or("") == "none":
            counted = isinstance(self.runtime.memory.buffers, Known)  # llama.cpp counts layers whatever the setting
            held_there = self.case.vram.buffers("model", on_gpu=True)
            return not held_there and (counted or not placed.gpu_layers.value_or(0))
        return sees is False or (sees is None and self.case.gpus.hidden_by_environment is not None)

    @cached_property
    def computes_all_on_gpus(self) -> bool:
        """Whether its engine never computes a layer on the CPU: it fetches what is on the host, or does not start.

        What one of its workers logs is only a part of the model, and what its processes hold is mostly cache.
        """
        if self.fetches_missing_weights:
            return True
        if not self.case.engine.runs_on_gpus_alone or not self.case.gpus.in_use:
            return False
        on_cpu = self.runtime.placement.device_used.value_or("").startswith("cpu")
        return not on_cpu and self.case.gpus.visible_to_runtime is not False

    @cached_property
    def fetches_missing_weights(self) -> bool:
        """Whether Accelerate placed the model: the GPU computes everything, and weights are copied when needed."""
        named = "transformers" in self.runtime.name.value_or("").lower()
        return named and all(self.case.vram.buffers("model", on_gpu=side) for side in (True, False))

    @cached_property
    def layers(self) -> Layers:
        """As the runtime counted them, else from the memory that its process holds."""
        counted, layers = self.runtime.placement.gpu_layers, self.runtime.placement.layers
        if isinstance(counted, Known) and isinstance(layers, Known):
            return Layers(counted.value, layers.value, "runtime.placement.gpu_layers")
        shape = self.case.memory.shape
        if self.computes_all_on_gpus:
            return Layers(shape.layers + 1, shape.layers + 1, "runtime.name")
        placed = self._from_held_memory(shape)
        if placed is None:
            raise missing("where the weights are", self.case.system.spell_out("{placement}"))
        on_gpu = int(placed.gpu_layers) + placed.output_on_gpu
        return Layers(on_gpu, shape.layers + 1, "machine.gpus.0.processes")

    @cached_property
    def layers_on_host(self) -> int:
        """Layers that are not, or not as a whole, on the GPU."""
        layers, overflowing = self.layers, self.runtime.placement.overflowing_layers
        left = max(0, layers.total - layers.on_gpu, overflowing.value_or(0))
        by_bytes = not layers.fact.startswith("runtime.")  # which tell of parts of layers as well
        if left or by_bytes or isinstance(overflowing, Known) or any(self.sent_to_cpu):
            return left
        # Who writes a report pastes what they find odd, and of all the rest takes the count for granted
        seen = any(isinstance(fact, Known) for fact in (self.runtime.memory.buffers, self.runtime.memory.vram_share))
        told = seen or self.case.narrative.is_report
        if self.holds_weights_on_host or (not told and self.model.experts.value_or(0) > 1):
            raise MissingFactError(overflowing, "runtime.placement.overflowing_layers")
        return left

    @cached_property
    def split(self) -> Split | None:
        """A model that is in part on GPUs by the runtime's own account: its layers, its share, or its bytes."""
        runtime = self.runtime
        layers, on_gpu = runtime.placement.layers.value_or(0), runtime.placement.gpu_layers.value_or(0)
        if 0 < on_gpu < layers:
            return Split(f"{on_gpu} of {layers} layers are on the GPU", "runtime.placement.gpu_layers")
        share = runtime.memory.vram_share.value_or(0.0)
        if 0 < share < 1:
            return Split(f"{share:.0%} of the model is on the GPU", "runtime.memory.vram_share")
        size, held = runtime.memory.size_bytes.value_or(0), runtime.memory.size_vram_bytes.value_or(0)
        if 0 < held < size:
            return Split(f"{held / GIB:.1f} of {size / GIB:.1f} GiB are on the GPU", "runtime.memory.size_vram_bytes")
        return None

    @cached_property
    def split_or_all_on_cpu(self) -> Split | None:
        """The split, else the fact that says that no layer is on the GPU."""
        runtime = self.runtime
        none_on_gpu = (
            (runtime.placement.gpu_layers_set, "a setting keeps all layers on the CPU", "placement.gpu_layers_set"),
            (runtime.placement.gpu_layers, "all layers are on the CPU", "placement.gpu_layers"),
            (runtime.memory.vram_share, "the whole model is on the CPU", "memory.vram_share"),
        )
        on_cpu = (Split(words, f"runtime.{path}") for fact, words, path in none_on_gpu if fact.get() == 0)
        return self.split or next(on_cpu, None)

    @cached_property
    def growth_beyond_weights(self) -> GrownModel | None:
        """A model in two places whose part on GPUs is larger than its weights: the cache is what drove it out."""
        runtime, weights = self.runtime, float(self.model.weights_bytes.value_or(0))
        size = float(runtime.memory.size_bytes.value_or(0))
        held = float(runtime.memory.size_vram_bytes.value_or(0)) or size * runtime.memory.vram_share.value_or(0.0)
        if not weights or not 0 < held < size or held < CLEARLY_MORE * weights:
            return None
        return GrownModel(size, held, weights)

    @cached_property
    def is_deliberate(self) -> bool:
        """Whether a setting says how many layers go to the GPU, and fewer than there are."""
        placed = self.runtime.placement
        is_fewer = 0 <= placed.gpu_layers_set.value_or(-1) < placed.layers.value_or(ALL_LAYERS)
        return is_fewer or placed.device_set.value_or("") == "none"

    @cached_property
    def decided_layers(self) -> DecidedLayers | None:
        """The number of GPU layers that was decided on, and by which fact; None where the runtime fits them itself."""
        placement, fits_itself = self.runtime.placement, self.case.engine.places_layers_itself
        if placement.device_set.get() == "none":
            return DecidedLayers(0, "runtime.placement.device_set", "the device setting `none`")
        number = placement.gpu_layers_set
        # A person who reads out the number that the runtime came to has set nothing
        is_told = isinstance(number, Known) and number.origin is Origin.TOLD
        if is_told and number.get() == placement.gpu_layers.get() and fits_itself:
            return None
        if isinstance(number, Known) and number.value >= 0:
            words = f"the setting of {number.value} GPU layers"
            return DecidedLayers(number.value, "runtime.placement.gpu_layers_set", words)
        if placement.gpu_layers.get() == 0 and not fits_itself:  # older builds use no GPU unless told to
            return DecidedLayers(0, "runtime.placement.gpu_layers", "the default of this build")
        return None

    @cached_property
    def gpu_layers_unset(self) -> bool:
        """Whether no number of GPU layers was given: in words, or by the whole command line of an old build."""
        runtime, command = self.runtime, self.case.engine.command
        is_set = isinstance(runtime.placement.gpu_layers_set, Known)
        if is_set or runtime.placement.gpu_layers.value_or(0) > 0 or runtime.memory.vram_share.value_or(0.0) == 1:
            return False
        if self.case.narrative.remarks_on(Topic.LAYERS_UNSET):
            return True
        is_old = self.case.engine.places_layers_itself is False or bool(_OLD_PROGRAM.search("".join(command[:1])))
        return is_old and len(command) > 1 and "--list-devices" not in command

    @cached_property
    def counts_all_on_gpu(self) -> bool:
        """Whether the runtime counts every layer as on the GPU, with none overflowing and none sent to the CPU."""
        placed = self.runtime.placement
        layers, on_gpu = placed.layers.get(), placed.gpu_layers.get()
        is_counted = layers is not None and on_gpu is not None and 0 < layers <= on_gpu
        return is_counted and not placed.overflowing_layers.get() and not any(self.sent_to_cpu)

    @cached_property
    def weights_on_host(self) -> bool:
        """Whether the weights are on the host: a paste may show only the token table's line, which proves nothing."""
        on_host = sum(b.bytes for b in self.case.vram.buffers("model", on_gpu=False))
        weights = self.model.weights_bytes.value_or(0)
        return on_host >= (_WHOLE_SHARE * weights if weights else _WHOLE_BYTES)

    @cached_property
    def holds_weights_on_host(self) -> bool:
        """Whether more of the model than its token table was allocated in the host's memory, whatever was counted."""
        on_host = sum(b.bytes for b in self.case.vram.buffers("model", on_gpu=False))
        return on_host > max(_TABLE_BYTES, 1.5 * self.model.token_table_bytes.value_or(0))

    @cached_property
    def host_weights_bytes(self) -> float:
        """Bytes of weights in the host's memory, the token table apart; MissingFactError where nothing tells."""
        model, memory = self.model, self.runtime.memory
        on_host, on_gpu = (sum(b.bytes for b in self.case.vram.buffers("model", on_gpu=side)) for side in (False, True))
        if self.computes_all_on_gpus:
            left = on_host if self.fetches_missing_weights else 0
            return float(self.runtime.placement.cpu_offload_bytes.value_or(left))
        if on_host and (on_gpu or not model.weights_bytes.value_or(0)):
            return max(0.0, on_host - model.token_table_bytes.value_or(0))
        away = self.sent_to_cpu
        if (sent := self._sent_bytes(away)) is not None:
            return sent
        sizes = memory.size_bytes, memory.size_vram_bytes
        if all(isinstance(size, Known) for size in sizes) and not away.of_layers:
            return float(max(0, sizes[0].need() - sizes[1].need()))
        weights = model.weights_bytes
        if not isinstance(weights, Known) or away.of_layers:
            raise missing("how many bytes of weights are in host memory", self.case.system.spell_out("{placement}"))
        if isinstance(memory.vram_share, Known):
            return weights.value * (1 - memory.vram_share.value)
        if self.case.narrative.remarks_on(Topic.EXPERTS_ON_CPU):
            return float(model.expert_bytes.value_or(weights.value))
        layers = self.layers
        return weights.value * max(0, layers.total - layers.on_gpu) / max(1, layers.total)

    def _sent_bytes(self, away: SentAway) -> float | None:
        """What overrides send to the host by name, beside whole layers there; None where they don't say.

        They come before the runtime's count, which counts a layer as on the GPU though its experts are elsewhere.
        """
        if not away.of_layers:
            return None
        model, placed = self.model, self.runtime.placement
        counted = placed.layers.value_or(0)
        exact = self.bytes_of_layers_on_host(max(0, counted - placed.gpu_layers.value_or(counted)))
        if exact is not None or away.others or not away.experts:
            return exact
        experts, layers = model.expert_bytes.value_or(model.weights_bytes.value_or(0)), model.layers.value_or(0)
        part = self.layers_without_experts(layers) if layers else None
        return float(experts * part / layers if part is not None else experts) or None

    @cached_property
    def gpu_weights_bytes(self) -> float | None:
        """Weights that GPUs hold: by the layers there, else as much as they could hold; None where neither is known."""
        layers, on_gpu = self.runtime.placement.layers.value_or(0), self.runtime.placement.gpu_layers.value_or(0)
        if layers:
            return self.model.weights_bytes.need() * on_gpu / layers
        if self.case.gpus.has_none or self.case.gpus.visible_to_runtime is False:
            return 0.0
        return self.case.vram.total_bytes

    @cached_property
    def cache_on_host(self) -> bool:
        """Whether the keys and values of layers on a GPU are in host memory: as allocated, else as it was set."""
        host, gpu = (sum(b.bytes for b in self.case.vram.buffers("kv", on_gpu=side)) for side in (False, True))
        set_so = not self.runtime.cache.offload.value_or(default=True)
        if not host + gpu:
            return set_so
        layers = self.runtime.placement.layers.value_or(0)
        # with few layers there, it may be the cache of the others
        most = self.runtime.placement.gpu_layers.value_or(layers) >= layers / 2
        return not gpu and bool(self.case.vram.buffers("model", on_gpu=True)) and (set_so or most)

    @cached_property
    def leaves_out_output(self) -> bool:
        """Whether the output is the one layer that is not on the GPU: as the log says, or as old builds place it."""
        layers, on_gpu = self.runtime.placement.layers.value_or(0), self.runtime.placement.gpu_layers.value_or(0)
        return 0 < on_gpu == layers - 1 and self._counted_output is False

    @cached_property
    def _counted_output(self) -> bool | None:
        """Whether the output is among the layers that are counted on the GPU; None where neither log nor age tells."""
        placed, version = self.runtime.placement, self.runtime.version
        if isinstance(placed.output_on_gpu, Known):
            return placed.output_on_gpu.value
        is_old = self.case.engine.runs_ggml and build_number(version.value_or("")) < OUTPUT_LAST_UNTIL
        return False if is_old and placed.gpu_layers.value_or(0) < placed.layers.value_or(0) else None

    @cached_property
    def sent_to_cpu(self) -> SentAway:
        """What the settings of a case send to the CPU; of a model without experts none can leave."""
        overrides = tuple(self.runtime.placement.tensor_overrides.value_or([]))
        away = tensors_sent_to_cpu(overrides, names_in(self.model)) if overrides else SentAway()
        return away._replace(experts=False) if self.model.experts.value_or(None) == 0 else away

    def overrides_sending(self, kind: str) -> list[str]:
        """The settings, as written, that send away one kind of `SentAway` on their own."""
        names, overrides = names_in(self.model), self.runtime.placement.tensor_overrides.value_or([])
        return [one for one in overrides if getattr(tensors_sent_to_cpu((one,), names), kind)]

    def layers_without_experts(self, layers: int) -> float | None:
        """Layers whose experts are sent away, in part as a fraction; None where the settings do not tell how many."""
        names = names_in(self.model)._replace(layers=layers)
        return layers_without_experts(tuple(self.runtime.placement.tensor_overrides.value_or([])), names)

    @cached_property
    def expert_layers_on_host(self) -> float:
        """Layers whose experts are on the host: by what was allocated, else by the overrides."""
        shape = self.case.memory.shape
        try:
            return shape.layers - self.read(shape).with_experts
        except MissingFactError:
            named = self.layers_without_experts(shape.layers)
            if named is None:
                raise
            return named

    def bytes_of_layers_on_host(self, whole: int) -> int | None:
        """Bytes in host memory: the first `whole` layers, of others what overrides send there; None where unknown."""
        return bytes_on_host(self.model, tuple(self.runtime.placement.tensor_overrides.value_or([])), whole)


def _holding(shape: Shape, bytes_held: float, *, output_on_gpu: bool = True) -> Placement:
    """The layers that so many bytes of weights are, a fraction among them."""
    output = shape.output_bytes if output_on_gpu else 0.0
    if bytes_held < output:
        return Placement(0, output_on_gpu=False)
    return Placement(min(shape.layers, max(0.0, (bytes_held - output) / shape.layer_bytes)), output_on_gpu)
