"""What a built machine is, and how its folder is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from lab.built_machines.sources import Source
from lab.built_machines.world import World

from unslow.commands.diagnose.runtimes import subjects_at_url
from unslow.commands.diagnose.target import collect, with_machine, with_subjects
from unslow.facts.machine import Facts
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import Known
from unslow.look.runtimes._gguf_process import read_log
from unslow.look.runtimes.llama_cpp import with_log
from unslow.look.system.recorded import Recorder

MACHINES = Path(__file__).parents[2] / "tests" / "machines"
SNAPSHOT = "snapshot.json"
T = TypeVar("T", bound=Facts)


Write = Callable[[Path], None]
"""Writes a machine into an empty folder."""


class Built(NamedTuple):
    """A machine that nobody recorded: what it shows, what must be said of it, and where its figures are from.

    It is written in the rawest form that can hold it: by `write` into an empty folder.
    """

    name: str
    first_cause: str
    what: str
    source: Source
    write: Write
    verdict: str = "slow"
    also: tuple[str, ...] = ()
    figures: str = "speeds chosen"
    """Whose they are."""

    def build(self, machines: Path = MACHINES) -> Path:
        """Write the folder anew."""
        folder = machines / f"built_{self.name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.write(folder)
        (folder / "expected.toml").write_text(self.expected())
        return folder

    def expected(self) -> str:
        """Its expected.toml."""
        rows = {
            "verdict": self.verdict,
            "first_cause": self.first_cause,
            "also": list(self.also),
            "what": f"built: {self.what}; {self.figures}",
            "source": self.source.text,
            "checked": self.source.checked,
        }
        return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in rows.items())


def recording(world: World) -> Write:
    """The machine as `unslow collect --record` would have written it."""

    def write(folder: Path) -> None:
        recorder = Recorder(world, folder)
        try:
            collect(recorder, bandwidth="ram_bandwidth" in world.asks)
        finally:
            recorder.close()

    return write


def snapshot(
    world: World,
    run: Run = Run(),  # noqa: B008 (frozen, as the others)
    *,
    model: Model = Model(),  # noqa: B008
    runtime: Runtime = Runtime(),  # noqa: B008
    url: str = "",
    log: str = "",
) -> Write:
    """The machine with what was measured on it; the server at a URL with a log where no process shows."""

    def write(folder: Path) -> None:
        seen = collect(world, bandwidth="ram_bandwidth" in world.asks)
        subjects = seen.subjects or _at(world, seen, url, log)
        (subject,) = subjects
        whole = msgspec.structs.replace(
            subject,
            run=_joined(subject.run, run),
            model=_joined(subject.model, model),
            runtime=_joined(subject.runtime, runtime),
        )
        (folder / SNAPSHOT).write_bytes(dump_snapshot(with_subjects(seen, (whole,))) + b"\n")

    return write


def _at(world: World, seen: Snapshot, url: str, log: str) -> tuple[Subject, ...]:
    (subject,) = subjects_at_url(world, url, "")
    if log:
        subject = with_log(world, subject, log)
        subject = msgspec.structs.replace(subject, run=read_log(world, log).run)
    return (with_machine(subject, seen.machine),)


def _joined(seen: T, told: T) -> T:
    """What was seen, with what is known besides."""
    facts = {name: getattr(told, name) for name in told.__struct_fields__}
    known: dict[str, Any] = {name: fact for name, fact in facts.items() if isinstance(fact, Known)}
    groups = {name: _joined(getattr(seen, name), group) for name, group in facts.items() if isinstance(group, Facts)}
    return msgspec.structs.replace(seen, **known, **groups)
