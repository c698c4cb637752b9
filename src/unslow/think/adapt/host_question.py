"""What a case asks of its CPU: the part of the model that lies with the host, and how fast it is read and computed."""

from typing import NamedTuple

from unslow.catalog.backends import backends
from unslow.catalog.device_names import find_cpu
from unslow.catalog.learned_speed import learned_speed
from unslow.facts.machine import Cpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.bandwidth import computing_threads, host_bandwidth, own_cpus, wanted_threads
from unslow.think.adapt.cpu_limits import quota_of
from unslow.think.adapt.gpu_question import element_bytes_of, held_on_gpus, model_parts, types_of
from unslow.think.adapt.remembered import once
from unslow.think.physics.chip import Chip, Setting
from unslow.think.physics.crowding import crowding_s, throttling
from unslow.think.physics.decode import Side
from unslow.think.physics.host_decoding import host_decode_terms
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import by_part, least
from unslow.think.speed.chips import core_flops_per_s, has_wide_vectors, host_chip, is_server_by_name, sound_clock_hz
from unslow.think.speed.totals import Totals

_FAMILIES = ("lpddr", "ddr5", "ddr4", "mrdimm")
"""Of memories, by which arithmetic of the CPUs beside them was learned."""
_WIDE, _SERVER = "avx512f", "amx_int8"
"""AVX-512, and AMX: servers with both were measured no faster than CPUs with neither."""

_ARM = "asimd"


class HostWork(NamedTuple):
    """What the CPU takes, and what hinders its threads."""

    side: Side | None
    crowding_s: float = 0.0
    throttling: float = 1.0


@once
def host_work(case: Case, shape: Shape, placement: Placement, depth: float) -> HostWork:
    """What the CPU takes for a token; nothing where nothing lies with it."""
    totals = left_on_host(case, shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return HostWork(None)
    rate, off = host_bandwidth(case)
    chip = chip_of_host(case, rate, computing_threads(case))
    terms = tuple(host_decode_terms(totals.step(depth, element_bytes_of(case)), chip, host_setting(case, placement)))
    seconds = {name: float(s) for name, s in by_part(terms, learned_speed().factors).items() if s}
    threads, cpus = wanted_threads(case), own_cpus(case)
    layers = float(max(totals.layers, totals.expert_layers))
    return HostWork(
        Side(seconds, float(least(terms)), off * backends()["cpu"].spread),
        crowding_s(layers, threads, cpus),
        throttling(threads, cpus, quota_of(case)[0].value_or(0.0)),
    )


@once
def left_on_host(case: Case, shape: Shape, placement: Placement) -> Totals:
    """The part of the model that lies with the host and that the CPU computes."""
    layers, output = model_parts(case, shape)
    left = layers.without(held_on_gpus(case, shape, placement._replace(output_on_gpu=False, cache_on_gpu=True)))
    return left if placement.output_on_gpu else left.and_also(output)


def host_setting(case: Case, placement: Placement) -> Setting:
    """The CPU as what was learned is looked up; its family is that of its memory, where that is known."""
    kind = case.machine.memory.kind.value_or("").lower()
    family = next((name for name in _FAMILIES if name in kind), "")
    return Setting(
        "cpu",
        family=family,
        types=types_of(case),
        beside_gpu=placement.attending > 0,
        wide_vectors=multiplies_wide(case.machine.cpu),
        tiles=has_tiles(case.machine.cpu),
        server=is_server(case.machine.cpu),
    )


def multiplies_wide(cpu: Cpu) -> bool:
    """Whether a CPU multiplies vectors of 512 bits: by its instructions, by its name where nobody listed them."""
    known = cpu.instruction_sets
    if isinstance(known, Known):
        return _WIDE in known.value and _SERVER not in known.value
    return has_wide_vectors(cpu.model.value_or(""))


def has_tiles(cpu: Cpu) -> bool:
    """Whether a CPU is known to have matrix units that llama.cpp uses (AMX)."""
    return _SERVER in cpu.instruction_sets.value_or([])


def is_server(cpu: Cpu) -> bool:
    """Whether it is one of the servers that have them: by its instructions, by its name where nobody listed them."""
    known = cpu.instruction_sets
    return has_tiles(cpu) if isinstance(known, Known) else is_server_by_name(cpu.model.value_or(""))


def chip_of_host(case: Case, bytes_per_s: float, threads: float) -> Chip:
    """The CPU of a case with so many threads."""
    return host_chip(bytes_per_s, threads, core_flops_of(case.machine.cpu))


def core_flops_of(cpu: Cpu) -> float:
    """What one of its cores computes: by the highest clock that the system tells, else by that of its kind."""
    kind = find_cpu(cpu.model.value_or(""))
    narrow = kind.narrow_cores if kind else _ARM in cpu.instruction_sets.value_or([])
    return core_flops_per_s(clock_of(cpu), narrow=narrow)


def clock_of(cpu: Cpu) -> float:
    """The highest clock that the system tells, else that of its kind, else the usual one."""
    kind = find_cpu(cpu.model.value_or(""))
    return sound_clock_hz(cpu.frequency_max_hz.value_or(0.0) or (kind.clock_hz if kind else 0.0))
