"""The CPU side of a case: cores and limits, threads, memory bandwidth, and who else uses the CPUs."""

import re
from functools import cached_property
from typing import NamedTuple

from unslow.catalog.hardware_families import find_cpu_family
from unslow.facts.machine import BusyProcess, Disk
from unslow.facts.values import GB, GIB, Fact, Known, MissingFactError, Origin, Unknown, not_found
from unslow.think.case.device import SLOWEST_BYTES_PER_S
from unslow.think.case.group import Citations, Group
from unslow.think.case.speed import SLOWEST, Prediction
from unslow.think.physics.terms import SPREAD
from unslow.think.report import Evidence

_LEAST_CPUS = 0.01
LARGE_SHARE = 0.5  # Of the memory: a smaller model is not where the pressure comes from
LEAST_PACKED, PACKED_SHARE = 4 * GIB, 0.2
"""In the memory compressor of a Mac in trouble: a healthy one keeps a few gigabytes there."""
USABLE_RAM = 0.95  # Of the RAM: the system itself needs the rest
MOST_THREADS_PER_CORE = 2
CORE_FED_BYTES_PER_S = 8 * GB
"""Where nobody measured the memory: a machine has about as many cores as it can feed, 64 for 460 GB/s and 8 for 60."""
CORE_READ_BYTES_PER_S = 12 * GB
"""What one core reads at most, there: 11 to 24 GB/s on servers and desktops of the last ten years."""

# Whether the memory of a desktop or laptop is as slow as if one of its two channels were empty.
# No file tells a user who is not root which slots are filled; the speed of all cores together does.

ONE_CHANNEL = 23 * GB
"""In a second: one channel of DDR4-3200 has 25.6 GB/s, of which nine tenths can be read; two of the slowest DDR4, at
2133, have 34.1."""
_TWO_CHANNELS = re.compile(
    r"(?i)\bRyzen\b(?!.*Embedded)|\bi[3579]-(?:[6-9]\d{3}|1\d{4})|\bCore(?:\(TM\))? (?:Ultra )?[3579]\b"
)
"""Desktops and laptops with DDR4 or newer: earlier ones, with DDR3, are that slow with both; an N100 has one."""

# How much of a token's time the runtime's threads spend waiting for a CPU.
# The kernel counts the time that each thread was ready and did not run. The threads meet at a barrier after every
# operation, so one that waits stops all: with T threads that each wait a share w, at least one waits 1 - (1 - w)^T of
# the time. That is the most that waiting can explain; no more of it is believed than physics leaves unexplained.

WAITING_SHARE = 0.10  # Any desktop makes any program wait less than this
MOST_WAITING = 0.95  # Of the time: beyond it, the gain from less waiting has no bound
_FILLED = 0.9
ROUNDING = 0.25  # Of a CPU: what any desktop uses in the background
_STEM = 4
"""Letters that a runtime and its process share in their names: llama.cpp and llama-server, vLLM and VLLM::Engine."""
_VECTOR_SETS = {
    "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "asimd": "NEON", "neon": "NEON", "dotprod": "DOTPROD",
}  # fmt: skip
"""Instruction sets as the kernel calls them and as llama.cpp prints them; newer ones gain far less."""


class OtherProcesses(NamedTuple):
    """Who else used the processors while tokens were generated."""

    cpus: float
    processes: list[BusyProcess]
    perhaps_own: BusyProcess | None = None  # Left out of both: it may be the runtime, whose own process is unknown


class HostView(Group):
    """CPUs, threads and host memory."""

    @cached_property
    def quota(self) -> tuple[Fact[float], str]:
        """The processors' time that its control group may use, and where that fact stands."""
        if isinstance(self.runtime.process.quota_cpus, Known):
            return self.runtime.process.quota_cpus, "runtime.process.quota_cpus"
        return self.machine.cpu.quota_cpus, "machine.cpu.quota_cpus"

    @cached_property
    def allowed_cpus(self) -> tuple[Fact[int], str]:
        """The processors that it may run on, and where that fact stands."""
        if isinstance(self.runtime.process.allowed_cpus, Known):
            return self.runtime.process.allowed_cpus, "runtime.process.allowed_cpus"
        return self.machine.cpu.allowed_cpus, "machine.cpu.allowed_cpus"

    @cached_property
    def cpu_limits(self) -> dict[str, float]:
        """Every limit that is known, by the path of its fact."""
        facts: tuple[tuple[Fact[float] | Fact[int], str], ...] = (self.quota, self.allowed_cpus)
        return {path: float(fact.value) for fact, path in facts if isinstance(fact, Known) and fact.value > 0}

    @cached_property
    def cores(self) -> float:
        """Cores that can compute for the runtime at once: physical ones, within its cpuset and quota."""
        return min(self._physical_cores, self.cpus)

    @cached_property
    def _physical_cores(self) -> float:
        cores = self.machine.cpu.physical_cores
        if isinstance(cores, Known) and cores.value:
            return float(cores.value)
        lacking = cores if isinstance(cores, Unknown) else not_found("no cores")
        raise MissingFactError(lacking, "machine.cpu.physical_cores")

    @cached_property
    def cpus(self) -> float:
        """Threads that can run at once: logical CPUs, within the cpuset and the quota."""
        cpu = self.machine.cpu
        known = self.cpu_limits.values()
        logical = cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0) * cpu.threads_per_core.value_or(1)
        return max(_LEAST_CPUS, min([logical, *known] if logical else known, default=1))

    @cached_property
    def own_cpus(self) -> float:
        """Logical CPUs that the runtime's threads may run on: within the cpuset, whatever the quota."""
        cpu, allowed = self.machine.cpu, self.allowed_cpus[0].value_or(0)
        logical = cpu.logical_cpus.value_or(0) or cpu.physical_cores.value_or(0) * cpu.threads_per_core.value_or(1)
        return max(1.0, float(min(filter(None, (logical, allowed)), default=1)))

    @cached_property
    def wanted_threads(self) -> float:
        """Threads that the runtime computes with: as it was set, else one for each core."""
        return float(self.runtime.compute.threads.value_or(0) or min(self._physical_cores, self.own_cpus))

    def computing_threads(self, threads: float = 0.0) -> float:
        """Of these or of the wanted threads, those that have a core of their own."""
        return max(1.0, min(threads or self.wanted_threads, self._physical_cores, self.own_cpus))

    @cached_property
    def bandwidth(self) -> tuple[float, float]:
        """Bytes per second that the runtime's threads read of the host's memory, and how far off that may be."""
        measured, threads = self.machine.memory.read_bytes_per_s, self.computing_threads()
        if isinstance(measured, Known) and measured.value >= SLOWEST_BYTES_PER_S:
            one = max(SLOWEST_BYTES_PER_S, self.machine.memory.read_one_core_bytes_per_s.value_or(measured.value))
            return min(measured.value, one * threads), SPREAD[measured.origin]
        usual = CORE_FED_BYTES_PER_S * self._physical_cores
        return min(usual, CORE_READ_BYTES_PER_S * threads), SPREAD[Origin.ESTIMATED]

    @cached_property
    def slow_as_one_channel(self) -> float | None:
        """Bytes a second that its memory gives, where one of two channels would give as much; else None."""
        read, cpu, system = self.machine.memory.read_bytes_per_s, self.machine.cpu, self.machine.system
        real = not isinstance(system.hypervisor, Known) and not system.wsl.value_or(default=False)
        if not isinstance(read, Known) or read.origin is not Origin.MEASURED or read.value > ONE_CHANNEL:
            return None
        has_two = real and self.case.placement.uses_no_gpu and _TWO_CHANNELS.search(cpu.model.value_or(""))
        return read.value if has_two else None

    @cached_property
    def other_processes(self) -> OtherProcesses | None:
        """The processors that others used; None where not measured, or where they cannot be told from the runtime.

        Behind a proxy, or a port of a container, the process that computes is not the one that answers. It is counted
        among the others, and of a model on the CPU it is the busiest of them.
        """
        used, seen = self.run.others_cpus, list(self.run.busiest_others.value_or([]))
        pid = self.runtime.process.pid
        apart = any(isinstance(fact, Known) for fact in (pid, self.run.own_cpus, self.run.busiest_others))
        if not isinstance(used, Known) or not apart:
            return None
        own = None if isinstance(pid, Known) else self.perhaps_server(seen)
        if own is None:
            return OtherProcesses(used.value, seen)
        return OtherProcesses(max(0.0, used.value - own.cpus), [p for p in seen if p is not own], own)

    def perhaps_server(self, processes: list[BusyProcess]) -> BusyProcess | None:
        """The busy process that may be the runtime, whose own is unknown: by its name, else the busiest."""
        known = [p for p in processes if p.pid]
        return next((p for p in known if self.is_named_after(p)), max(known, key=lambda p: p.cpus, default=None))

    def is_named_after(self, process: BusyProcess) -> bool:
        """Whether a process is the runtime's, by its name."""
        words = self.runtime.name.value_or("").lower().split()
        return bool(words) and len(words[-1]) >= _STEM and words[-1][:_STEM] in process.name.lower()

    @cached_property
    def cpu_pressure(self) -> float | None:
        """How much of the time something waited for a CPU while tokens were generated; None where not measured."""
        stat = self.case.telemetry.host_figure("cpu_pressure")  # by the kernel's own count
        return min(1.0, max(0.0, stat.mean)) if stat else None

    def stalled_share(self, token_s: float) -> float:
        """The share of a token's time in which some thread waits; 0 where nobody counted.

        Without a count of the runtime's own threads it is that of the whole machine, which is the most that it can be.
        """
        waited = self.run.waiting_for_cpu_s_per_token
        if token_s <= 0:
            return 0.0
        stolen = self.stolen_cpus / max(1.0, self.cpus)
        if not isinstance(waited, Known):
            return max(self.cpu_pressure or 0.0, min(1.0, stolen))
        threads = max(1, self.runtime.compute.threads.value_or(1))
        return float(1 - (1 - min(1.0, waited.value / (threads * token_s) + stolen)) ** threads)

    @cached_property
    def stolen_cpus(self) -> float:
        """CPUs whose time the hypervisor gave to other machines; the kernel counts that apart from waiting."""
        return sum(process.cpus for process in self.run.busiest_others.value_or([]) if process.pid == 0)

    def waiting_s(self, token_s: float, prediction: Prediction | None) -> float:
        """Seconds of a token that are due to waiting."""
        stalled = self.stalled_share(token_s) * token_s
        return min(stalled, max(0.0, token_s - prediction.seconds.mid)) if prediction else stalled

    @cached_property
    def is_arm(self) -> bool:
        """Whether the CPU is an ARM one, by its instruction sets; False where they were not read."""
        return "neon" in (self.machine.cpu.instruction_sets.get() or ())

    @cached_property
    def is_confined(self) -> bool:
        """Whether a cpuset or an affinity leaves the runtime fewer CPUs than there are; False if not known."""
        allowed, logical = self.allowed_cpus[0].get(), self.machine.cpu.logical_cpus.get()
        return allowed is not None and logical is not None and allowed < logical

    @cached_property
    def is_limited_by_cpuset(self) -> bool:
        """Whether a cpuset or an affinity limits the runtime, rather than a CPU quota."""
        allowed, quota = self.allowed_cpus[0].get(), self.quota[0].get()
        return self.is_confined and allowed is not None and (quota is None or allowed <= quota)

    @cached_property
    def fills_its_cpus(self) -> bool:
        """Whether the few CPUs of a cpuset or an affinity are busy with the runtime itself; False if not known."""
        used, allowed = self.run.own_cpus.get(), self.allowed_cpus[0].get()
        return self.is_limited_by_cpuset and used is not None and allowed is not None and used >= _FILLED * allowed

    @cached_property
    def waiting_share(self) -> float:
        """The part of a token's time that is due to waiting for a CPU, of a request alone or among others."""
        rate = self.case.sharing.rate_among_others
        if not isinstance(rate, Known):
            return 0.0
        expected = self.case.sharing.predict_among_others()
        token_s = 1 / max(SLOWEST, rate.value)
        return self.waiting_s(token_s, expected if isinstance(expected, Prediction) else None) / token_s

    @cached_property
    def throttled_share(self) -> float | None:
        """The share of CPU periods in which the quota stopped the runtime: during decode, else since it started."""
        if isinstance(self.run.cpu_throttled_fraction, Known):
            return self.run.cpu_throttled_fraction.value
        periods, stopped = self.machine.cpu.periods.get(), self.machine.cpu.throttled_periods.get()
        return stopped / periods if periods and stopped is not None else None

    @cached_property
    def cite_throttled_share(self) -> Citations:
        """The fact that gives the throttled share; nothing where it was not counted."""
        if self.throttled_share is None or isinstance(self.run.cpu_throttled_fraction, Known):
            return self.case.cite_known("run.cpu_throttled_fraction")
        return (self.case.cite("machine.cpu.throttled_periods", f"{self.machine.cpu.periods.need()} periods"),)

    @cached_property
    def started_threads(self) -> tuple[float, str]:
        """The runtime's threads and the fact that gives them; not counted, one per core that it sees, as by default."""
        for path in ("runtime.compute.threads", "machine.cpu.physical_cores"):
            if isinstance(known := self.case.fact(path), Known):
                return known.value, path
        logical: int = self.case.need("machine.cpu.logical_cpus")
        per_core = self.machine.cpu.threads_per_core.get()
        return logical // (MOST_THREADS_PER_CORE if per_core is None else per_core), "machine.cpu.logical_cpus"

    @cached_property
    def free_fast_cores(self) -> int:
        """Cores that one more thread gains from: the fast ones of a hybrid CPU, without those that others use."""
        cpu, cores = self.machine.cpu, self.cores
        fast = cpu.performance_cores.get() or self._physical_cores - (cpu.efficiency_cores.get() or 0)
        most = min(cores, fast) if fast > 0 else cores
        return max(1, int(most - min(most, self.reserved_cores + self.run.others_cpus.value_or(0.0)) + ROUNDING))

    @cached_property
    def reserved_cores(self) -> int:
        """Cores that the engine needs beside its threads: vLLM's scheduler and API server are busy for every token.

        On a CPU it keeps one (VLLM_CPU_NUM_OF_RESERVED_CPU); two threads on two cores were a third slower than one.
        """
        return int("vllm" in self.case.engine.name)

    @cached_property
    def model_disk(self) -> Disk | None:
        """The disk under the model file: the one with the longest path that contains it."""
        path, disks = self.model.path.value_or(""), self.machine.disks
        under = [d for d in disks if path and path.startswith(d.path)] if path or len(disks) > 1 else list(disks)
        return max(under, key=lambda disk: len(disk.path), default=None)

    @cached_property
    def counts_model_reads(self) -> bool:
        """Whether the kernel counts reads of the model file: of block devices always, of shares only in some."""
        disk = self.model_disk
        if disk is None:  # it may be a Windows drive, of which Linux inside WSL counts nothing
            return not self.machine.system.wsl.value_or(default=True)
        if isinstance(disk.device, Known):
            return disk.device.value.startswith("/dev/")
        return disk.kind.value_or("") != "network"

    @cached_property
    def cite_model_disk(self) -> Citations:
        """The kind of the disk under the model file; nothing where it is not known."""
        kind = self.model_disk.kind if self.model_disk else None
        if not isinstance(kind, Known):
            return ()
        fact, origin = "machine.disks.kind", str(kind.origin)
        return (Evidence(fact=fact, value=kind.value, reference=None, origin=origin, source=kind.source),)

    @cached_property
    def memory_limit_bytes(self) -> int | None:
        """The memory limit of its control group, page cache included; None where there is none or it was not read."""
        limits = (self.runtime.process.memory_limit_bytes, self.machine.memory.limit_bytes)
        return min((limit.value for limit in limits if isinstance(limit, Known)), default=None)

    @cached_property
    def cite_memory_limit(self) -> Citations:
        """That limit as evidence: the runtime's own, else that of the machine."""
        paths = ("runtime.process.memory_limit_bytes", "machine.memory.limit_bytes")
        return self.case.cite_known(*paths, reference="memory limit of its control group")[:1]

    @cached_property
    def compressed_bytes(self) -> int | None:
        """Bytes in the memory compressor, where they are more than a healthy Mac keeps there; else None."""
        packed, total = self.machine.memory.compressed_bytes.get(), self.machine.memory.total_bytes.value_or(0)
        return packed if packed is not None and packed >= max(LEAST_PACKED, PACKED_SHARE * total) else None

    @cached_property
    def model_is_large(self) -> bool | None:
        """Whether the model takes most of the memory, so that the pressure comes from it; None where not known."""
        total = self.machine.memory.total_bytes.get()
        taken = max(self.model.weights_bytes.value_or(0), self.runtime.memory.asked_bytes.value_or(0))
        return taken >= LARGE_SHARE * total if total and taken else None

    @cached_property
    def ram_bytes(self) -> int | None:
        """The RAM that it may use: that of the machine, within its memory limit; None where the total is not known."""
        total, limit = self.machine.memory.total_bytes.get(), self.memory_limit_bytes
        return total if total is None or limit is None else min(total, limit)

    @cached_property
    def vector_instructions(self) -> tuple[set[str], str]:
        """What the CPU has of the sets that decide, in llama.cpp's names, by its list or its model; and that fact."""
        listed, model = self.machine.cpu.instruction_sets, self.machine.cpu.model
        family = find_cpu_family(model.get() or "")
        if not isinstance(listed, Known) and family:
            return set(family.instruction_sets), "machine.cpu.model"
        if not isinstance(listed, Known) and self.case.gpus.is_apple:
            return {"NEON"}, "machine.cpu.model" if isinstance(model, Known) else "machine.system.name"
        names = (name.lower() for name in self.case.need("machine.cpu.instruction_sets"))
        return {_VECTOR_SETS[name] for name in names if name in _VECTOR_SETS}, "machine.cpu.instruction_sets"
