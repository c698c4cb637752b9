"""A real systemd as the first process of namespaces of its own: nothing of it is seen, or stays, outside.

It has its own mounts, processes, control groups and network; the rest of the disk is shared, so what is tested is read
from where it lies. Units are put in a /etc/systemd/system of its own.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

SYSTEMD = next((path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if Path(path).exists()), "")
TREES = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_KEPT = "basic.target sysinit.target shutdown.target multi-user.target exit.target systemd-exit.service"
BOOT = f"""set -e
mount --make-rprivate /
umount -l -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mkdir -p /run/units /run/none
for unit in {_KEPT}; do cp "/usr/lib/systemd/system/$unit" /run/units/; done
mount --bind /run/units /usr/lib/systemd/system
mount --bind /run/none /usr/lib/systemd/system-generators
mount -t tmpfs -o mode=755 tmpfs /etc/systemd/system
cp "$1"/* /etc/systemd/system/
export container=other
exec {SYSTEMD} --system --unit=multi-user.target --log-target=null
"""
NAMESPACES = ("--cgroup", "--mount", "--pid", "--uts", "--ipc", "--net")
_TRIES = 300


def missing() -> str:
    """What is not there of what is needed; empty where all is."""
    if os.name != "posix" or os.geteuid() != 0:
        return "only root can have namespaces with mounts of their own"
    gone = [word for word in ("unshare", "nsenter", "systemctl") if not shutil.which(word)]
    if not SYSTEMD or gone:
        return f"not installed: {', '.join(gone) or 'systemd'}"
    return "" if _tree() else "no control groups of version 2 are mounted"


def _tree() -> Path | None:
    return next((tree for tree in TREES if (tree / "cgroup.subtree_control").exists()), None)


NEEDED = [pytest.mark.real, pytest.mark.skipif(bool(missing()), reason=missing())]


class Booted:
    """A systemd that runs, and what is run beside it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def run(self, *words: str, check: bool = True, env: Mapping[str, str] | None = None) -> str:
        """What a command prints, beside that systemd."""
        done = self.done(*words, env=env)
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def done(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """The same, with its status."""
        inside = ["nsenter", "-t", str(self._pid), *NAMESPACES, f"--wd={Path.cwd()}", "--", *words]
        environment = {**os.environ, **(env or {})}
        return subprocess.run(inside, capture_output=True, text=True, timeout=120, check=False, env=environment)

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").strip()

    def command(self, unit: str) -> list[str]:
        """The command line of the main process of a unit."""
        return self.run("cat", f"/proc/{self.show(unit, 'MainPID')}/cmdline").split("\0")[:-1]


@contextmanager
def booted(units: Path) -> Iterator[Booted]:
    """Started with the units of a folder, and ended with the block."""
    group = (_tree() or TREES[0]) / f"unslow-test-{os.getpid()}"
    group.mkdir()
    script = f'echo $$ > "{group}/cgroup.procs"; exec unshare {" ".join(NAMESPACES)} --fork --mount-proc "$@"'
    words = ["sh", "-c", script, "sh", "--kill-child=KILL", "bash", "-c", BOOT, "boot", str(units)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as outer:
        try:
            yield _ready(outer)
        finally:
            outer.kill()
            outer.wait()
            _remove(group)


def _ready(outer: "subprocess.Popen[str]") -> Booted:
    for _ in range(_TRIES):
        if outer.poll() is not None:
            pytest.skip(f"no systemd can be started here: {outer.stderr.read()[-300:] if outer.stderr else ''}")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        system = Booted(int(children[0])) if children else None
        if system and system.done("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
            return system
        time.sleep(0.1)
    pytest.skip("systemd did not come up here")


def _remove(group: Path) -> None:
    """The control groups, from the innermost on; processes that were just killed may take a moment to be gone."""
    for _ in range(_TRIES):
        for folder in [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]:
            try:
                folder.rmdir()
            except OSError:
                time.sleep(0.01)
        if not group.exists():
            return
