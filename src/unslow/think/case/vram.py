"""The GPU memory of a case: which process is the runtime's own, what there is and who holds it."""

from functools import cached_property

from unslow.catalog.hardware_families import unified_memory
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import Buffer
from unslow.facts.values import GB, GIB, MIB, Known, MissingFactError, Unknown
from unslow.think.case.device import candidate_gpus, gpu_capacity_bytes, is_gpu
from unslow.think.case.gpus import NOBODYS_BYTES, SURELY_FREE
from unslow.think.case.group import Citations, Group, if_known, missing
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES, FIT_MARGIN_BYTES
from unslow.think.report import Evidence

MOVABLE = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"  # What makes llama.cpp allocate memory that the driver may move
RUNTIME_CONTEXT_BYTES = 500 * MIB
"""What a process holds on an NVIDIA GPU beside its buffers: 480 to 590 MiB on the recorded machines."""


_OF_OLLAMA = {"ollama", "ollama_llama_server"}
_OF_LM_STUDIO = {"lm studio", "lm-studio", "llmster", "node"}
"""The app, its daemon, and the program in which it runs its engines: `.lmstudio/.internal/utils/node`."""
_WORKERS = {"vLLM": "VLLM::", "SGLang": "sglang::"}
"""How the processes are called that a server starts to compute for it."""
_NAMED_PROGRAMS = ("llama.cpp", "ollama")  # Runtimes whose programs have names of their own, wherever they run
_LAUNCHERS = {"docker", "podman", "sudo", "bash", "sh", "node"}
_CORE_READS = 24 * GB
"""What one core reads in a second at most: 11 to 24 GB/s on servers and desktops of the last ten years."""
_HOST_READS = 614 * GB  # Twelve channels of DDR5-6400, the most that a socket has
_MEASURED_OFF = 1.5  # How far a measured bandwidth may be below what the memory gives at its best
_CACHED_BYTES = GIB  # A model below it may lie in a processor's caches, which are faster than any memory


class VramView(Group):
    """GPU memory: the runtime's, other processes', free."""

    @cached_property
    def total_bytes(self) -> float | None:
        """What the GPUs in use have: as reported, else by the catalog; None where it is not known of each."""
        sizes = [gpu_capacity_bytes(g) for g in self.case.gpus.in_use]
        return float(sum(sizes)) if sizes and all(sizes) else None

    @cached_property
    def available_bytes(self) -> float:
        """What the runtime had before it loaded: as it saw it, else free now and its own."""
        seen = [d for d in self.case.gpus.computing_devices if isinstance(d.free_bytes, Known)]
        if seen:
            return sum(d.free_bytes.need() for d in seen)
        if isinstance(self.runtime.memory.available_bytes, Known):
            return self.runtime.memory.available_bytes.value
        counted = self.own_bytes
        own = sum(b.bytes for b in self.all_buffers if b.on_gpu) if counted is None else counted
        return sum(g.vram_free_bytes.need() for g in self.case.gpus.in_use) + own

    @cached_property
    def available_is_known(self) -> bool:
        """Whether it is known what was free before the load."""
        return if_known(lambda: self.available_bytes) is not None

    @cached_property
    def likely_room(self) -> tuple[float, str]:
        """What was free before the load, and the same in words, to be followed by what fits.

        Where it was not measured, what is surely free beside a desktop, not worded as a measurement.
        """
        total = self.total_bytes
        if self.available_is_known or total is None:
            return self.available_bytes, f"the GPU had {self.available_bytes / GIB:.0f} GiB free, enough for"
        return SURELY_FREE * total, f"a GPU with {total / GIB:.0f} GiB and nothing else on it holds"

    @cached_property
    def free_bytes(self) -> float:
        """What the GPUs have free now, else all that they have."""
        return sum(g.vram_free_bytes.value_or(g.vram_total_bytes.value_or(0)) for g in self.case.gpus.in_use)

    @cached_property
    def least_free_bytes(self) -> float | None:
        """What is free on the fullest of the GPUs in use; None where it is not known of each."""
        free = [g.vram_free_bytes.get() for g in self.case.gpus.in_use]
        known = [size for size in free if size is not None]
        return float(min(known)) if known and len(known) == len(free) else None

    def need_free_now(self, how_to_get: str) -> float:
        """What is free on the GPUs in use: as read, else all but what is used; what is missing is asked for."""
        gpus, total = self.case.gpus.in_use, self.total_bytes
        free = [g.vram_free_bytes.value for g in gpus if isinstance(g.vram_free_bytes, Known)]
        if gpus and len(free) == len(gpus):
            return float(sum(free))
        if not gpus or total is None:
            raise missing("how much GPU memory is free after the load", how_to_get)
        return total - sum(g.vram_used_bytes.need() for g in gpus)

    @cached_property
    def margin_bytes(self) -> float:
        """What the runtime's fit leaves free, on all of its GPUs together."""
        return self.runtime.placement.fit_margin_bytes.value_or(FIT_MARGIN_BYTES) * max(1, len(self.case.gpus.in_use))

    @cached_property
    def unified_limit_bytes(self) -> float | None:
        """The most that the GPU of a unified memory may take: as set, else the vendor's default."""
        memory = self.machine.memory
        if isinstance(memory.wired_limit_bytes, Known) and memory.wired_limit_bytes.value:
            return float(memory.wired_limit_bytes.value)
        if not isinstance(memory.total_bytes, Known) or not self.case.gpus.is_apple:
            return None
        return float(unified_memory("Apple").gpu_bytes(memory.total_bytes.value))

    @cached_property
    def shared_limit(self) -> tuple[float, str]:
        """The most that a GPU may take of a shared memory, and the fact that says so; 0 where nothing does."""
        memory, own = self.machine.memory, self.runtime.memory.available_bytes
        if isinstance(memory.wired_limit_bytes, Known):
            return self.unified_limit_bytes or 0.0, "machine.memory.wired_limit_bytes"
        for index, device in enumerate(self.runtime.placement.devices.value_or([])):
            if is_gpu(device) and isinstance(device.total_bytes, Known):
                return float(device.total_bytes.value), f"runtime.placement.devices.{index}.total_bytes"
        if isinstance(own, Known):
            return float(own.value), "runtime.memory.available_bytes"
        if isinstance(memory.total_bytes, Known):
            return self.unified_limit_bytes or 0.0, "machine.memory.total_bytes"
        # The chip is known and its memory is not: the largest that it was sold with
        apple = unified_memory("Apple")
        for index, gpu in enumerate(self.machine.gpus.value_or(())):
            if largest := apple.largest_bytes(gpu.name.value_or("")):
                return float(apple.gpu_bytes(largest)), f"machine.gpus.{index}.name"
        return 0.0, ""

    @cached_property
    def is_short(self) -> bool:
        """Whether something found no room: the load failed, layers are on the host, or a driver lends system memory."""
        failed = self.runtime.memory.allocation_failure.get() is not None
        return failed or self.case.placement.layers_on_host > 0 or self.driver_lends

    def buffers(self, kind: str, *, on_gpu: bool) -> list[Buffer]:
        """The buffers of one kind on one side."""
        return [b for b in self.all_buffers if b.kind == kind and b.on_gpu is on_gpu]

    @cached_property
    def all_buffers(self) -> list[Buffer]:
        """What the runtime says it allocated; empty where its log does not show it."""
        return self.runtime.memory.buffers.value_or([])

    @cached_property
    def compute_bytes(self) -> float:
        """The compute buffer on the GPU."""
        failure = self.runtime.memory.allocation_failure.value_or(None)
        if failure and failure.what == "compute_buffer":
            return failure.asked_bytes.value_or(COMPUTE_BUFFER_BYTES)
        return sum(b.bytes for b in self.buffers("compute", on_gpu=True)) or COMPUTE_BUFFER_BYTES

    @cached_property
    def kv_bytes(self) -> int:
        """The whole KV cache, by the runtime's buffers; 0 where its log shows none."""
        return self.host_kv_bytes + sum(b.bytes for b in self.buffers("kv", on_gpu=True))

    @cached_property
    def host_kv_bytes(self) -> int:
        """The KV cache in host memory, by the runtime's buffers; 0 where its log shows none."""
        return sum(b.bytes for b in self.buffers("kv", on_gpu=False))

    @cached_property
    def own_bytes(self) -> float | None:
        """What the runtime's process holds by the driver's count; None where it is not listed or not counted."""
        return self.own_bytes_on(*self.case.gpus.usable)

    def own_bytes_on(self, *gpus: Gpu) -> float | None:
        """The same on some GPUs."""
        sizes = (p.vram_bytes for gpu in gpus for p in self.own_processes_on(gpu))
        held = [size.value for size in sizes if isinstance(size, Known)]
        return float(sum(held)) if held else None

    @cached_property
    def own_lent_bytes(self) -> float:
        """System memory that the driver lends to the runtime's process as if it were GPU memory, as Windows counts it.

        Nothing on GPUs that have no memory of their own: there it is where everything lies.
        """
        cards = [gpu for gpu in self.case.gpus.usable if gpu.kind.value_or("") != "integrated"]
        return float(sum(p.shared_bytes.value_or(0) for gpu in cards for p in self.own_processes_on(gpu)))

    @cached_property
    def own_is_counted(self) -> bool:
        """Whether that is all: of every GPU that it uses the list is known, and of each of its processes the size."""
        gpus = self.case.gpus.in_use
        sizes = [p.vram_bytes for gpu in gpus for p in self.own_processes_on(gpu)]
        return all(isinstance(gpu.processes, Known) for gpu in gpus) and all(isinstance(size, Known) for size in sizes)

    @cached_property
    def own_is_known(self) -> bool:
        """Whether the runtime's own process can be told from others; after a failed load there is none."""
        if self.runtime.state.value_or("") == "failed" or self.own_pid_is_listed:
            return True
        processes = [p for gpu in self.case.gpus.in_use for p in gpu.processes.value_or([])]
        if any(self.is_own(p) for p in processes):
            return True
        return isinstance(self.runtime.process.pid, Known) and not any(self._is_doubtful(p) for p in processes)

    def own_processes_on(self, gpu: Gpu) -> list[GpuProcess]:
        return [p for p in gpu.processes.value_or([]) if self.is_own(p)]

    def need_own_process(self, how_to_get: str) -> None:
        """Without the runtime told from the other processes on its GPUs, nothing can be said of other processes."""
        if self.own_is_known:
            return
        self.case.need("runtime.process.pid")
        raise missing("which process on the GPU is the runtime: its number is of another namespace", how_to_get)

    def is_own(self, process: GpuProcess, *, on_gpu: bool | None = None) -> bool:
        """Whether a process is the runtime or computes for it; `on_gpu` says whether it is known to use a GPU.

        A number that no list has is from another namespace, as in a container: the process with the right name is it.
        """
        if self._is_worker(process):
            return True
        pid = self.runtime.process.pid
        if isinstance(pid, Known) and (process.pid == pid.value or self.own_pid_is_listed):
            return process.pid == pid.value
        if not self.has_own_name(process):
            return False
        on_gpu = self.case.gpus.runtime_says_it_uses_one if on_gpu is None else on_gpu
        return not isinstance(pid, Known) or (on_gpu and sum(self.has_own_name(p) for p in self._listed_processes) == 1)

    def may_be_own(self, process: GpuProcess) -> bool:
        """Whether nothing shows that a process belongs to something else."""
        pid = self.runtime.process.pid
        if isinstance(pid, Known) and self.own_pid_is_listed:
            return process.pid == pid.value or self._is_worker(process)
        name = self.runtime.name.value_or("").lower()
        known = bool(self._own_program) or any(named in name for named in _NAMED_PROGRAMS)
        return not known or not isinstance(process.name, Known) or self.has_own_name(process)

    @cached_property
    def own_pid_is_listed(self) -> bool:
        """Whether a driver lists the runtime by its number, so that all others that it lists are others."""
        pid = self.runtime.process.pid
        return isinstance(pid, Known) and any(process.pid == pid.value for process in self._listed_processes)

    def has_own_name(self, process: GpuProcess) -> bool:
        """Whether a process is called like the programs of the runtime."""
        program, runtime = _program(process.name.value_or("")), self.runtime.name.value_or("").lower()
        ollama = "ollama" in runtime and program in _OF_OLLAMA
        studio = "lm studio" in runtime and program.lower() in _OF_LM_STUDIO
        return program == "llama-server" or ollama or studio or (bool(program) and program == self._own_program)

    @cached_property
    def outruns_host(self) -> bool:
        """Whether tokens came faster than the host could read the weights: then a GPU computes, listed or not."""
        rate, weights = self.run.decode_tokens_per_s.value_or(0.0), self.model.weights_bytes.value_or(0)
        experts, used = self.model.experts.value_or(0), self.model.experts_used.value_or(0)
        read = weights * (used / experts if 0 < used < experts else 1.0)
        memory, cores = self.machine.memory.read_bytes_per_s, self.machine.cpu.physical_cores.value_or(0)
        most = min(_HOST_READS, cores * _CORE_READS) if cores else _HOST_READS
        most = _MEASURED_OFF * memory.value if isinstance(memory, Known) else most
        return read >= _CACHED_BYTES and rate * read > most

    @cached_property
    def _listed_processes(self) -> list[GpuProcess]:
        return [process for gpu in self.machine.gpus.value_or(()) for process in gpu.processes.value_or([])]

    def _is_worker(self, process: GpuProcess) -> bool:
        worker = _WORKERS.get(self.runtime.name.value_or(""))
        return bool(worker) and process.name.value_or("").rpartition("/")[2].startswith(worker or "")

    @cached_property
    def _own_program(self) -> str:
        """The program that was started, where its name tells it from others, as that of an interpreter does not."""
        program = _program(next(iter(self.runtime.process.command.value_or([])), ""))
        return "" if program.lower().startswith("python") or program in _LAUNCHERS else program

    def _is_doubtful(self, process: GpuProcess) -> bool:
        """Whether a process may well be the runtime under another number: it has its name, or none."""
        if self.own_pid_is_listed or self.is_own(process):
            return False
        return not isinstance(process.name, Known) or self.has_own_name(process)

    @cached_property
    def other_processes(self) -> list[GpuProcess]:
        """Processes that hold memory on the runtime's GPUs and are not the runtime, the largest first."""
        loaded, named = self.runtime.state.value_or("") != "failed", isinstance(self.runtime.process.pid, Known)
        listed = (p for gpu in self.case.gpus.in_use for p in gpu.processes.value_or([]))
        others = [p for p in listed if not self.is_own(p)]
        if loaded:
            others = [p for p in others if not ((named or not isinstance(p.name, Known)) and self._is_doubtful(p))]
        return sorted(others, key=lambda p: -p.vram_bytes.value_or(0))

    @cached_property
    def others_bytes(self) -> int:
        """GPU memory of other processes; one that the driver gives no size for is not blamed for any."""
        return sum(p.vram_bytes.get() or 0 for p in self.other_processes)

    def held_by(self, others: list[GpuProcess], how_to_get: str) -> float:
        """What they hold: as listed, else what is in use and neither the runtime's nor the driver's."""
        sizes = [p.vram_bytes for p in others]
        listed = float(sum(size.value_or(0) for size in sizes))
        if all(isinstance(size, Known) for size in sizes):
            return listed
        own, gpus, buffers = self.own_bytes, self.case.gpus.in_use, self.runtime.memory.buffers
        if own is None and isinstance(buffers, Known):
            own = RUNTIME_CONTEXT_BYTES + sum(b.bytes for b in buffers.value if b.on_gpu)
        if own is None or not all(isinstance(gpu.vram_used_bytes, Known) for gpu in gpus):
            raise missing("how much GPU memory each process holds", how_to_get)
        used = sum(gpu.vram_used_bytes.need() for gpu in gpus)
        return max(listed, used - own - NOBODYS_BYTES * len(gpus))

    def need_process_lists(self) -> None:
        """Without the list of every GPU in use, nothing can be said of other processes."""
        for place in self.case.gpus.places_in_use or [0]:
            self.case.need(f"machine.gpus.{place}.processes")

    def sized_processes(self, gpu: Gpu) -> list[tuple[GpuProcess, int]]:
        """The processes that the driver lists on a GPU with their size, the largest first; none where it lists none."""
        listed = gpu.processes.get() or []
        sized = [(p, p.vram_bytes.value) for p in listed if isinstance(p.vram_bytes, Known)]
        return sorted(sized, key=lambda one: -one[1])

    def label_process(self, process: GpuProcess) -> str:
        """A process by its name and number."""
        return f"{process.name.get() or 'another process'} (pid {process.pid})"

    def label_with_size(self, process: GpuProcess) -> str:
        """The same, with what it holds where that is known."""
        held = process.vram_bytes.get()
        size = "" if held is None else f", {held / GIB:.1f} GiB"
        return f"{process.name.get() or 'unnamed'} (pid {process.pid}{size})"

    def cite_process(self, process: GpuProcess) -> Evidence:
        """Another process, as the driver lists it, as evidence."""
        lists = (gpu.processes for gpu in self.machine.gpus.need() if isinstance(gpu.processes, Known))
        source = next(listed.source for listed in lists if any(p.pid == process.pid for p in listed.value))
        return Evidence(
            fact=f"machine.gpus.processes.{process.pid}", value=self.label_process(process),
            reference="not the runtime", origin="reported", source=source,
        )  # fmt: skip

    def cite_vram_of(self, process: GpuProcess, reference: str) -> Evidence:
        """What a process holds, as evidence; a missing size is asked for."""
        size, fact = process.vram_bytes, f"machine.gpus.processes.{process.pid}.vram_bytes"
        if isinstance(size, Unknown):
            raise MissingFactError(size)
        return Evidence(fact=fact, value=size.value, reference=reference, origin=str(size.origin), source=size.source)

    @cached_property
    def most_taken_before_load(self) -> tuple[str, float, float] | None:
        """The device on which most was in use before the load: the path of what was free, its total, what was gone.

        As the runtime saw it, or with the total of the one kind of card it can be. Where the driver lists who holds
        memory on the card, that list decides, and not what is gone.
        """
        taken = []
        for n, device in enumerate(self.runtime.placement.devices.value_or([])):
            cards = [gpu for gpu in candidate_gpus(device, self.case.gpus.usable) if isinstance(gpu.processes, Unknown)]
            totals = {gpu.vram_total_bytes.value_or(0) for gpu in cards}
            total = float(device.total_bytes.value_or(totals.pop() if len(totals) == 1 else 0))
            no_card = "cpu" in (device.library, device.name.lower()) or device.integrated.value_or(default=False)
            if total and not no_card and isinstance(device.free_bytes, Known):
                path = f"runtime.placement.devices.{n}.free_bytes"
                taken.append((path, total, total - device.free_bytes.value))
        return max(taken, key=lambda one: one[2], default=None)

    @cached_property
    def cite_free_before_load(self) -> Citations:
        """What the runtime itself saw free on its first GPU, where it says so."""
        devices = self.runtime.placement.devices.value_or([])
        index = next((i for i, d in enumerate(devices) if is_gpu(d) and isinstance(d.free_bytes, Known)), None)
        if index is None:
            return ()
        return (self.case.cite(f"runtime.placement.devices.{index}.free_bytes", "free before the load"),)

    @cached_property
    def driver_lends(self) -> bool:
        """Whether what counts as on the GPU may lie in system memory: it may move, or Windows lent gigabytes."""
        lent = any(gpu.shared_used_bytes.value_or(0) >= GIB for gpu in self.case.gpus.usable)
        return lent or self.may_move

    @cached_property
    def may_move(self) -> bool:
        """Whether llama.cpp was told to allocate memory that the driver may move into system memory."""
        return MOVABLE in self.case.engine.environment

    @cached_property
    def allocation_failed(self) -> bool:
        """Whether the allocation that ended the load was one on a GPU."""
        failure = self.runtime.memory.allocation_failure.value_or(None)
        return failure is not None and not failure.device.startswith(("CPU", "CUDA_Host", "ROCm_Host"))


def _program(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
