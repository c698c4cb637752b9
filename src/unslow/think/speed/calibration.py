"""What a model asks for each token, the costs of a machine learned from points, and which calibration holds."""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from unslow.facts.calibration import Calibration, Demand, MachineMark, Point, Rates, TypeRate
from unslow.facts.machine import Machine
from unslow.facts.merge import computing_gpus
from unslow.facts.model import Blueprint, Tensor, layer_of
from unslow.facts.runtime import Runtime
from unslow.facts.values import GB, GIB
from unslow.think.least_squares import nonnegative_least_squares
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.physics.placement import element_bytes

_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "token_types.weight", "rope_freqs.weight")
"""Tables of which a token reads one row."""
_OUTPUT = "output.weight"
_EXPERTS = "_exps."


class _Read(NamedTuple):
    """A tensor, and the share of it that a token reads."""

    tensor: Tensor
    share: float
    in_layer: bool

    @property
    def bytes(self) -> float:
        return self.tensor.bytes * self.share

    @property
    def rows(self) -> float:
        """Dot products: one for each row of a matrix, none for the elements of a vector."""
        _, *others = self.tensor.shape
        return math.prod(others) * self.share if others else 0.0


def demand_of(plan: Blueprint, depth: int = 1, kv_types: tuple[str, str] = ("f16", "f16")) -> Demand:
    """The demand of one token with so many before it, all on one device; UserError for a model nobody could load."""
    reads = list(_reads(plan))
    layers = [read for read in reads if read.in_layer]
    hyper = Hyper(plan)
    elements, kv_bytes = _attention(hyper, depth, kv_types)
    return Demand(
        bytes_by_type=_by_type(reads),
        layer_bytes_by_type=_by_type(layers),
        expert_bytes=sum(read.bytes for read in layers if _EXPERTS in read.tensor.name),
        layers=len(plan.layer_tensors),
        operations=len(layers),
        rows=sum(read.rows for read in layers),
        vocabulary=hyper.vocabulary,
        attention_elements=elements,
        kv_bytes=kv_bytes,
        depth_tokens=depth,
    )


def _by_type(reads: list[_Read]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for read in reads:
        found[read.tensor.type] += read.bytes
    return dict(found)


def _reads(plan: Blueprint) -> Iterator[_Read]:
    """The tensors that a token passes; the token table counts where it is the output matrix too."""
    tied = _OUTPUT not in plan.by_name
    experts = plan.count("expert_count")
    used = min(1.0, plan.count("expert_used_count") / experts) if experts else 1.0
    last = plan.count("block_count") - plan.count("nextn_predict_layers")  # layers that only draft are not passed
    for tensor in plan.tensors:
        layer = layer_of(tensor.name)
        if layer >= last:
            continue
        if layer < 0 and tensor.name.endswith(_LOOKED_UP) and not (tied and tensor.name == _LOOKED_UP[0]):
            continue
        yield _Read(tensor, used if _EXPERTS in tensor.name else 1.0, layer >= 0)


def _attention(hyper: Hyper, depth: int, kv_types: tuple[str, str]) -> tuple[float, float]:
    """Elements of keys and values for each query head, and bytes of keys and values, at this depth."""
    elements, count = 0.0, 0.0
    key_bytes, value_bytes = (element_bytes(kind) for kind in kv_types)
    for layer in range(min(hyper.layers, len(hyper.blueprint.layer_tensors))):
        if not hyper.attends(layer):
            continue
        seen = min(depth, hyper.window) if hyper.windowed[layer] and hyper.window else depth
        key, value = hyper.key_length(layer), hyper.value_length(layer)
        elements += seen * hyper.heads[layer] * (key + value)
        count += seen * hyper.kv_heads[layer] * (key * key_bytes + (0 if hyper.is_latent else value * value_bytes))
    return elements, count


LEAST_SHARE = 0.2  # a type's rate is learned where it makes up this much of the weights of a model
FEWEST_POINTS = 3


def fit_rates(points: Sequence[Point]) -> Rates | None:
    """The costs that explain these points best, each point weighing as much as any other; None with too few."""
    points = [point for point in points if point.decode_s > 0]
    if len(points) < FEWEST_POINTS:
        return None
    # Types that decide the time of at least one point
    found = {
        kind
        for point in points
        for kind, count in point.demand.bytes_by_type.items()
        if count >= LEAST_SHARE * sum(point.demand.bytes_by_type.values())
    }
    types = sorted(found)
    decode = _solved([_decode_row(point.demand, types) for point in points], [p.decode_s for p in points])
    step, operation, row, entry, element, kv_byte, *seconds = decode
    prefill_operation, prefill_element, prefill_expert, *prefill = _prefill(points, types, step, entry)
    rates = [
        TypeRate(type=t, decode_bytes_per_s=1 / s, prefill_bytes_per_s=1 / p if p > 0 else 0.0)
        for t, s, p in zip(types, seconds, prefill, strict=True)
        if s > 0
    ]
    rows = ((_decode_row(p.demand, types), p.decode_s) for p in points)
    error = statistics.median(abs(sum(a * b for a, b in zip(row, decode, strict=True)) / s - 1) for row, s in rows)
    return Rates(
        types=tuple(rates),
        step_s=step,
        operation_s=operation,
        row_s=row,
        vocabulary_entry_s=entry,
        attention_element_s=element,
        kv_byte_s=kv_byte,
        prefill_operation_s=prefill_operation,
        prefill_attention_element_s=prefill_element,
        prefill_expert_byte_s=prefill_expert,
        error=min(1.0, error),
    )


def drift_of(points: Sequence[Point]) -> float:
    """How many times longer than at its best a token takes in the median, over all points; 1 with none."""
    return max(1.0, statistics.median([p.typical_s / p.decode_s for p in points if p.decode_s > 0] or [1.0]))


def _decode_row(demand: Demand, types: Sequence[str]) -> list[float]:
    return [
        1.0,
        demand.operations,
        demand.rows,
        demand.vocabulary,
        demand.attention_elements,
        demand.kv_bytes,
        *(demand.bytes_by_type.get(kind, 0.0) for kind in types),
    ]


def _prefill(points: Sequence[Point], types: Sequence[str], step: float, entry: float) -> list[float]:
    """Seconds in a prompt for an operation, an element of attention, a byte in an expert, and a byte of each type."""
    measured = [p for p in points if p.prefill_s > 0 and p.prompt_tokens > 1]
    if not measured:
        return [0.0, 0.0, 0.0, *(0.0 for _ in types)]
    once = [step + entry * p.demand.vocabulary for p in measured]
    seconds = [max(p.prefill_s - o, p.prefill_s / 10) for p, o in zip(measured, once, strict=True)]
    rows = []
    for point in measured:
        demand, tokens = point.demand, point.prompt_tokens
        attended = demand.attention_elements / max(1, demand.depth_tokens) * tokens * tokens / 2
        by_type = (demand.layer_bytes_by_type.get(kind, 0.0) * tokens for kind in types)
        rows.append([demand.operations * tokens, attended, demand.expert_bytes * tokens, *by_type])
    return _solved(rows, seconds)


def _solved(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Least squares of the relative error."""
    return nonnegative_least_squares(
        [[v / s for v in row] for row, s in zip(rows, seconds, strict=True)], [1.0] * len(seconds)
    )


OLD_DAYS = 180
MEMORY_SPEED_OFF = 1.3  # two readings of the same memory differ by less than this on a machine that is left alone
MEMORY_SIZE_OFF = 0.05  # a kernel keeps a little more or less for itself after each start
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_YEAR = 365.2425


class Match(NamedTuple):
    """The calibration to use, or the nearest one and why it is not to be used; neither where there is none."""

    calibration: Calibration | None
    stale: str = ""

    @property
    def usable(self) -> Calibration | None:
        """The calibration, if nothing speaks against it."""
        return None if self.stale else self.calibration


def match_calibration(calibrations: Iterable[Calibration], machine: Machine, runtime: Runtime, now: str = "") -> Match:
    """The newest calibration of this machine, engine and device that is not stale; else the newest stale one."""
    mine = [c for c in calibrations if same_machine(c.machine, mark_of(machine)) and _same_engine(c, runtime)]
    mine.sort(key=lambda c: c.taken_at, reverse=True)
    stale = [Match(c, "; ".join(stale_because(c, machine, runtime, now))) for c in mine]
    return next((m for m in stale if not m.stale), stale[0] if stale else Match(None))


def calibrations_of_machine(calibrations: Iterable[Calibration], machine: Machine) -> tuple[Calibration, ...]:
    """Those that were made on this machine."""
    mark = mark_of(machine)
    return tuple(c for c in calibrations if same_machine(c.machine, mark))


def mark_of(machine: Machine) -> MachineMark:
    """By what the machine is known again."""
    gpus = computing_gpus(machine.gpus.value_or(()))
    return MachineMark(
        cpu=machine.cpu.model.value_or(""),
        cores=machine.cpu.physical_cores.value_or(machine.cpu.logical_cpus.value_or(0)),
        memory_bytes=machine.memory.total_bytes.value_or(0),
        gpus=tuple(sorted(gpu.name.value_or("?") for gpu in gpus)),
        drivers=tuple(sorted({gpu.driver.value_or("") for gpu in gpus} - {""})),
        kernel=machine.system.kernel.value_or(""),
    )


def stale_because(calibration: Calibration, machine: Machine, runtime: Runtime, now: str = "") -> Iterator[str]:
    """What has changed since; `now` is an ISO 8601 time, without which its age is not looked at."""
    mark, then = mark_of(machine), calibration.machine
    version = runtime.version.value_or(calibration.engine_version)
    if version != calibration.engine_version:
        yield f"{calibration.engine} is now {version}, and was {calibration.engine_version}"
    if runtime.threads.value_or(calibration.threads) != calibration.threads and calibration.backend == "cpu":
        yield f"{runtime.threads.value_or(0)} threads, and it was measured with {calibration.threads}"
    if calibration.backend == "gpu" and mark.drivers and mark.drivers != then.drivers:
        yield f"the GPU driver is now {', '.join(mark.drivers)}, and was {', '.join(then.drivers) or 'unknown'}"
    if mark.kernel and then.kernel and mark.kernel != then.kernel:
        yield f"the kernel is now {mark.kernel}, and was {then.kernel}"
    before, after = calibration.ram_read_bytes_per_s, machine.memory.read_bytes_per_s.value_or(0.0)
    if before and after and not 1 / MEMORY_SPEED_OFF < after / before < MEMORY_SPEED_OFF:
        yield f"memory is now read at {after / GB:.0f} GB/s, and was at {before / GB:.0f}"
    taken, today = _day(calibration.taken_at), _day(now)
    if taken is None:  # a file that was edited by hand
        yield f"its time is {calibration.taken_at[:40]!r}, which is none"
    elif today is not None and today - taken > OLD_DAYS:
        yield f"it is {today - taken:.0f} days old"


def _day(time: str) -> float | None:
    """The day of an ISO 8601 time on one scale, right to a day or two."""
    found = _DATE.match(time)
    return _YEAR * int(found[1]) + _YEAR / 12 * int(found[2]) + int(found[3]) if found else None


def same_machine(then: MachineMark, mark: MachineMark) -> bool:
    """Whether two marks are of one machine."""
    same_memory = abs(then.memory_bytes - mark.memory_bytes) <= max(MEMORY_SIZE_OFF * then.memory_bytes, GIB / 4)
    return (then.cpu, then.cores, then.gpus) == (mark.cpu, mark.cores, mark.gpus) and same_memory


def _same_engine(calibration: Calibration, runtime: Runtime) -> bool:
    """The same engine, and the same kind of device; an engine that does not say what it uses is on the processor."""
    on_gpu = any(buffer.on_gpu for buffer in runtime.buffers.value_or([])) or bool(runtime.gpu_layers.value_or(0))
    name = runtime.name.value_or(calibration.engine)
    return name == calibration.engine and (calibration.backend == "gpu") == on_gpu
