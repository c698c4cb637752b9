"""What runs now as a plan and the sliders take it: its hardware, and a speed that is not predicted."""

from collections.abc import Sequence

import msgspec

from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.values import GIB, MIB, Known, Origin, estimated_fact, reported_fact
from unslow.think.case.device import SLOWEST_BYTES_PER_S, device_of
from unslow.think.case.host import CORE_FED_BYTES_PER_S
from unslow.think.case.physics import chip_of_gpu, core_flops_of
from unslow.think.case.view import CaseView
from unslow.think.hardware import CUDA_CONTEXT_BYTES, Hardware, Processors, Room, may_pin, memory_of_machine
from unslow.think.physics.placement import Placement
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport
from unslow.think.speed.question import USUAL_LINK, has_peers

_NOTHING = Placement(0, output_on_gpu=False)
_MAPPED = "Mapped"  # in the names of buffers that are pages of the model's file, which the system counts as available
_FAR_BELOW = 0.7  # of the low end of a prediction: so slow a server suffers from more than its settings
_SURELY_LACKING = 256 * MIB  # less may be an error in what is counted as its own
WORTH_A_CHANGE = 1.05  # less of a gain is within what a prediction is off
UNPRICED = "the cost of a current setting is not predicted: gains are relative to the measured speed"
_WITH_KERNELS = ("f16", "bf16", "f32", "q8_0", "q4_0")  # types of cache that every build computes on the GPU
_SLOWER = "times slower"  # in costs that are held against the prediction for what runs, which does not count then
LENT = "it needs more VRAM than the GPU has, so the driver spills to host memory; its speed is the measured one"


def seen_hardware(case: CaseView, gpus: Sequence[Gpu], memory: Hardware) -> Hardware:
    """That memory with its speed; MissingFactError where a GPU's speed is unknown."""
    beside = case.physics.host_setting(_NOTHING)
    setting = case.physics.gpu_setting(gpus[0]) if gpus else beside
    known = case.speed.calibration if gpus and case.calibrations else None
    # By how much a server here was slower than expected when it was calibrated
    slower = known.scale.factor if known and known.scale and known.backend == "gpu" else 1.0
    chips = []
    for chip, _ in map(chip_of_gpu, gpus):
        speeds = (chip.bytes_per_s, chip.flops_per_s, chip.matrix_flops_per_s)
        read, computed, in_matrices = (speed / slower for speed in speeds)
        chips.append(chip._replace(bytes_per_s=read, flops_per_s=computed, matrix_flops_per_s=in_matrices))
    weights = case.model.weights_bytes.value_or(0)
    return memory._replace(
        chips=tuple(chips),
        setting=setting,
        processors=seen_processors(case),
        host_setting=beside,
        link_bytes_per_s=case.gpus.host_link_bytes_per_s or USUAL_LINK,
        pinned=bool(gpus) and may_pin(setting.backend, memory.host_room, weights),
        year=case.engine.build_year,
        peers=all(device is None or has_peers(device) for device in map(device_of, gpus)),
    )


def seen_processors(case: CaseView) -> Processors:
    """The cores that its process may use, fast ones alone where there are two kinds, and what they read."""
    cpu, memory = case.machine.cpu, case.machine.memory
    is_counted = bool(cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0))
    physical = cpu.physical_cores.value_or(0) or cpu.logical_cpus.value_or(1)
    fast = cpu.performance_cores.value_or(0) or physical
    cores = max(1, int(min(fast, physical, case.host.cpus if is_counted else fast)))
    measured = memory.read_bytes_per_s.value_or(0.0)
    known = measured if measured >= SLOWEST_BYTES_PER_S else CORE_FED_BYTES_PER_S * physical
    return Processors(
        cores=cores,
        bytes_per_s=known,
        one_core_bytes_per_s=memory.read_one_core_bytes_per_s.value_or(0.0) if measured else 0.0,
        core_flops_per_s=core_flops_of(cpu),
        logical=int(case.host.own_cpus) if is_counted else 0,
    )


def is_assumed(case: CaseView) -> bool:
    """Whether host memory bandwidth was not measured."""
    memory = case.machine.memory.read_bytes_per_s
    return not isinstance(memory, Known) or memory.origin is Origin.ESTIMATED


def gpus_at_work(case: CaseView) -> tuple[Gpu, ...]:
    """The GPUs that it computes on; none where it has none to compute on."""
    return () if case.gpus.visible_to_runtime is False else tuple(_gpu_with_size(case, gpu) for gpu in case.gpus.in_use)


def _gpu_with_size(case: CaseView, gpu: Gpu) -> Gpu:
    """The GPU with its size, where only the runtime or its name tells that, and what was free before the load."""
    seen = case.gpus.seen_by_runtime
    device = seen[0] if len(seen) == 1 == len(case.gpus.in_use) else None
    if not isinstance(gpu.vram_total_bytes, Known) and device and isinstance(device.total_bytes, Known):
        gpu = msgspec.structs.replace(gpu, vram_total_bytes=device.total_bytes)
    known = device_of(gpu)
    if not isinstance(gpu.vram_total_bytes, Known) and known and known.capacity_bytes and not known.is_unified:
        gpu = msgspec.structs.replace(gpu, vram_total_bytes=estimated_fact(known.capacity_bytes, known.source))
    failed = case.runtime.state.value_or("") == "failed"  # what was measured since may be its own, before it ended
    wanted = failed or not isinstance(gpu.vram_free_bytes, Known)
    if wanted and device and isinstance(device.free_bytes, Known):
        gpu = msgspec.structs.replace(gpu, vram_free_bytes=device.free_bytes)
    return gpu


def seen_memory(case: CaseView, gpus: Sequence[Gpu]) -> Hardware:
    """The memory of these GPUs and of the host as the runtime would find it if it were started anew."""
    machine = msgspec.structs.replace(case.machine, gpus=reported_fact(tuple(gpus), "the runtime's own"))
    memory = memory_of_machine(machine)
    if len(memory.rooms) != len(gpus):
        return memory._replace(rooms=())
    pairs = zip(memory.rooms, given_back(case, gpus), strict=True)
    rooms = tuple(room._replace(others_bytes=max(0, room.others_bytes - int(own))) for room, own in pairs)
    unified = bool(rooms) and all(room.unified for room in rooms)
    found = memory._replace(rooms=rooms, host_room=None if unified else _seen_host_room(case, memory.host_room))
    # The memory of a Mac as the one that it is: drivers tell what a GPU may have of it as if it were apart
    rooms, host = found.rooms, found.host_room
    apple = len(gpus) == 1 and gpus[0].name.value_or("").startswith("Apple")
    if not apple or host is None or any(room.unified for room in rooms):
        return found
    own = 0 if isinstance(case.runtime.process.resident_bytes, Known) else int(given_back(case, gpus)[0])
    limit, others = rooms[0].capacity_bytes, max(0, host.others_bytes - own)
    beyond = max(0, host.capacity_bytes - limit - others)  # what others hold need not be of the GPU's part
    room = Room(rooms[0].name, host.capacity_bytes, others, beyond, unified=True, context_bytes=0)
    return found._replace(rooms=(room,), host_room=None)


def given_back(case: CaseView, gpus: Sequence[Gpu]) -> list[float]:
    """What its process holds of each GPU: as the driver counts, else as it says that it allocated."""
    nothing = [0.0] * len(gpus)
    if not gpus or case.runtime.state.value_or("loaded") == "failed":
        return nothing
    counted = [case.vram.own_bytes_on(gpu) for gpu in gpus]
    if any(held is not None for held in counted):
        return [held or 0.0 for held in counted]
    held = sum(b.bytes for b in case.runtime.memory.buffers.value_or([]) if b.on_gpu)
    held = held or int(case.runtime.memory.size_vram_bytes.value_or(0))
    shares = case.gpus.weight_shares(len(gpus)) if held else ()
    return [held * share + CUDA_CONTEXT_BYTES for share in shares] or nothing


def _seen_host_room(case: CaseView, host: Room | None) -> Room | None:
    """The host's memory within the limit of the runtime's own group, and with what only it holds."""
    if host is None:
        return None
    capacity = int(min(host.capacity_bytes, case.runtime.process.memory_limit_bytes.value_or(host.capacity_bytes)))
    resident = int(case.runtime.process.resident_bytes.value_or(0))
    mapped = sum(b.bytes for b in case.runtime.memory.buffers.value_or([]) if _MAPPED in b.device)
    if not mapped and "mmap" in case.runtime.placement.load_mode.value_or("mmap"):
        mapped = int(case.model.weights_bytes.value_or(resident))
    own = 0 if case.runtime.state.value_or("loaded") == "failed" else max(0, resident - mapped)
    free = min(capacity, max(host.usable_bytes + own, resident))
    return host._replace(capacity_bytes=capacity, others_bytes=capacity - free, reserve_bytes=0)


def by_measurement(report: PlanReport, current: OptionShown, note: str = LENT) -> PlanReport:
    """The report with gains against the measured speed; none where not measured."""
    # For what runs at a speed that is not predicted: with more than its GPUs hold, so that the driver lends it memory
    # of the host, or with settings that have no price, as rows that are split or a cache that no kernel is made for
    measured = current.measured_tokens_per_s
    options = []
    for option in report.options:
        speedup = option.speed.decode_tokens_per_s.mid / measured if option.speed and measured else None
        costs = tuple(cost for cost in option.costs if _SLOWER not in cost)
        options.append(msgspec.structs.replace(option, speedup=speedup, costs=costs))
    best = options[report.recommended] if report.recommended is not None else None
    better = best is not None and (best.speedup is None or best.speedup >= WORTH_A_CHANGE)
    return msgspec.structs.replace(
        report,
        current=msgspec.structs.replace(current, speed=None),
        options=tuple(options),
        verdict="better" if better else report.verdict,
        notes=(*report.notes, note),
    )


def overflows(case: CaseView, current: OptionShown) -> bool:
    """Whether part of what it put on GPUs lies elsewhere: by what it lacks and how slow it is, or by the driver."""
    lacking = sum(device.lacking_bytes for device in current.devices) > _SURELY_LACKING
    lent = case.vram.own_lent_bytes
    return (lacking and lent >= GIB) or (is_far_below(current) and (lacking or lent > _SURELY_LACKING))


def has_unpriced(case: CaseView, current: OptionShown, changes: Sequence[ChangeShown]) -> bool:
    """Whether it is far slower than predicted, and the plan takes away a setting that the prediction does not know."""
    was = {change.knob: change.was for change in changes if change.was is not None}
    cache = {was.get(Knob.KV_CACHE_TYPE), was.get(Knob.VALUE_CACHE_TYPE)} - {None, *_WITH_KERNELS}
    fast = case.machine.cpu.performance_cores.value_or(0)
    crowd = 0 < fast < int(was.get(Knob.THREADS) or 0)
    turned = was.get(Knob.SPLIT_MODE) == "row" or was.get(Knob.FLASH_ATTENTION) is False or Knob.TENSOR_OVERRIDE in was
    return is_far_below(current) and (turned or crowd or bool(cache))


def is_far_below(current: OptionShown) -> bool:
    """Whether it was measured far slower than its settings explain."""
    measured, speed = current.measured_tokens_per_s, current.speed
    return bool(measured and speed and measured < _FAR_BELOW * speed.decode_tokens_per_s.low)
