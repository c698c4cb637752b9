"""Which process on a GPU is the runtime: by its number, and where that is of another namespace, by its name."""

from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.units import GB, GIB
from unslow.facts.values import Known

_OF_OLLAMA = {"ollama", "ollama_llama_server"}
_OF_LM_STUDIO = {"lm studio", "lm-studio", "llmster", "node"}
"""The app, its daemon, and the program in which it runs its engines: `.lmstudio/.internal/utils/node`."""
_WORKERS = {"vLLM": "VLLM::", "SGLang": "sglang::"}
"""How the processes are called that a server starts to compute for it."""
_NAMED_PROGRAMS = ("llama.cpp", "ollama")
"""Runtimes whose programs have names of their own, wherever they run."""
_LAUNCHERS = {"docker", "podman", "sudo", "bash", "sh", "node"}
_CORE_READS = 24 * GB
"""What one core reads in a second at most: 11 to 24 GB/s on servers and desktops of the last ten years."""
_HOST_READS = 614 * GB
"""Twelve channels of DDR5-6400, the most that a socket has."""
_MEASURED_OFF = 1.5
"""How far a measured bandwidth may be below what the memory gives at its best."""
_CACHED_BYTES = GIB
"""A model below it may lie in a processor's caches, which are faster than any memory."""


def is_own(case: Case, process: GpuProcess, *, on_gpu: bool) -> bool:
    """Whether a process is the runtime or computes for it; `on_gpu` says that the runtime is known to use a GPU.

    A number that no list has is one of another namespace, as in a container: the only one with the right name is it.
    """
    if _is_worker(case, process):
        return True
    pid = case.runtime.pid
    if isinstance(pid, Known) and (process.pid == pid.value or own_pid_is_listed(case)):
        return process.pid == pid.value
    if not has_own_name(case, process):
        return False
    return not isinstance(pid, Known) or (on_gpu and sum(has_own_name(case, p) for p in _listed(case)) == 1)


def may_be_own(case: Case, process: GpuProcess) -> bool:
    """Whether nothing shows that a process is somebody else's."""
    pid = case.runtime.pid
    if isinstance(pid, Known) and own_pid_is_listed(case):
        return process.pid == pid.value or _is_worker(case, process)
    name, command = case.runtime.name.value_or("").lower(), _program_of_command(case)
    known = bool(command and not _is_interpreter(command)) or any(named in name for named in _NAMED_PROGRAMS)
    return not known or not isinstance(process.name, Known) or has_own_name(case, process)


def own_pid_is_listed(case: Case) -> bool:
    """Whether a driver lists the runtime by its number, so that all others that it lists are others."""
    pid = case.runtime.pid
    return isinstance(pid, Known) and any(process.pid == pid.value for process in _listed(case))


def has_own_name(case: Case, process: GpuProcess) -> bool:
    """Whether a process is called like the programs of the runtime."""
    program = _program(process.name.value_or(""))
    ollama = "ollama" in case.runtime.name.value_or("").lower()
    command = _program_of_command(case)
    by_command = bool(command) and program == command and not _is_interpreter(command)
    studio = "lm studio" in case.runtime.name.value_or("").lower() and program.lower() in _OF_LM_STUDIO
    return program == "llama-server" or by_command or studio or (ollama and program in _OF_OLLAMA)


def outruns_the_host(case: Case) -> bool:
    """Whether tokens came faster than the host reads the weights for each: then a GPU computes, whoever lists it."""
    rate, weights = case.run.decode_tokens_per_s.value_or(0.0), case.model.weights_bytes.value_or(0)
    experts, used = case.model.experts.value_or(0), case.model.experts_used.value_or(0)
    read = weights * (used / experts if 0 < used < experts else 1.0)
    return read >= _CACHED_BYTES and rate * read > _host_reads(case)


def _host_reads(case: Case) -> float:
    memory, cores = case.machine.memory.read_bytes_per_s, case.machine.cpu.physical_cores.value_or(0)
    if isinstance(memory, Known):
        return _MEASURED_OFF * memory.value
    return min(_HOST_READS, cores * _CORE_READS) if cores else _HOST_READS


def _listed(case: Case) -> list[GpuProcess]:
    return [process for gpu in case.machine.gpus.value_or(()) for process in gpu.processes.value_or([])]


def _is_worker(case: Case, process: GpuProcess) -> bool:
    worker = _WORKERS.get(case.runtime.name.value_or(""))
    return bool(worker) and process.name.value_or("").rpartition("/")[2].startswith(worker or "")


def _program_of_command(case: Case) -> str:
    return _program(next(iter(case.runtime.command.value_or([])), ""))


def _program(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _is_interpreter(program: str) -> bool:
    """Whether a program runs others, so that its name says nothing."""
    return program.lower().startswith("python") or program in _LAUNCHERS
