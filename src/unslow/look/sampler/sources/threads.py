"""Where the runtime's threads run, by their last processor: on slow cores of a hybrid one, and on which memory node."""

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from math import nan

from unslow.look.kernel.core_kinds import read_slow_cpus
from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.kernel.cpu_time import parse_running_on
from unslow.look.kernel.numa_maps import NODES, read_nodes
from unslow.look.processes import families
from unslow.look.sampler.reading import SELDOM_S, Reading
from unslow.look.system import Live, LookError
from unslow.look.system.door import read_text

MOST_THREADS = 512
SLOW_SHARE = "own_slow_core_share"


class Threads:
    """The running threads of some processes, and what share of them each group of processors has."""

    def __init__(self, live: Live, pids: Sequence[int], groups: Sequence[frozenset[int]]) -> None:
        self._live, self._pids, self._groups = live, pids, groups

    def read(self, _now: float) -> Sequence[float]:
        """A share for each group; NaN while no thread runs."""
        cpus = self._running_on()
        return [sum(cpu in group for cpu in cpus) / len(cpus) if cpus else nan for group in self._groups]

    def _running_on(self) -> list[int]:
        found = []
        for folder in self._folders()[:MOST_THREADS]:
            with suppress(LookError):  # a thread that is gone
                found.append(parse_running_on(read_text(self._live, f"{folder}/stat")))
        return [cpu for cpu in found if cpu is not None]

    def _folders(self) -> list[str]:
        folders = []
        for pid in self._pids:
            with suppress(LookError):
                folders += [f"/proc/{pid}/task/{thread}" for thread in self._live.list_dir(f"/proc/{pid}/task")]
        return folders


def open_readings(live: Live, pids: Collection[int], _closing: ExitStack) -> list[Reading]:
    """One reading; LookError where all processors are alike, or no process is known."""
    groups = _groups(live) if pids else {}
    if not groups:
        raise LookError("all cores are of one kind, on one memory node" if pids else "no process of a runtime is known")
    threads = Threads(live, families(live, pids), list(groups.values()))
    return [Reading("threads", tuple(groups), threads.read, every_s=SELDOM_S)]


def _groups(live: Live) -> dict[str, frozenset[int]]:
    """The processors that make a difference, by the column that tells of them."""
    slow = read_slow_cpus(live)
    groups = {SLOW_SHARE: slow} if slow else {}
    with suppress(LookError):
        nodes = read_nodes(live)
        if len(nodes) > 1:
            lists = {n: parse_cpu_list(read_text(live, f"{NODES}/node{n}/cpulist")) for n in nodes}
            groups |= {f"own_node{number}_share": cpus for number, cpus in lists.items()}
    return groups
