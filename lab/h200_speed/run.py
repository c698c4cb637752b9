"""Measure a plan on the machine with the GPU, one line for each figure, as soon as it is there.

    PYTHONPATH=src python -m lab.h200_speed.run PLAN.toml --programs DIR --models /dev/shm --out OUT.jsonl --seconds 580

Models are made up ahead by a few processes while others are measured, and deleted after their last run. Where the time
ends before the plan does, the last runs are left out; with --go-on, those that OUT already holds are left out too.
"""

import argparse
import json
import re
import select
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from lab.h200_speed.ahead import Ahead
from lab.h200_speed.models import described, named
from lab.h200_speed.plan import Run, command, environment, read_plan

LEAST_S = 6  # what any run needs
READY_S = 45
WATCH_AFTER_S = 4.0
_PRIVATE = re.compile(r"(GPU-[0-9a-f-]{36}|(?<=Serial Number)\s*:.*|(?<=PDI)\s*:.*|(?<=UUID)\s*:.*)")
_ELSEWHERE = ("name", "section", "model", "timeout_s", "watch", "early")
_DULL = {
    "model_filename", "cpu_mask", "cpu_strict", "split_mode", "main_gpu", "devices", "tensor_split", "fit_target",
    "fit_min_ctx", "embeddings", "tensor_buft_overrides", "model_n_params", "test_time",
}  # fmt: skip


class Sheet:
    """The file of results."""

    def __init__(self, path: Path, *, go_on: bool) -> None:
        self.done = {json.loads(line)["run"] for line in _lines(path)} if go_on else set[str]()
        self._file = path.open("a" if go_on else "w")

    def write(self, run: Run, rows: Iterable[dict[str, Any]], wall_s: float, note: str) -> None:
        """Each row with what it is a measurement of; a run without rows says why."""
        about = _about(run)
        for row in list(rows) or [{"failed": note}]:
            self._file.write(json.dumps({**about, "wall_s": round(wall_s, 2), **row}) + "\n")
        self._file.flush()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _about(run: Run) -> dict[str, Any]:
    given = {key: value for key, value in msgspec.to_builtins(run).items() if key not in _ELSEWHERE}
    model = described(named(run.model)) if run.needs_file else run.model
    return {"run": run.name, "section": run.section, "model": model, "asked": given}


def measure(run: Run, ready: "subprocess.Popen[str] | None", words: list[str], limit_s: float) -> tuple[str, str]:
    """What the program printed and why it ended too early, if it did."""
    started = ready or start(run, words)
    watched = ""
    try:
        if run.watch:
            time.sleep(WATCH_AFTER_S)
            watched = _watched()
        out, err = started.communicate("go\n" if ready else None, timeout=limit_s)
    except subprocess.TimeoutExpired:
        started.kill()
        out, err = started.communicate()
        err += f"\nstopped after {limit_s:.0f} s"
    return out + watched, err[-600:]


def start(run: Run, words: list[str]) -> "subprocess.Popen[str]":
    """The program, waiting for a word where it is started early."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words,
        stdin=pipe if run.early else subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment(run),
    )


def _until_ready(programs: Path, early: Iterable["subprocess.Popen[str]"]) -> None:
    """Nothing is measured while others still build their models, or programs are unpacked."""
    until = time.monotonic() + READY_S
    while not programs.exists() and time.monotonic() < until:
        time.sleep(0.1)
    for process in early:
        if process.stdout and select.select([process.stdout], [], [], READY_S)[0]:
            process.stdout.readline()


def _watched() -> str:
    asked = ["nvidia-smi", "-q", "-d", "CLOCK,POWER,TEMPERATURE,PERFORMANCE,UTILIZATION,MEMORY"]
    try:
        text = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False).stdout
    except OSError:
        return ""
    return json.dumps({"nvidia_smi": _PRIVATE.sub(" : masked", text)}) + "\n"


def parsed(text: str) -> Iterator[dict[str, Any]]:
    """The rows among what was printed."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            yield {key: value for key, value in row.items() if key not in _DULL}


class Session:
    """The runs of one call, within its time."""

    def __init__(self, runs: list[Run], sheet: Sheet, asked: argparse.Namespace) -> None:
        self._runs, self._sheet, self._programs = runs, sheet, asked.programs
        self._began = time.monotonic()
        self._seconds: float = asked.seconds
        self._ahead = Ahead([run.model for run in runs if run.needs_file], asked.models, asked)
        self._early = {run.name: start(run, command(run, asked.programs, Path())) for run in runs if run.early}

    def measure_all(self) -> None:
        """Every run for which there is time."""
        _until_ready(self._programs, self._early.values())
        for run in self._runs:
            if self._left_s() < LEAST_S or not self._has_model(run):
                print(f"left out: {run.name}", flush=True)
            else:
                self._measure(run)
        self._ahead.stop()
        for process in self._early.values():
            process.kill()

    def _left_s(self) -> float:
        return self._seconds - (time.monotonic() - self._began)

    def _has_model(self, run: Run) -> bool:
        return not run.needs_file or self._ahead.wait(run.model, self._left_s() - LEAST_S)

    def _measure(self, run: Run) -> None:
        if run.quiet:
            self._ahead.pause()
        at = time.monotonic()
        words = command(run, self._programs, self._ahead.path(run.model))
        out, note = measure(run, self._early.pop(run.name, None), words, min(run.timeout_s, max(1.0, self._left_s())))
        rows, took_s = [*parsed(out)], time.monotonic() - at
        self._sheet.write(run, rows, took_s, note)
        _tell(run, rows, at - self._began, took_s, note)
        self._ahead.go_on()
        if run.needs_file:
            self._ahead.used(run.model)


def main() -> None:
    """Run the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--most-gb", type=float, default=75, help="of models at a time")
    parser.add_argument("--makers", type=int, default=5)
    parser.add_argument("--go-on", action="store_true")
    asked = parser.parse_args()
    sheet = Sheet(asked.out, go_on=asked.go_on)
    runs = [run for run in read_plan(asked.plan).runs if run.name not in sheet.done]
    Session(runs, sheet, asked).measure_all()


def _tell(run: Run, rows: list[dict[str, Any]], at_s: float, took_s: float, note: str) -> None:
    figures = [f"{row.get('avg_ts') or row.get('speed_tg') or row.get('value') or 0:.1f}" for row in rows]
    print(f"[{at_s:.0f}s +{took_s:.1f}] {run.name}: {' '.join(figures) or note}", flush=True)


if __name__ == "__main__":
    main()
