"""What a played fault leaves behind: a folder in the form of tests/machines, without anything of the place it was."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lab.faults.fault import Fault, Playing

LARGEST_BYTES = 300_000
_ROOT_OF_A_PROCESS = r"/proc/(?:\d+|self)/root"
_GROUP_OF_ITS_OWN = re.compile(r"/[0-9a-f]{32}(?![0-9a-f])")  # A control group that has a number for a name
_FILE_OF_A_PROCESS = re.compile(r"(?:head|tail|file|ask gguf|ask machine code) /proc/(\d+)/root/")


def finish(folder: Path, fault: Fault, playing: Playing, private: Iterable[Path]) -> list[str]:
    """Clean the recording and say what it should give; complaints, where it can't be used as it is."""
    if playing.load_s is None and Path(playing.log).is_file():
        shutil.copy(playing.log, folder / "server.log")
    recording = folder / "recording.jsonl"
    if recording.is_file():
        kept = without_strangers(recording.read_text(encoding="utf-8", errors="replace"), family(playing.pid))
        recording.write_text(kept, encoding="utf-8")
    names = names_of(playing, private)
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        path.write_text(cleaned(path.read_text(encoding="utf-8", errors="replace"), names), encoding="utf-8")
    (folder / "expected.toml").write_text(expectation(fault), encoding="utf-8")
    size = sum(path.stat().st_size for path in files)
    return [f"the recording has {size} bytes"] if size > LARGEST_BYTES else []


def expectation(fault: Fault) -> str:
    """What a diagnosis of the recording should say."""
    fields = {"verdict": fault.verdict, "first_cause": fault.cause, "also": list(fault.also), "what": fault.what}
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


def names_of(playing: Playing, private: Iterable[Path]) -> dict[str, str]:
    """Paths of this place, the longest first, and what stands for them in a recording."""
    names = {playing.scratch: "/srv/lab", playing.models: "/srv/models"}
    names |= {str(path): f"/srv/{path.name}" for path in private}
    names |= {
        sys.prefix: "/srv/python",
        str(Path.cwd()): "/srv/unslow",
        tempfile.gettempdir(): "/srv/tmp",
        str(Path.home()): "/home/user",
    }
    first = Path("/proc/1/comm").read_text(encoding="utf-8").strip()
    if first not in ("init", "systemd") and not shutil.which(first):  # of a container alone
        names[first] = "init"
    return dict(sorted(names.items(), key=lambda item: -len(item[0])))


def cleaned(text: str, names: dict[str, str]) -> str:
    """The text with every such path replaced; /proc/N/root is no home, whatever the home is called."""
    for path, name in names.items():
        if len(path) > len(os.sep):
            pattern = rf"({_ROOT_OF_A_PROCESS})|{re.escape(path)}(?![\w.-])"
            text = re.sub(pattern, lambda found, name=name: found[1] or name, text)  # type: ignore[misc]
    return _GROUP_OF_ITS_OWN.sub("/lab", text)


def without_strangers(recording: str, own: set[int]) -> str:
    """The lines of a recording but for what other servers of the machine wrote to their logs, or load."""
    return "".join(line for line in recording.splitlines(keepends=True) if _pid_of(line) in {0, *own})


def _pid_of(line: str) -> int:
    """Whose files a line tells of; 0 where it is about something else."""
    found = _FILE_OF_A_PROCESS.match(json.loads(line)["question"])
    return int(found[1]) if found else 0


def family(pid: int) -> set[int]:
    """The processes that were started together with that one, or by it: a proxy's servers have groups of their own."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    own = {one for one in parents if _group(one) == pid}
    while more := {one for one, parent in parents.items() if parent in own} - own:
        own |= more
    return own


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
