"""The blocks of docs/explanation/flow.md: one line of a log at each of its steps, from a recorded diagnosis."""

import json
from pathlib import Path
from typing import Any

import msgspec

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import render
from unslow.commands.diagnose.target import read_stored
from unslow.think.judge.judge import diagnose

RECORDING = Path(__file__).parents[2] / "tests" / "machines" / "lab_gpu_device_none"
LINE = 7
"""Of the server's log: what is free on the GPU before the load."""
SOURCE, FIELD = f"server.log:{LINE}", "free_bytes"


def followed_line() -> dict[str, str]:
    """The line in the log, the fact in the snapshot, the evidence in the report, and what a terminal shows."""
    snapshot = read_stored(str(RECORDING))
    report = with_fix_commands(diagnose(snapshot), snapshot)
    facts = json.loads(msgspec.json.encode(snapshot))
    path, fact = next((path, fact) for path, fact in _facts_from_the_line(facts) if path.endswith(FIELD))
    finding = report.subjects[0].findings[0]
    cited = next(one for one in finding.evidence if one.source == SOURCE)
    shown = render(report, "terminal", width=118, color=False)
    summary, causes = shown.split("\n\n")[1:3]
    seen = next(line for line in causes.splitlines() if SOURCE in line)
    return {
        "log line": log_line(),
        "fact": f"{path}\n{json.dumps(fact, indent=2)}",
        "evidence": json.dumps(msgspec.to_builtins(cited), indent=2),
        "shown": f"{summary}\n...\n{seen}",
    }


def log_line() -> str:
    """The line as the server wrote it."""
    entries = map(json.loads, (RECORDING / "recording.jsonl").read_text("utf-8").splitlines())
    log = next(str(entry["answer"]) for entry in entries if entry["question"].endswith("/server.log"))
    return log.split("\n")[LINE - 1]


def _facts_from_the_line(part: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, part)] if isinstance(part, dict) and part.get("source") == SOURCE else []
    named = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, below in named:
        found += _facts_from_the_line(below, f"{path}.{name}".removeprefix("."))
    return found
