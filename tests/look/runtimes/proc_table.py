"""A /proc of made-up processes, for the readers that find runtimes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from doubles import FakeSystem


@dataclass
class ProcTable:
    """Processes by hand; `system` answers from them."""

    system: FakeSystem = field(default_factory=FakeSystem)

    def add(
        self,
        pid: int,
        name: str,
        command: Sequence[str],
        parent: int = 1,
        environment: str = "",
        resident_kb: int = 100,
    ) -> "ProcTable":
        folder = f"/proc/{pid}"
        self.system.folders.setdefault("/proc", []).append(str(pid))
        self.system.files |= {
            f"{folder}/comm": f"{name}\n",
            f"{folder}/cmdline": "".join(f"{word}\0" for word in command),
            f"{folder}/environ": environment,
            f"{folder}/status": f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nVmRSS:\t{resident_kb} kB\nThreads:\t4\n",
            f"{folder}/cgroup": "0::/user.slice\n",
        }
        self.system.links[f"{folder}/cwd"] = "/home/ann"
        return self
