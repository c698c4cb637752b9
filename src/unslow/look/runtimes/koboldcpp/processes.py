"""The processes of KoboldCpp: one program that unpacks itself, or a script that Python runs."""

from collections.abc import Sequence

from unslow.look.llama_server.process import found_server
from unslow.look.processes import Process, ancestors, read_processes, words_of

_PROGRAM, _SCRIPT = "koboldcpp", "koboldcpp.py"
_INTERPRETERS = ("python", "pypy")
_MOST_WORDS = 8


def find(processes: Sequence[Process]) -> list[Process]:
    """Each KoboldCpp once: the program starts itself again after it has unpacked itself."""
    everything = tuple(processes)
    own = [process for process in everything if _is_own(process)]
    pids = {process.pid for process in own}
    return [p for p in own if not any(parent.pid in pids for parent in ancestors(p, everything))]


def _is_own(process: Process) -> bool:
    if process.name.startswith(_PROGRAM):
        return True
    if not process.name.startswith(_INTERPRETERS):
        return False
    return any(word.endswith(_SCRIPT) for word in words_of(process.command())[1:_MOST_WORDS])


def worker_of(process: Process) -> Process:
    """The process that holds the model: the one with most memory among it and those that it started."""
    everything = read_processes(process.system)
    family = [p for p in everything if p.pid == process.pid or process.pid in {a.pid for a in ancestors(p, everything)}]
    return max(family, key=lambda p: found_server(p).resident_bytes.value_or(0), default=process)
