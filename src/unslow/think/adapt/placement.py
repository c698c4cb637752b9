"""Where the weights of a case lie, and how much room there was for them."""

from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.shape import missing
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES, FIT_MARGIN_BYTES, Placement, Shape


def gpus_of(case: Case) -> tuple[Gpu, ...]:
    """The GPUs of the machine; none where nobody could look."""
    return case.machine.gpus.value_or(())


def buffers_of(case: Case, kind: str, *, on_gpu: bool) -> list[Buffer]:
    """The buffers of one kind on one side."""
    return [b for b in case.runtime.buffers.value_or([]) if b.kind == kind and b.on_gpu is on_gpu]


def compute_bytes(case: Case) -> float:
    """The compute buffer on the GPU."""
    failure = case.runtime.allocation_failure.value_or(None)
    if failure and failure.what == "compute_buffer":
        return failure.asked_bytes.value_or(COMPUTE_BUFFER_BYTES)
    return sum(b.bytes for b in buffers_of(case, "compute", on_gpu=True)) or COMPUTE_BUFFER_BYTES


def read_placement(case: Case, shape: Shape) -> Placement:
    """Where the layers are: from allocated bytes, else from layer counts, else from a runtime without any GPU."""
    runtime = case.runtime
    if isinstance(runtime.buffers, Known) and (buffers_of(case, "model", on_gpu=True) or _host_only(case)):
        return _from_buffers(case, shape)
    if isinstance(runtime.gpu_layers, Known):
        count = runtime.gpu_layers.value
        return Placement(min(shape.layers, max(0, count - 1)), output_on_gpu=count > 0)
    if runtime.embedded or _host_only(case) or runtime_sees_gpu(case) is False:
        return Placement(0, output_on_gpu=False)
    if _fills_enough_vram(case):
        return Placement(shape.layers, output_on_gpu=True)
    raise missing("where the weights lie", "restart llama-server with `-lv 4`, so that it prints its buffers")


def _fills_enough_vram(case: Case) -> bool:
    """Whether the process holds more GPU memory than the weights take, with room left: nothing pushed any out."""
    own = sum(p.vram_bytes.value_or(0) for g in gpus_of(case) for p in g.processes.value_or([]) if _is_own(case, p.pid))
    free = sum(g.vram_free_bytes.value_or(0) for g in gpus_of(case))
    unforced = case.runtime.gpu_layers_set.value_or(None) is None and not case.runtime.tensor_overrides.value_or([])
    return unforced and own >= case.model.weights_bytes.value_or(own + 1) and free > margin_bytes(case)


def _is_own(case: Case, pid: int) -> bool:
    return pid == case.runtime.pid.value_or(None)


def _host_only(case: Case) -> bool:
    devices = case.runtime.devices
    no_gpu_here = isinstance(case.machine.gpus, Known) and not case.machine.gpus.value
    model_on_host = bool(buffers_of(case, "model", on_gpu=False)) and not buffers_of(case, "model", on_gpu=True)
    return no_gpu_here or model_on_host or (isinstance(devices, Known) and all(d.name == "CPU" for d in devices.value))


def _from_buffers(case: Case, shape: Shape) -> Placement:
    on_gpu = sum(b.bytes for b in buffers_of(case, "model", on_gpu=True))
    if not on_gpu:
        return Placement(0, output_on_gpu=False)
    layers = (on_gpu - shape.output_bytes) / shape.layer_bytes if shape.layer_bytes else shape.layers
    whole = case.runtime.gpu_layers.value_or(0)
    overridden = bool(case.runtime.tensor_overrides.value_or([])) or case.runtime.overflowing_layers.value_or(0)
    if whole and not overridden:  # the count is exact where every layer is on one side as a whole
        layers = whole - 1
    return Placement(min(shape.layers, max(0.0, layers)), output_on_gpu=True)


def read_placement_or_none(case: Case, shape: Shape) -> Placement | None:
    """The placement, or None where it can't be told."""
    try:
        return read_placement(case, shape)
    except MissingFactError:
        return None


def available_vram_bytes(case: Case) -> float:
    """What the runtime had before it loaded: as it saw it, else free now and its own."""
    seen = [d for d in case.runtime.devices.value_or([]) if d.name != "CPU" and isinstance(d.free_bytes, Known)]
    if seen:
        return sum(d.free_bytes.need() for d in seen)
    own = sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu)
    return sum(g.vram_free_bytes.need() for g in gpus_of(case)) + own


def total_vram_bytes(case: Case) -> float:
    """All that the GPUs have, less what their drivers keep."""
    return sum(g.vram_total_bytes.need() - g.vram_reserved_bytes.value_or(0) for g in gpus_of(case))


def margin_bytes(case: Case) -> float:
    """What the runtime's fit leaves free."""
    return case.runtime.fit_margin_bytes.value_or(FIT_MARGIN_BYTES)


def total_free_vram_bytes(case: Case) -> float:
    """What the GPUs have free now."""
    return sum(g.vram_free_bytes.value_or(g.vram_total_bytes.value_or(0)) for g in gpus_of(case))


def runtime_sees_gpu(case: Case) -> bool | None:
    """Whether the runtime has a GPU to compute on; None where nothing tells."""
    runtime = case.runtime
    if any(_is_own(case, p.pid) for g in gpus_of(case) for p in g.processes.value_or([])):
        return True
    if any(b.on_gpu for b in runtime.buffers.value_or([])) or isinstance(runtime.gpu_layers, Known):
        return True  # llama.cpp counts offloaded layers only where a GPU backend exists
    if any(d.name != "CPU" for d in runtime.devices.value_or([])):
        return True
    if isinstance(runtime.gpu_refused, Known) or isinstance(runtime.devices, Known):
        return False
    return False if buffers_of(case, "model", on_gpu=False) else None
