"""Where the weights of a case lie, on GPUs and with the host, and which processors compute a part of the model."""

from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Absence, Known, MissingFactError, Unknown
from unslow.think.case.demand import exact_needs, fitting_placement, missing, read_shape
from unslow.think.case.gpus import BUSY, hidden_by_environment
from unslow.think.case.instructions import spelled_out
from unslow.think.case.narrative import is_report, remarks_on
from unslow.think.case.overrides import SentAway, bytes_of_layers_on_host, layers_without_experts, sent_away
from unslow.think.case.runtime import build_number, runs_ggml, runs_on_gpus_alone
from unslow.think.case.vram import (
    NOBODYS_BYTES,
    buffers_of,
    candidate_gpus,
    compute_bytes,
    free_vram_bytes,
    gpus_held,
    gpus_of,
    gpus_used,
    margin_bytes,
    own_is_counted,
    own_lent_bytes,
    own_vram_bytes,
    runtime_sees_gpu,
    seen_gpus,
    whole_on_host,
)
from unslow.think.memo import once
from unslow.think.physics.links import link_bytes_per_s
from unslow.think.physics.placement import Placement, Shape, without_experts

MLX = "MLX"  # An engine that has all of a model in the memory which GPU and CPU share, and computes with the GPU
ALL_LAYERS = 99  # Who asks for so many means all: no common model has more
CLEARLY_MORE = 1.15  # Times the weights: buffers and an estimate of a file's size are within it
HARDLY_THERE = 0.5
"""Of the layers that count as on the GPU: where it holds less, tensors of them lie elsewhere, whoever sent them."""
OUTPUT_LAST_UNTIL = 5000  # Builds of llama.cpp below this number (March 2025) certainly placed the output layer last
_TABLE_BYTES = 1024 * MIB
"""No token table is much larger: what else of the model lies in the host's memory is there to be computed with."""
RUNTIME_CONTEXT_BYTES = 500 * MIB
"""What a process holds on an NVIDIA GPU beside its buffers: 480 to 590 MiB on the recorded machines."""


class Split(NamedTuple):
    """What the runtime itself says of a model that is only in part on GPUs, in words, and the fact that says so."""

    words: str
    fact: str


class Layers(NamedTuple):
    """Layers on the GPU and in all, the output counted as one more; `fact` is where that was read."""

    on_gpu: int
    total: int
    fact: str


def counted_layers(case: Case) -> Layers:
    """As the runtime counted them, else from the memory that its process holds."""
    runtime = case.runtime
    if isinstance(runtime.gpu_layers, Known) and isinstance(runtime.layers, Known):
        return Layers(runtime.gpu_layers.value, runtime.layers.value, "runtime.gpu_layers")
    shape = read_shape(case)
    if computes_all_on_gpus(case):
        return Layers(shape.layers + 1, shape.layers + 1, "runtime.name")
    placed = _from_held_memory(case, shape)
    if placed is None:
        raise missing("where the weights lie", spelled_out("{placement}", case))
    on_gpu = int(placed.gpu_layers) + placed.output_on_gpu
    return Layers(on_gpu, shape.layers + 1, "machine.gpus.0.processes")


def layers_left_on_host(case: Case) -> int:
    """Layers that are not, or not as a whole, on the GPU."""
    layers, overflowing = counted_layers(case), case.runtime.overflowing_layers
    left = max(0, layers.total - layers.on_gpu, overflowing.value_or(0))
    by_bytes = not layers.fact.startswith("runtime.")  # which tell of parts of layers as well
    if left or by_bytes or isinstance(overflowing, Known) or any(sent_away(case)):
        return left
    # Who writes a report pastes what they find odd, and of all the rest takes the count for granted
    told = isinstance(case.runtime.buffers, Known) or isinstance(case.runtime.vram_share, Known) or is_report(case)
    if holds_weights_on_host(case) or (not told and case.model.experts.value_or(0) > 1):
        raise MissingFactError(overflowing, "runtime.overflowing_layers")
    return left


def holds_weights_on_host(case: Case) -> bool:
    """Whether more of the model than its token table was allocated in the host's memory, whatever was counted."""
    on_host = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False))
    return on_host > max(_TABLE_BYTES, 1.5 * case.model.token_table_bytes.value_or(0))


def seen_split(case: Case) -> Split | None:
    """A model that is in part on GPUs by the runtime's own account: its layers, its share, or its bytes."""
    runtime = case.runtime
    layers, on_gpu = runtime.layers.value_or(0), runtime.gpu_layers.value_or(0)
    if 0 < on_gpu < layers:
        return Split(f"{on_gpu} of {layers} layers are on the GPU", "runtime.gpu_layers")
    share = runtime.vram_share.value_or(0.0)
    if 0 < share < 1:
        return Split(f"{share:.0%} of the model is on the GPU", "runtime.vram_share")
    size, held = runtime.size_bytes.value_or(0), runtime.size_vram_bytes.value_or(0)
    if 0 < held < size:
        return Split(f"{held / GIB:.1f} of {size / GIB:.1f} GiB are on the GPU", "runtime.size_vram_bytes")
    return None


class Grown(NamedTuple):
    """Bytes that a loaded model takes in all, on GPUs, and as weights."""

    size: float
    on_gpu: float
    weights: float


def grown_beyond_weights(case: Case) -> Grown | None:
    """A model in two places whose part on GPUs is larger than its weights: the cache is what drove it out."""
    runtime, weights = case.runtime, float(case.model.weights_bytes.value_or(0))
    size = float(runtime.size_bytes.value_or(0))
    held = float(runtime.size_vram_bytes.value_or(0)) or size * runtime.vram_share.value_or(0.0)
    if not weights or not 0 < held < size or held < CLEARLY_MORE * weights:
        return None
    return Grown(size, held, weights)


def set_on_purpose(case: Case) -> bool:
    """Whether a setting says how many layers go to the GPU, and fewer than there are."""
    wanted, layers = case.runtime.gpu_layers_set.value_or(-1), case.runtime.layers.value_or(ALL_LAYERS)
    return case.runtime.device_set.value_or("") == "none" or 0 <= wanted < layers


def read_placement(case: Case, shape: Shape) -> Placement:
    """Where the layers and their cache are; MissingFactError where nothing tells."""
    return _weights_placement(case, shape)._replace(cache_on_gpu=not cache_on_host(case))


def cache_on_host(case: Case) -> bool:
    """Whether the keys and values of layers on a GPU lie in the host's memory: as allocated, else as it was set."""
    host, gpu = (sum(b.bytes for b in buffers_of(case, "kv", on_gpu=side)) for side in (False, True))
    if not host + gpu:
        return not case.runtime.kv_offload.value_or(default=True)
    layers, set_so = case.runtime.layers.value_or(0), case.runtime.kv_offload.value_or(default=True) is False
    most = case.runtime.gpu_layers.value_or(layers) >= layers / 2  # with few there, it may be that of the other layers
    return not gpu and bool(buffers_of(case, "model", on_gpu=True)) and (set_so or most)


@once
def computes_all_on_gpus(case: Case) -> bool:
    """Whether its engine never computes a layer on the CPU: it fetches what lies with the host, or does not start.

    What one of its workers logs is but a part of the model, and what its processes hold is mostly cache.
    """
    if fetches_what_lacks_room(case):
        return True
    on_cpu = case.runtime.device_used.value_or("").startswith("cpu")
    return bool(runs_on_gpus_alone(case) and not on_cpu and gpus_used(case) and runtime_sees_gpu(case) is not False)


def fetches_what_lacks_room(case: Case) -> bool:
    """Whether it is Accelerate that placed the model: the GPU computes all, with weights copied to it when needed."""
    named = "transformers" in case.runtime.name.value_or("").lower()
    return named and all(buffers_of(case, "model", on_gpu=side) for side in (True, False))


def _weights_placement(case: Case, shape: Shape) -> Placement:
    runtime = case.runtime
    if computes_all_on_gpus(case):
        return Placement(shape.layers, output_on_gpu=True)
    if isinstance(runtime.buffers, Known) and (buffers_of(case, "model", on_gpu=True) or _host_only(case)):
        return _from_buffers(case, shape)
    if isinstance(runtime.gpu_layers, Known) and not sent_away(case).of_layers:
        return _by_count(case, shape)
    if MLX in runtime.backends.value_or([]):
        on_gpu = case.machine.gpus.value_or(None) != ()  # mlx[cpu] computes on a Linux without a GPU
        return Placement(shape.layers if on_gpu else 0, output_on_gpu=on_gpu)
    if runtime.embedded or _host_only(case) or runtime_sees_gpu(case) is False:
        return Placement(0, output_on_gpu=False)
    if held := _from_held_memory(case, shape):
        return held
    gpus = case.machine.gpus
    if runs_on_gpus_alone(case) and isinstance(gpus, Unknown) and gpus.absence is Absence.NOT_FOUND:
        raise MissingFactError(gpus, "machine.gpus")  # which these are, where somebody looked in vain
    raise missing("where the weights lie", spelled_out("{placement}", case))


def output_is_on_gpu(case: Case) -> bool | None:
    """Whether a GPU holds the output matrix: as an override has it, else as the log says; None where neither tells."""
    return False if sent_away(case).output else _counted_output(case)


def leaves_out_the_output(case: Case) -> bool:
    """Whether the output is the one layer that is not on the GPU: as the log says, or as old builds place it."""
    layers, on_gpu = case.runtime.layers.value_or(0), case.runtime.gpu_layers.value_or(0)
    return 0 < on_gpu == layers - 1 and _counted_output(case) is False


def _counted_output(case: Case) -> bool | None:
    """Whether the output is among the layers that are counted on the GPU; None where neither log nor age tells."""
    runtime = case.runtime
    if isinstance(runtime.output_on_gpu, Known) or not isinstance(runtime.version, Known) or not runs_ggml(case):
        return runtime.output_on_gpu.value_or(None)
    short = runtime.gpu_layers.value_or(0) < runtime.layers.value_or(0)
    return False if short and build_number(runtime.version.value) < OUTPUT_LAST_UNTIL else None


def _by_count(case: Case, shape: Shape) -> Placement:
    """By the layers that the runtime counts: the output is one of them, unless it lies elsewhere or is not counted."""
    runtime = case.runtime
    count, all_counted = runtime.gpu_layers.value_or(0), runtime.layers.value_or(shape.layers + 1)
    not_counted = _counted_output(case) is False or (all_counted <= shape.layers and count >= all_counted)
    layers = count if not_counted else count - 1
    said = output_is_on_gpu(case)
    return Placement(min(shape.layers, max(0, layers)), output_on_gpu=count > 0 if said is None else said and count > 0)


def read_placement_or_none(case: Case, shape: Shape) -> Placement | None:
    """The placement, or None where it can't be told."""
    try:
        return read_placement(case, shape)
    except MissingFactError:
        return None


def _host_only(case: Case) -> bool:
    devices = case.runtime.devices
    no_gpu_here = isinstance(case.machine.gpus, Known) and not case.machine.gpus.value
    model_on_host = whole_on_host(case) and not buffers_of(case, "model", on_gpu=True)
    return no_gpu_here or model_on_host or (isinstance(devices, Known) and not seen_gpus(case))


def _from_buffers(case: Case, shape: Shape) -> Placement:
    on_gpu = float(sum(b.bytes for b in buffers_of(case, "model", on_gpu=True)))
    if not on_gpu:
        return Placement(0, output_on_gpu=False)
    whole, by_count = case.runtime.gpu_layers.value_or(0), _by_count(case, shape)
    overridden = sent_away(case).of_layers or case.runtime.overflowing_layers.value_or(0)
    overridden = overridden or on_gpu < HARDLY_THERE * by_count.gpu_layers * shape.layer_bytes
    if whole and not overridden:  # the count is exact where every layer is on one side as a whole
        return by_count
    said = output_is_on_gpu(case)
    output = on_gpu >= shape.output_bytes if said is None else said
    counted = by_count.gpu_layers if whole else shape.layers
    if shape.expert_share and overridden:
        lacking = counted * shape.layer_bytes + output * shape.output_bytes - on_gpu
        return without_experts(shape, counted, max(0.0, lacking), output_on_gpu=output)
    return _holding(shape, on_gpu, output_on_gpu=output)


def _holding(shape: Shape, bytes_held: float, *, output_on_gpu: bool = True) -> Placement:
    """The layers that so many bytes of weights are, a fraction among them."""
    output = shape.output_bytes if output_on_gpu else 0.0
    if bytes_held < output:
        return Placement(0, output_on_gpu=False)
    return Placement(min(shape.layers, max(0.0, (bytes_held - output) / shape.layer_bytes)), output_on_gpu)


def _from_held_memory(case: Case, shape: Shape) -> Placement | None:
    """By what the process holds on the GPU: less than the weights is a spill; more, with room left, is none."""
    held = own_vram_bytes(case)
    if held is None or not own_is_counted(case) or own_lent_bytes(case) >= GIB:
        return None  # with memory lent to it, what it holds there is not what it put there
    weights = shape.layers * shape.layer_bytes + shape.output_bytes
    if held < weights:
        return _holding(shape, max(0.0, held - RUNTIME_CONTEXT_BYTES - compute_bytes(case)))
    if any(sent_away(case)):
        return None
    if partly := _part_that_is_held(case, shape, held):
        return partly
    forced = case.runtime.gpu_layers_set.value_or(None) is not None
    roomy = free_vram_bytes(case) > margin_bytes(case) + shape.layer_bytes
    # Where the heads are unknown, an f16 cache of one head in eight
    for_one = shape.kv_bytes_per_token or shape.layers * shape.width / 2
    whole = held >= weights + (for_one * case.runtime.context_length.value_or(0))
    return Placement(shape.layers, output_on_gpu=True) if roomy and whole and not forced else None


def _part_that_is_held(case: Case, shape: Shape, held: float) -> Placement | None:
    """More than the weights, and still clearly less than they take together with cache and compute buffers.

    Each layer brings its part of the cache along, so layers are on the host as well; None where nothing is missing.
    """
    context = case.runtime.context_length.value_or(0)
    needs = exact_needs(case, context) if context and not cache_on_host(case) else None
    if needs is None:
        return None
    asked, used = sum(need.total for need in needs[:-1]), held - RUNTIME_CONTEXT_BYTES
    if asked - used < max(RUNTIME_CONTEXT_BYTES, asked / (shape.layers + 1)):
        return None
    return fitting_placement(case, shape, used + margin_bytes(case), context)


def cpu_computes(case: Case) -> bool | None:
    """Whether the CPU has layers or experts to compute; None where nothing tells."""
    # attention is computed where its cache lies
    attention_there = buffers_of(case, "kv", on_gpu=False) or case.runtime.kv_offload.value_or(default=True) is False
    if attention_there or (isinstance(case.machine.gpus, Known) and not case.machine.gpus.value):
        return True
    if case.runtime.embedded or any(sent_away(case)) or remarks_on(case, Topic.GPU_ABSENT):
        return True
    if holds_weights_on_host(case):
        return True  # whatever number of layers was counted: experts may be left behind
    if isinstance(case.runtime.vram_share, Known):
        return case.runtime.vram_share.value < 1
    try:
        return layers_left_on_host(case) > 0
    except MissingFactError:
        return True if runtime_sees_gpu(case) is False else None


@once
def uses_no_gpu(case: Case) -> bool:
    """Whether it is sure that no GPU computes: none is seen, all are hidden, or a setting keeps away from them."""
    if case.runtime.embedded:
        return True
    sees = runtime_sees_gpu(case)
    if case.runtime.device_set.value_or("") == "none":
        return not case.runtime.gpu_layers.value_or(0) and not buffers_of(case, "model", on_gpu=True)
    return sees is False or (sees is None and hidden_by_environment(case) is not None)


def gpus_computing(case: Case) -> int | None:
    """How many GPUs hold a part of the model; None where nothing tells."""
    held = {b.device for b in buffers_of(case, "model", on_gpu=True)}
    if held:
        return len(held)
    parallel = case.runtime.tensor_parallel.value_or(1) * case.runtime.pipeline_parallel.value_or(1)
    if parallel > 1:
        return parallel
    if isinstance(case.machine.gpus, Known) and len(gpus_of(case)) <= 1:
        return len(gpus_of(case))
    if case.runtime.split_mode.value_or("") == "none":
        return 1
    listed = all(isinstance(gpu.processes, Known) for gpu in gpus_of(case))
    return len(gpus_held(case)) or None if listed else None


USUAL_LANES = 16
FASTEST_BYTES_PER_S = link_bytes_per_s(5, USUAL_LANES)
"""What any link of today copies at most: where nobody looked, a copy takes at least as long as over this one."""
ASLEEP = 2  # The highest generation that a link falls to while its GPU rests
SHOW_LINK = "while a prompt is read: {gpu_link}"


def host_weights_bytes(case: Case) -> float:
    """Bytes of weights in the host's memory, the token table apart; MissingFactError where nothing tells."""
    if computes_all_on_gpus(case):
        left = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False)) if fetches_what_lacks_room(case) else 0
        return float(case.runtime.cpu_offload_bytes.value_or(left))
    runtime, model = case.runtime, case.model
    on_host, on_gpu = (sum(b.bytes for b in buffers_of(case, "model", on_gpu=side)) for side in (False, True))
    if on_host and (on_gpu or not model.weights_bytes.value_or(0)):
        return max(0.0, on_host - model.token_table_bytes.value_or(0))
    away = sent_away(case)
    if (sent := _sent_bytes(case, away)) is not None:
        return sent
    if isinstance(runtime.size_bytes, Known) and isinstance(runtime.size_vram_bytes, Known) and not away.of_layers:
        return float(max(0, runtime.size_bytes.value - runtime.size_vram_bytes.value))
    weights = model.weights_bytes
    if not isinstance(weights, Known) or away.of_layers:
        raise missing("how many bytes of weights lie in the host's memory", spelled_out("{placement}", case))
    if isinstance(runtime.vram_share, Known):
        return weights.value * (1 - runtime.vram_share.value)
    if remarks_on(case, Topic.EXPERTS_ON_CPU):
        return float(model.expert_bytes.value_or(weights.value))
    layers = counted_layers(case)
    return weights.value * max(0, layers.total - layers.on_gpu) / max(1, layers.total)


def _sent_bytes(case: Case, away: SentAway) -> float | None:
    """What settings send to the host by name, beside layers that lie there as a whole; None where they tell nothing.

    They come before what the runtime counts, which takes a layer for one on the GPU though its experts are elsewhere.
    """
    if not away.of_layers:
        return None
    runtime, model = case.runtime, case.model
    whole = max(0, runtime.layers.value_or(0) - runtime.gpu_layers.value_or(runtime.layers.value_or(0)))
    exact = bytes_of_layers_on_host(case, whole)
    if exact is not None or away.others or not away.experts:
        return exact
    experts, layers = model.expert_bytes.value_or(model.weights_bytes.value_or(0)), model.layers.value_or(0)
    part = layers_without_experts(case, layers) if layers else None
    return float(experts * part / layers if part is not None else experts) or None


def host_link_bytes_per_s(case: Case) -> float | None:
    """What the link between host and GPU copies, by the best that was seen of it; None where nobody looked."""
    rates = []
    for gpu in gpus_used(case):
        seen = next((g for g in case.run.gpus.value_or(()) if g.index == gpu.index), None)
        generation = (seen.pcie_generation_max_seen.value_or(0) if seen else 0) or _generation_awake(gpu)
        lanes = (seen.pcie_width_max_seen.value_or(0) if seen else 0) or gpu.pcie_width.value_or(0)
        if generation and lanes:
            rates.append(link_bytes_per_s(generation, lanes))
    return max(rates, default=None)


def _generation_awake(gpu: Gpu) -> int:
    """The link's generation at work: one that was read while the GPU rested has fallen asleep, and says nothing."""
    rests = "gpu_idle" in gpu.event_reasons.value_or([]) or (isinstance(gpu.busy, Known) and gpu.busy.value < BUSY)
    now = gpu.pcie_generation.value_or(0)
    if rests and isinstance(gpu.pcie_generation_max, Known):
        return max(now, gpu.pcie_generation_max.value)
    return 0 if rests and now <= ASLEEP else now


def held_by_others(case: Case, others: list[GpuProcess], how_to_get: str) -> float:
    """What they hold: as listed, else what is in use and neither the runtime's nor the driver's."""
    sizes = [p.vram_bytes for p in others]
    listed = float(sum(size.value_or(0) for size in sizes))
    if all(isinstance(size, Known) for size in sizes):
        return listed
    own, gpus, buffers = own_vram_bytes(case), gpus_used(case), case.runtime.buffers
    if own is None and isinstance(buffers, Known):
        own = RUNTIME_CONTEXT_BYTES + sum(b.bytes for b in buffers.value if b.on_gpu)
    if own is None or not all(isinstance(gpu.vram_used_bytes, Known) for gpu in gpus):
        raise missing("how much GPU memory each process holds", how_to_get)
    used = sum(gpu.vram_used_bytes.need() for gpu in gpus)
    return max(listed, used - own - NOBODYS_BYTES * len(gpus))


def driver_lends(case: Case) -> bool:
    """Whether what counts as on the GPU may lie in system memory: it may move, or Windows lent gigabytes."""
    lent = any(gpu.shared_used_bytes.value_or(0) >= GIB for gpu in gpus_of(case))
    return lent or "GGML_CUDA_ENABLE_UNIFIED_MEMORY" in case.runtime.environment.value_or({})


class Memory(NamedTuple):
    """All that a GPU has, and what was free of it before the load."""

    total: float
    free: float

    @property
    def gone(self) -> float:
        """What somebody else held."""
        return self.total - self.free


def memory_before(case: Case, device: SeenDevice) -> Memory | None:
    """As the runtime saw it, or with the total of the one kind of card that it can be; None where either is missing.

    Where the driver lists who holds memory on the card, that list decides, and not what is gone.
    """
    is_cpu = "cpu" in (device.library, device.name.lower())
    cards = [gpu for gpu in candidate_gpus(device, gpus_of(case)) if isinstance(gpu.processes, Unknown)]
    totals = {gpu.vram_total_bytes.value_or(0) for gpu in cards}
    total = device.total_bytes.value_or(totals.pop() if len(totals) == 1 else 0)
    if not total or is_cpu or device.integrated.value_or(default=False) or not isinstance(device.free_bytes, Known):
        return None
    return Memory(float(total), float(device.free_bytes.value))
