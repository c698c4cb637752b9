"""The roofline: what the devices could compute at each intensity, and how near this model's phases come to that."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.catalog.device_names import find_cpu
from unslow.catalog.devices import find_device
from unslow.facts.machine import Cpu, Gpu
from unslow.facts.values import GB, MHZ, Fact, Known, MissingFactError, Unknown
from unslow.page.speeds import basis_of
from unslow.page.view import Roof, RooflinePoint, RooflineView
from unslow.think.case.device import SLOWEST_BYTES_PER_S
from unslow.think.case.physics import COPIES, FETCHES, chip_of_gpu, clock_of, has_tiles, multiplies_wide
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.memo import one_judgement
from unslow.think.physics.chip import HALF
from unslow.think.physics.decode import COMPUTE, HOST_ATTENTION, HOST_COMPUTE, HOST_READS, READS, Amounts
from unslow.think.physics.placement import LINK, SPLIT_BY_LAYER, Placement, Shape
from unslow.think.speed.load import Totals
from unslow.think.speed.question import SpeedQuestion

_WHAT = {"decode": "Decode", "prefill": "Prefill"}
_BOUND = {
    "memory": "is memory-bound",
    "compute": "is compute-bound",
    "overhead": "is bound by overhead such as kernel launches",
}
_ALONE = " (one token at a time can't reach peak compute)"
"""Where the roof says memory: products of a matrix with one vector leave most units idle."""
_CLOSE = 1.05  # Above a roof by more than this, it is more than rounding
_ARM_SETS = frozenset({"neon", "sve", "sve2", "i8mm", "dotprod"})
Bound = Literal["memory", "compute", "overhead"]
Phase = Literal["decode", "prefill"]
_MEMORY = (READS, HOST_READS, HOST_ATTENTION, COPIES, FETCHES)
_COMPUTE = (COMPUTE, HOST_COMPUTE)


class Load(NamedTuple):
    """What one token asks of one device: the same demand that the prediction is made of."""

    flops: float
    read_bytes: float
    roof: Roof
    lent: bool = False
    """Whether weights come over a link first: no roof, as how fast it is depends on how they are copied."""


class CpuPeak(NamedTuple):
    """Operations a cycle in 32-bit floats and in 8-bit integers."""

    floats: float
    integers: float
    name: str


# What one core computes in a cycle at most, by its instructions: a product and its sum are two operations.
# x86: two fused multiply-adds a cycle, and as many products of 8-bit integers (VPDPBUSD, VPMADDUBSW), of 256 bits since
# Haswell and Zen 2, of 512 bits on Intel's servers and Zen 5, half as many on Zen 4 (Agner Fog, Instruction tables,
# agner.org/optimize). AMX: TDPBUSD multiplies 16 x 64 by 64 x 16 bytes, one every 16 cycles (Intel 64 and IA-32
# Architectures Optimization Reference Manual, "Intel AMX"). Arm: four vectors of 128 bits a cycle (Arm Neoverse V1 and
# V2 Software Optimization Guides); SDOT has 16 products of 8-bit integers, SMMLA 32, with which a Neoverse V1 comes to
# the 256 operations that WikiChip tells of it. Small cores have half of it: two vectors of 128 bits.
_AVX2 = CpuPeak(2 * 8 * 2, 2 * 32 * 2, "AVX2")
_AVX512 = CpuPeak(2 * 16 * 2, 2 * 64 * 2, "AVX-512")
_AMX = CpuPeak(_AVX512.floats, 16 * 64 * 16 / 16 * 2, "AMX")
_DOT = CpuPeak(4 * 4 * 2, 4 * 16 * 2, "NEON")
_MATRIX = CpuPeak(_DOT.floats, 4 * 32 * 2, "NEON and I8MM")


@one_judgement()
def roofline_view(case: CaseView) -> RooflineView | Unknown:
    """The picture for a case as it is set up, or what it lacks; with what fits on the GPU where that is not known."""
    basis = basis_of(case)
    if isinstance(basis, Unknown):
        return basis
    try:
        shape = case.memory.shape
        placement = case.placement.with_cure(shape, basis.cure)
        decode, prefill = _decode_loads(case, shape, placement), _prefill_loads(case, shape, placement)
    except MissingFactError as error:
        return error.unknown
    depth, each = case.speed.depth, min(case.speed.prompt_tokens, case.speed.micro_batch)
    label = f"decode, context depth {depth:,.0f}" if depth else "decode"
    batch, expected = f"prefill, {each:,.0f} tokens per batch", case.speed.predict_prefill(basis.cure)
    both = (
        _point("decode", label, decode, case.speed.predict(basis.cure), case.speed.measured_rate),
        _point("prefill", batch, prefill, expected, case.speed.prompt_speed),
    )
    points = tuple(point for point in both if point)
    if not points:
        return Unknown("no compute device is known", "run `unslow` on the server's machine")
    roofs = tuple({load.roof.device: load.roof for load in (*decode, *prefill)}.values())
    return RooflineView(roofs=roofs, points=points, summary=roofline_summary(roofs, points))


def _decode_loads(case: CaseView, shape: Shape, placement: Placement) -> list[Load]:
    depth, loads = case.speed.depth, []
    asked = case.physics.gpu_question(shape, placement, depth)
    if asked and asked.question.totals:
        question = asked.question
        roof = devices_roof(case, question)
        roof = roof if question.split == SPLIT_BY_LAYER else joined_roof(roof, float(question.gpus))
        loads.append(_of_step((question.totals or Totals()).step(depth, question.element_bytes), roof))
    if roof_of_host := host_roof(case, shape, placement):
        left = case.physics.left_on_host(shape, placement)
        loads.append(_of_step(left.step(depth, case.physics.cache_element_bytes), roof_of_host))
    return loads


def _of_step(amounts: Amounts, roof: Roof) -> Load:
    weights = amounts.dense_weights + amounts.expert_weights
    read = amounts.dense_bytes + amounts.expert_bytes + amounts.cache_bytes + 2 * amounts.state_bytes
    return Load(float(2 * (weights + amounts.attention_products)), float(read), roof)


def _prefill_loads(case: CaseView, shape: Shape, placement: Placement) -> list[Load]:
    tokens = case.speed.prompt_tokens
    each = min(tokens, case.speed.micro_batch)
    question = case.physics.prompt_question(shape, placement, each)
    host, lends = question.host, question.totals is not None and case.physics.host_lends_weights(each)
    loads = []
    if question.totals is not None:
        roof = joined_roof(devices_roof(case, question), float(question.gpus))  # micro-batches keep all GPUs busy
        loads.append(_of_prompt(question.totals, tokens, each, roof))
        if host and lends:
            lent = _of_prompt(host.totals, tokens, each, roof)
            loads[0] = Load(loads[0].flops + lent.flops, loads[0].read_bytes + lent.read_bytes, roof, lent=True)
    if host and not lends and (roof_of_host := host_roof(case, shape, placement, prompts=True)):
        loads.append(_of_prompt(host.totals, tokens, each, roof_of_host))
    return [load for load in loads if load.flops > 0]


def _of_prompt(totals: Totals, tokens: float, each: float, roof: Roof) -> Load:
    """Per token: its share of the weights that a micro-batch reads, and its own products."""
    shared = totals.micro_batch(each)
    met = totals.expert_weights * totals.experts_used / totals.experts
    weights = max(0.0, float(totals.dense_weights - totals.output_weights)) + float(met)
    flops = 2 * (weights + float(totals.attention_products(tokens / 2)))
    return Load(flops, float(shared.dense_bytes + shared.expert_bytes) / each, roof)


def _point(
    phase: Phase, label: str, loads: list[Load], predicted: Prediction | Unknown, rate: Fact[float]
) -> RooflinePoint | None:
    found = predicted if isinstance(predicted, Prediction) else None
    measured = rate.value if isinstance(rate, Known) else None
    flops, read = sum(load.flops for load in loads), sum(load.read_bytes for load in loads)
    # A model in two memories has one point: each side takes what its own roof allows, one after the other
    times = [(load.read_bytes / load.roof.bytes_per_s, load.flops / load.roof.flops_per_s) for load in loads]
    least_s = sum(map(max, times))
    if not flops or not read or not least_s:
        return None
    # By the largest share of the predicted time; by the roof alone where nothing is predicted
    shares: dict[Bound, float] = {"memory": 0.0, "compute": 0.0, "overhead": 0.0}
    for part in found.parts if found else ():
        lent = part.name == LINK and any(load.lent for load in loads)
        is_memory = lent or part.name in _MEMORY
        shares["memory" if is_memory else "compute" if part.name in _COMPUTE else "overhead"] += part.seconds
    if found is None:
        shares["memory"], shares["compute"] = map(sum, zip(*times, strict=True))
    return RooflinePoint(
        phase=phase,
        label=label,
        flops_per_byte=flops / read,
        predicted_flops_per_s=flops * found.tokens_per_s.mid if found else None,
        measured_flops_per_s=flops * measured if measured else None,
        roof_flops_per_s=flops / least_s,
        bound_by=max(shares, key=lambda kind: shares[kind]),
    )


def devices_roof(case: CaseView, question: SpeedQuestion) -> Roof:
    """The GPUs that a token goes over, one after the other."""
    count = max(1, round(float(question.gpus)))
    gpus = case.gpus.in_use[:count]
    names = Counter(gpu.name.value_or("the GPU") for gpu in gpus)
    name = next(iter(names))
    if count > 1 and len(names) == 1:
        name = f"{count} × {name}, layer split"
    elif count > 1:
        name = f"{' and '.join(f'{n} × {each}' if n > 1 else each for each, n in names.items())}, layer split"
    arithmetic = [_flops(case, gpu) for gpu in gpus]
    flops, sources = sum(flops for flops, _ in arithmetic) / len(gpus), dict.fromkeys(how for _, how in arithmetic)
    return _roof(name, float(question.chip.bytes_per_s), flops, "; ".join(sources))


def _flops(case: CaseView, gpu: Gpu) -> tuple[float, str]:
    """What a GPU computes, and the sources of its bandwidth and of that."""
    chip, _ = chip_of_gpu(gpu)
    matrix = float(chip.matrix_flops_per_s or chip.flops_per_s)
    device = find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))
    bandwidth = f"bandwidth from the catalog ({device.source})" if device else "bandwidth as reported"
    if gpu.memory_clock_max_hz.value_or(0) * gpu.memory_bus_bits.value_or(0) / 4 >= SLOWEST_BYTES_PER_S:
        bandwidth = "memory clock and bus width from the driver"
    if device is None:
        return matrix, f"{bandwidth}; compute estimated from the bandwidth"
    if case.physics.type_class != HALF and device.int8_ops_per_s > matrix:  # as quantised weights are multiplied
        source = device.sources.get("int8_ops_per_s", device.source)
        return device.int8_ops_per_s, f"{bandwidth}; 8-bit integer rate from the catalog ({source})"
    source = device.sources.get("fp16_flops_per_s", device.source)
    return matrix, f"{bandwidth}; 16-bit float rate from the catalog ({source})"


def joined_roof(roof: Roof, gpus: float) -> Roof:
    """So many of them at once."""
    count = max(1, round(gpus))
    if count == 1:
        return roof
    name = roof.device.replace(", layer split", ", in parallel")
    return _roof(name, roof.bytes_per_s * count, roof.flops_per_s * count, roof.source)


def host_roof(case: CaseView, shape: Shape, placement: Placement, *, prompts: bool = False) -> Roof | None:
    """The CPU, where a part of the model lies with it."""
    totals = case.physics.left_on_host(shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return None
    rate, _ = case.host.bandwidth
    measured, ram = case.machine.memory.read_bytes_per_s, "RAM bandwidth estimated from the core count"
    if isinstance(measured, Known) and measured.value >= SLOWEST_BYTES_PER_S:
        less = " on one core, times the threads" if rate < measured.value else ""
        ram = f"RAM bandwidth {measured.origin.value}{less}"
    threads = case.physics.threads_for_prompts if prompts else case.host.computing_threads()
    cores = "1 core" if round(threads) == 1 else f"{threads:.0f} cores"
    cpu = case.machine.cpu
    peak, clock = cpu_peak(cpu), clock_of(cpu)
    is_float = case.physics.type_class == HALF
    a_cycle, kind = (peak.floats, "32-bit float") if is_float else (peak.integers, "8-bit integer")
    each = a_cycle * clock
    how = f"{a_cycle:,.0f} {kind} operations per cycle with {peak.name} at {clock / MHZ:,.0f} MHz"
    source = f"{ram}; {cores}, at most {each / GB:,.0f} GFLOP/s each ({how})"
    return _roof(cpu.model.value_or("the CPU"), rate, threads * each, source)


def _roof(device: str, bytes_per_s: float, flops_per_s: float, source: str) -> Roof:
    return Roof(
        device=device,
        bytes_per_s=bytes_per_s,
        flops_per_s=flops_per_s,
        ridge_flops_per_byte=flops_per_s / bytes_per_s,
        source=source,
    )


def cpu_peak(cpu: Cpu) -> CpuPeak:
    """The most that a core of this CPU can do; by its name where its instructions are not listed."""
    model, sets = cpu.model.value_or(""), cpu.instruction_sets
    if _ARM_SETS & set(sets.value_or([])) or model.startswith("Apple"):
        peak = _MATRIX if "i8mm" in sets.value_or(["i8mm"]) else _DOT  # one that is not listed may have the best
    else:
        peak = _AMX if has_tiles(cpu) else _AVX512 if multiplies_wide(cpu) else _AVX2
    kind = find_cpu(model)
    if kind is None or not kind.narrow_cores:
        return peak
    return CpuPeak(peak.floats / 2, peak.integers / 2, peak.name)


def roofline_summary(roofs: Sequence[Roof], points: Sequence[RooflinePoint]) -> str:
    """Every phase: how much it computes for a byte, what it waits for, and how much of its roof it reaches."""
    turn = _number(roofs[0].ridge_flops_per_byte)
    turns = {roof.device: _number(roof.ridge_flops_per_byte) for roof in roofs[1:]}
    others = "".join(f" The ridge of {device} is at {number}." for device, number in turns.items() if number != turn)
    ridge = f"{roofs[0].device}: memory-bound below {turn} FLOP/byte, compute-bound above.{others}"
    lowest, said = min(roof.ridge_flops_per_byte for roof in roofs), [ridge]
    for point in points:
        what = f"{_WHAT[point.phase]} ({_number(point.flops_per_byte)} FLOP/byte)"
        alone = point.phase == "decode" and point.bound_by == "compute" and point.flops_per_byte < lowest
        reached, share = point.measured_flops_per_s or point.predicted_flops_per_s, ""
        if reached and reached / point.roof_flops_per_s > _CLOSE:
            share = "; the measurement is above its roof, so one of these numbers is wrong"
        elif reached:
            verb = "reaches" if point.measured_flops_per_s else "should reach"
            share = f", and {verb} {reached / point.roof_flops_per_s:.0%} of its roof"
        said.append(f"{what} {_BOUND[point.bound_by]}{_ALONE if alone else ''}{share}.")
    return " ".join(said)


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 (a figure behind the point for few)
