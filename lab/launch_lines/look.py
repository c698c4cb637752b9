"""One line after the other: started, read, compared, printed, and recorded for the tests."""

import json
from pathlib import Path
from typing import Any

import msgspec
from lab.launch_lines.lines import Line
from lab.launch_lines.servers import Started, load_in_router, read_line, started
from lab.launch_lines.truth import compared, truth_of

from unslow.facts.snapshot import Subject
from unslow.look.engine import engine_version, start_engine
from unslow.look.runtimes import llama_cpp
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import INDEX, Recorder


def record(folder: Path, line: Line, running: Started, model: str) -> Subject:
    """Read through a recorder; what a container's control group is called is nobody's business."""
    recorder = Recorder(LiveSystem(), folder)
    try:
        subject = read_line(recorder, running, line, model)
    finally:
        recorder.close()
    entries = [msgspec.json.decode(row) for row in (folder / INDEX).read_bytes().splitlines()]
    for entry in entries:
        if entry["question"].endswith("/cgroup"):
            entry["answer"] = "0::/\n"
    (folder / INDEX).write_bytes(b"\n".join(msgspec.json.encode(entry) for entry in entries) + b"\n")
    return subject


def look_at(server: str, model: str, line: Line, folder: Path, records: Path | None) -> bool:
    """Print the rows of one line, and what contradicts; whether no fact is wrong."""
    with started(server, line, model, folder) as running:
        place = records / line.name if records else None
        live = LiveSystem()
        subject = record(place, line, running, model) if place else read_line(live, running, line, model)
    with started(server, line, model, folder, "-lv 4") as running:
        if line.name.startswith("router"):
            load_in_router(running.url, Path(model).stem)
        truth = truth_of(running.log.read_text(errors="replace")) | line.settings
    good = _print(f"{line.name}: {line.flags} {line.environment or ''}", subject, truth)
    for contradiction in subject.contradictions:
        print(f"  contradiction: {contradiction}")
    if place:
        kept = {"pid": subject.runtime.process.pid.need(), "truth": truth}
        (place / "truth.json").write_text(json.dumps(kept, indent=1) + "\n")
    return good


def look_at_embedded(model: str) -> bool:
    """The same for the engine that comes with unslow, which always tells what it decided."""
    system = LiveSystem()
    with start_engine(system, model, context=2048, threads=1) as engine:
        subject = llama_cpp.read_embedded(
            system, engine.url, engine.pid, engine_version(), engine.log_path, str(Path(model).resolve())
        )
        truth = truth_of(Path(engine.log_path).read_text(errors="replace"))
    return _print("embedded: the engine of unslow, 2048 tokens, one thread", subject, truth)


def _print(title: str, subject: Subject, truth: dict[str, Any]) -> bool:
    """A row for each fact; whether none is wrong."""
    rows = compared(subject.runtime, truth)
    print(f"\n{title}")
    for name, value, source, verdict in rows:
        print(f"  {name:18} {value:12} {verdict:10} {source}")
    return not any(verdict.startswith("WRONG") for *_, verdict in rows)
