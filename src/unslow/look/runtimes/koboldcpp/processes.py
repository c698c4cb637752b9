"""The processes of KoboldCpp: one program that unpacks itself, or a script that Python runs."""

from collections.abc import Sequence

from unslow.look.llama_server.process import found_server
from unslow.look.processes import Process, outermost, read_processes, started_by, words_of

_PROGRAM, _SCRIPT = "koboldcpp", "koboldcpp.py"
_INTERPRETERS = ("python", "pypy")
_MOST_WORDS = 8


def find(processes: Sequence[Process]) -> list[Process]:
    """Each KoboldCpp once: the program starts itself again after it has unpacked itself."""
    return outermost([process for process in processes if _is_own(process)], processes)


def _is_own(process: Process) -> bool:
    if process.name.startswith(_PROGRAM):
        return True
    if not process.name.startswith(_INTERPRETERS):
        return False
    return any(word.endswith(_SCRIPT) for word in words_of(process.command())[1:_MOST_WORDS])


def worker_of(process: Process) -> Process:
    """The process that holds the model: the one with most memory among it and those that it started."""
    family = [process, *started_by(process, read_processes(process.system))]
    return max(family, key=lambda p: found_server(p).resident_bytes.value_or(0))
