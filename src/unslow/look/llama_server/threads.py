"""How many threads llama.cpp takes where nobody says: one for each core, on a hybrid processor for each fast one."""

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Known, Unknown, estimated, first_known
from unslow.look.llama_server.arguments import parse_settings

_DEFAULT = "default of llama.cpp: one for each core"


def with_default_threads(runtime: Runtime, machine: Machine) -> Runtime:
    """The runtime with the threads that it chose by itself, where its log does not tell them."""
    complete = isinstance(runtime.command, Known) and isinstance(runtime.environment, Known)
    if not complete or not isinstance(runtime.threads, Unknown):
        return runtime
    settings = parse_settings(runtime.command.value_or([]), runtime.environment.value_or({}))
    cores = _cores(machine)
    if "threads" in settings or not isinstance(cores, Known):
        return runtime
    threads = estimated(cores.value, f"{_DEFAULT} ({cores.source})")
    batch = runtime.threads_batch if "threads_batch" in settings else first_known(runtime.threads_batch, threads)
    return msgspec.structs.replace(runtime, threads=threads, threads_batch=batch)


def _cores(machine: Machine) -> Fact[int]:
    cpu = machine.cpu
    hybrid = isinstance(cpu.efficiency_cores, Known) and cpu.efficiency_cores.value > 0
    return first_known(cpu.performance_cores, cpu.physical_cores) if hybrid else cpu.physical_cores
