"""What a machine has and how it is doing right now."""

from typing import Literal

import msgspec

from unslow.facts.values import NOT_LOOKED, Amount, Bytes, Count, Degrees, Fact, Fraction


class Facts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A group of facts; what was not looked for is left out of the JSON."""


class Cpu(Facts, frozen=True, kw_only=True):
    """The processor, and what this process may use of it."""

    model: Fact[str] = NOT_LOOKED
    sockets: Fact[Count] = NOT_LOOKED
    physical_cores: Fact[Count] = NOT_LOOKED
    logical_cpus: Fact[Count] = NOT_LOOKED
    threads_per_core: Fact[Count] = NOT_LOOKED
    performance_cores: Fact[Count] = NOT_LOOKED
    efficiency_cores: Fact[Count] = NOT_LOOKED
    instruction_sets: Fact[list[str]] = NOT_LOOKED
    governor: Fact[str] = NOT_LOOKED
    frequency_hz: Fact[Amount] = NOT_LOOKED
    frequency_max_hz: Fact[Amount] = NOT_LOOKED
    frequency_limit_hz: Fact[Amount] = NOT_LOOKED  # The highest clock that the system lets it have now, by a setting
    allowed_cpus: Fact[Count] = NOT_LOOKED
    quota_cpus: Fact[Amount] = NOT_LOOKED
    throttled_s: Fact[Amount] = NOT_LOOKED
    throttled_periods: Fact[Count] = NOT_LOOKED
    periods: Fact[Count] = NOT_LOOKED
    temperature_c: Fact[Degrees] = NOT_LOOKED
    package_throttles: Fact[Count] = NOT_LOOKED  # How often the package was too hot since the machine started
    thermal_pressure: Fact[str] = NOT_LOOKED  # What macOS calls it: Nominal, Moderate, Heavy, Trapping or Sleeping


class BusyProcess(Facts, frozen=True, kw_only=True):
    """A process that uses CPU time, averaged over the look."""

    pid: Count
    name: str
    cpus: Amount
    parents: tuple[int, ...] = ()  # The processes that started it, the nearest first
    nice: int = 0  # How far it lets others go before it: 19 at most


class Load(Facts, frozen=True, kw_only=True):
    """How busy the machine is, apart from this program."""

    busy_cpus: Fact[Amount] = NOT_LOOKED
    busiest: Fact[list[BusyProcess]] = NOT_LOOKED
    average_1min: Fact[Amount] = NOT_LOOKED
    cpu_pressure: Fact[Fraction] = NOT_LOOKED
    memory_pressure: Fact[Fraction] = NOT_LOOKED
    io_pressure: Fact[Fraction] = NOT_LOOKED


class Memory(Facts, frozen=True, kw_only=True):
    """System memory."""

    total_bytes: Fact[Bytes] = NOT_LOOKED
    kind: Fact[str] = NOT_LOOKED  # As people write it: "DDR4-3200", "LPDDR5X"
    channels: Fact[Count] = NOT_LOOKED
    available_bytes: Fact[Bytes] = NOT_LOOKED
    swap_total_bytes: Fact[Bytes] = NOT_LOOKED
    swap_used_bytes: Fact[Bytes] = NOT_LOOKED
    swapped_in_bytes: Fact[Bytes] = NOT_LOOKED
    swapped_out_bytes: Fact[Bytes] = NOT_LOOKED
    limit_bytes: Fact[Bytes] = NOT_LOOKED
    wired_bytes: Fact[Bytes] = NOT_LOOKED
    wired_limit_bytes: Fact[Bytes] = NOT_LOOKED
    compressed_bytes: Fact[Bytes] = NOT_LOOKED
    pressure: Fact[Literal["normal", "warn", "critical"]] = NOT_LOOKED
    numa_nodes: Fact[Count] = NOT_LOOKED
    read_bytes_per_s: Fact[Amount] = NOT_LOOKED
    read_one_core_bytes_per_s: Fact[Amount] = NOT_LOOKED
    read_now_bytes_per_s: Fact[Amount] = NOT_LOOKED


class Disk(Facts, frozen=True, kw_only=True):
    """What lies under a path."""

    path: str
    kind: Fact[Literal["nvme", "ssd", "hdd", "network", "memory", "virtual", "other"]] = NOT_LOOKED
    device: Fact[str] = NOT_LOOKED
    filesystem: Fact[str] = NOT_LOOKED
    free_bytes: Fact[Bytes] = NOT_LOOKED


class GpuProcess(Facts, frozen=True, kw_only=True):
    """A process that holds memory on a GPU."""

    pid: Count
    name: Fact[str] = NOT_LOOKED
    vram_bytes: Fact[Bytes] = NOT_LOOKED
    gtt_bytes: Fact[Bytes] = NOT_LOOKED
    shared_bytes: Fact[Bytes] = NOT_LOOKED


class Gpu(Facts, frozen=True, kw_only=True):
    """One GPU, as its driver describes it now."""

    index: Count
    vendor: Fact[str] = NOT_LOOKED
    name: Fact[str] = NOT_LOOKED
    kind: Fact[Literal["integrated", "discrete"]] = NOT_LOOKED
    driver: Fact[str] = NOT_LOOKED
    bus_id: Fact[str] = NOT_LOOKED
    compute_capability: Fact[str] = NOT_LOOKED
    architecture: Fact[str] = NOT_LOOKED
    """What a backend is built for where it is not a compute capability: "gfx1100", "Metal 3"."""
    cores: Fact[Count] = NOT_LOOKED  # GPU cores, as Apple counts them
    vram_total_bytes: Fact[Bytes] = NOT_LOOKED
    vram_used_bytes: Fact[Bytes] = NOT_LOOKED
    vram_free_bytes: Fact[Bytes] = NOT_LOOKED
    vram_reserved_bytes: Fact[Bytes] = NOT_LOOKED
    gtt_total_bytes: Fact[Bytes] = NOT_LOOKED  # System memory that an AMD GPU may reach through its own tables
    gtt_used_bytes: Fact[Bytes] = NOT_LOOKED
    shared_total_bytes: Fact[Bytes] = NOT_LOOKED  # System memory that Windows lends to the GPU
    shared_used_bytes: Fact[Bytes] = NOT_LOOKED
    memory_bus_bits: Fact[Count] = NOT_LOOKED
    busy: Fact[Fraction] = NOT_LOOKED
    memory_busy: Fact[Fraction] = NOT_LOOKED
    clock_hz: Fact[Amount] = NOT_LOOKED
    clock_max_hz: Fact[Amount] = NOT_LOOKED
    memory_clock_hz: Fact[Amount] = NOT_LOOKED
    memory_clock_max_hz: Fact[Amount] = NOT_LOOKED
    performance_state: Fact[str] = NOT_LOOKED
    temperature_c: Fact[Degrees] = NOT_LOOKED
    memory_temperature_c: Fact[Degrees] = NOT_LOOKED
    temperature_slowdown_c: Fact[Degrees] = NOT_LOOKED
    temperature_shutdown_c: Fact[Degrees] = NOT_LOOKED
    temperature_margin_c: Fact[Degrees] = NOT_LOOKED
    power_w: Fact[Amount] = NOT_LOOKED
    power_limit_w: Fact[Amount] = NOT_LOOKED
    power_limit_default_w: Fact[Amount] = NOT_LOOKED
    event_reasons: Fact[list[str]] = NOT_LOOKED
    event_reason_bits: Fact[Count] = NOT_LOOKED
    pcie_generation: Fact[Count] = NOT_LOOKED
    pcie_generation_max: Fact[Count] = NOT_LOOKED
    pcie_width: Fact[Count] = NOT_LOOKED
    pcie_width_max: Fact[Count] = NOT_LOOKED
    pcie_transmit_bytes_per_s: Fact[Amount] = NOT_LOOKED
    pcie_receive_bytes_per_s: Fact[Amount] = NOT_LOOKED
    nvlinks_active: Fact[Count] = NOT_LOOKED
    ecc: Fact[bool] = NOT_LOOKED
    mig: Fact[bool] = NOT_LOOKED
    processes: Fact[list[GpuProcess]] = NOT_LOOKED


class System(Facts, frozen=True, kw_only=True):
    """The operating system around the runtime."""

    name: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    kernel: Fact[str] = NOT_LOOKED
    kfd_access: Fact[bool] = NOT_LOOKED  # Whether this user may open /dev/kfd, without which ROCm sees no GPU
    container: Fact[str] = NOT_LOOKED
    wsl: Fact[bool] = NOT_LOOKED
    hypervisor: Fact[str] = NOT_LOOKED
    on_battery: Fact[bool] = NOT_LOOKED


class Machine(Facts, frozen=True, kw_only=True):
    """One machine at one moment."""

    system: System = System()
    cpu: Cpu = Cpu()
    load: Load = Load()
    memory: Memory = Memory()
    disks: tuple[Disk, ...] = ()
    gpus: Fact[tuple[Gpu, ...]] = NOT_LOOKED
