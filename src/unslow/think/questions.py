"""What to ask next: the few commands that would settle most of what is open, ready to copy."""

from collections.abc import Iterable, Sequence

from unslow.catalog.devices import find_device
from unslow.catalog.questions import Command, commands
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.think.adapt.vram import gpus_of
from unslow.think.report import Question, Untold

MOST = 3
_SUSPICION = 6.0
"""A cause that something speaks for weighs as much as so many that nothing does."""
_MAKERS = (("rtx", "NVIDIA"), ("gtx", "NVIDIA"), ("nvidia", "NVIDIA"), ("tesla", "NVIDIA"), ("quadro", "NVIDIA"),
           ("radeon", "AMD"), ("amd", "AMD"))  # fmt: skip


def questions(case: Case, untold: Sequence[Untold], most: int = MOST) -> tuple[Question, ...]:
    """The commands that give the missing facts of most causes, suspected ones first; at most `most`."""
    open_ = list(untold)
    left = [command for command in commands() if _fits(command, case)]
    chosen: list[Question] = []
    while left and open_ and len(chosen) < most:
        best = max(left, key=lambda command: _worth(command, open_))
        settled = [one for one in open_ if _gives(best, one)]
        if not settled:
            break
        chosen.append(Question(command=best.command, why=best.why, settles=tuple(_suspected_first(settled))))
        open_ = [one for one in open_ if one not in settled]
        left.remove(best)
    return tuple(chosen)


def _suspected_first(settled: Iterable[Untold]) -> list[str]:
    return [one.cause for one in sorted(settled, key=lambda one: not one.suspected)]


def _worth(command: Command, open_: Iterable[Untold]) -> float:
    return sum(_SUSPICION if one.suspected else 1.0 for one in open_ if _gives(command, one))


def _gives(command: Command, untold: Untold) -> bool:
    """Whether the output holds a missing fact, or the cause itself asks for this command."""
    wanted = [path.strip() for path in untold.missing.split(" or ")]
    if any(path == given or path.startswith(f"{given}.") for path in wanted for given in command.gives):
        return True
    return command.command.split(" ")[0] in untold.how_to_get and command.command in untold.how_to_get


def _fits(command: Command, case: Case) -> bool:
    runtime = case.runtime.name.value_or("llama.cpp")
    system = case.machine.system.name.value_or("Linux")
    container = case.machine.system.container.value_or(case.runtime.container.value_or(""))
    vendors = {_vendor(gpu).lower() for gpu in gpus_of(case)} - {""}
    return (
        (not command.runtimes or any(runtime.endswith(name) for name in command.runtimes))
        and (not command.systems or _family(system) in command.systems)
        and (not command.vendors or bool(vendors & {vendor.lower() for vendor in command.vendors}))
        and (not command.containers or container in command.containers)
        and not (command.systems and container and command.command.startswith("journalctl"))
    )


def _vendor(gpu: Gpu) -> str:
    """Who made a GPU: as told, else by its name."""
    name = gpu.name.value_or("")
    known = find_device(name)
    named = known.vendor if known else next((maker for word, maker in _MAKERS if word in name.lower()), "")
    return str(gpu.vendor.value_or(named) or named)


def _family(system: str) -> str:
    words = system.lower()
    return "Windows" if "windows" in words else "macOS" if "mac" in words or "darwin" in words else "Linux"
