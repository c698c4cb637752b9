"""A Linux machine in a built world: processor, memory and load as /proc and /sys have them."""

from typing import NamedTuple

from lab.built_machines.world import World

CPUS = "/sys/devices/system/cpu"
FLAGS = "fpu sse sse2 ssse3 sse4_1 sse4_2 fma f16c avx avx2 bmi1 bmi2"
TICKS_PER_S = 100
"""USER_HZ of /proc/stat."""


class Cpu(NamedTuple):
    """A processor: cores by kind, threads on each fast one, clocks."""

    model: str = "AMD Ryzen 7 5800X 8-Core Processor"
    fast: int = 8
    slow: int = 0
    sockets: int = 1
    mhz: int = 4600
    max_mhz: int = 4850
    governor: str = "schedutil"
    flags: str = FLAGS

    @property
    def cores(self) -> int:
        """All of them."""
        return self.fast + self.slow


class Memory(NamedTuple):
    """Memory in GiB, its nodes, and how fast all cores and one read it."""

    total_gib: float = 64
    available_gib: float = 48
    nodes: int = 1
    read_gb_per_s: float = 0.0
    """0 where nobody measured it."""
    read_one_gb_per_s: float = 0.0


def linux(cpu: Cpu = Cpu(), memory: Memory = Memory(), *, busy_cpus: float = 0.0) -> World:  # noqa: B008 (frozen)
    """The machine without any GPU or runtime on it."""
    kib = 1024**2
    nodes = f"0-{memory.nodes - 1}\n" if memory.nodes > 1 else "0\n"
    swap = "SwapTotal:       8388604 kB\nSwapFree:        8388604 kB\n"
    world = World(
        files={
            "/proc/cpuinfo": "\n".join(_cpuinfo(cpu, n) for n in range(cpu.cores)),
            "/proc/meminfo": f"MemTotal: {round(memory.total_gib * kib)} kB\nMemFree: {2 * kib} kB\n"
            f"MemAvailable: {round(memory.available_gib * kib)} kB\n{swap}",
            "/proc/sys/kernel/osrelease": "6.14.0-29-generic\n",
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\n',
            "/proc/loadavg": f"{busy_cpus:.2f} {busy_cpus:.2f} {busy_cpus:.2f} 1/400 9000\n",
            "/proc/self/stat": "9000 (python3) R 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 500 0 0\n",
            "/proc/self/status": f"Name:\tpython3\nPid:\t9000\nCpus_allowed_list:\t0-{cpu.cores - 1}\n",
            "/proc/self/cgroup": "0::/user.slice\n",
            "/proc/self/mountinfo": "25 30 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/system.slice/llama.service/cpu.max": "max 100000\n",
            "/proc/1/comm": "systemd\n",
            "/proc/stat": _stat(busy_cpus),
            "/sys/devices/system/node/has_cpu": nodes,
            "/sys/devices/system/node/has_memory": nodes,
            **_topology(cpu),
        },
        asks={"sys.platform": "linux", "home": "/home/user"},
    )
    if memory.read_gb_per_s:
        world.asks["ram_bandwidth"] = _bandwidth(cpu, memory)
    return world


def _cpuinfo(cpu: Cpu, number: int) -> str:
    vendor = "GenuineIntel" if "Intel" in cpu.model else "AuthenticAMD"
    return (
        f"processor\t: {number}\nvendor_id\t: {vendor}\nmodel name\t: {cpu.model}\ncpu MHz\t\t: {cpu.mhz}.000\n"
        f"flags\t\t: {cpu.flags}\n"
    )


def _topology(cpu: Cpu) -> dict[str, str | list[str]]:
    each = cpu.cores // cpu.sockets
    files: dict[str, str | list[str]] = {f"{CPUS}/online": f"0-{cpu.cores - 1}\n"}
    for n in range(cpu.cores):
        first = n // each * each
        files[f"{CPUS}/cpu{n}/topology/thread_siblings_list"] = f"{n}\n"
        files[f"{CPUS}/cpu{n}/topology/core_siblings_list"] = f"{first}-{first + each - 1}\n"
        files[f"{CPUS}/cpufreq/policy{n}/scaling_governor"] = f"{cpu.governor}\n"
        files[f"{CPUS}/cpufreq/policy{n}/scaling_cur_freq"] = f"{cpu.mhz * 1000}\n"
        files[f"{CPUS}/cpufreq/policy{n}/cpuinfo_max_freq"] = f"{cpu.max_mhz * 1000}\n"
    if cpu.slow:
        files["/sys/devices/cpu_core/cpus"] = f"0-{cpu.fast - 1}\n"
        files["/sys/devices/cpu_atom/cpus"] = f"{cpu.fast}-{cpu.cores - 1}\n"
    return files


def _stat(busy_cpus: float) -> list[str]:
    """The counters at two moments: between them the clock of a world moves by a tenth of a second for each look."""
    gained = round(busy_cpus * TICKS_PER_S * 0.1)
    return [f"cpu  {1000 + n * gained} 0 100 90000 0 0 0 0 0 0\n" for n in (0, 1)]


def _bandwidth(cpu: Cpu, memory: Memory) -> dict[str, float]:
    all_cores = memory.read_gb_per_s * 1e9
    return {
        "threads": cpu.cores,
        "buffer_bytes": 2**30,
        "one_core": memory.read_one_gb_per_s * 1e9,
        "together": all_cores,
        "at_once": cpu.cores,
        "now": all_cores,
    }
