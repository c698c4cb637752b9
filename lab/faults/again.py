"""The recordings of an earlier run, judged by the causes as they are now: what was measured then stays."""

from pathlib import Path
from typing import Any

import msgspec
from lab.faults.diagnosing import Diagnosis, triaged
from lab.faults.every import every_fault
from lab.faults.fault import Fault
from lab.faults.keeping import LOG
from lab.faults.rows import Row, read_rows, row_of

from unslow.commands.diagnose.target import read_stored
from unslow.facts.errors import UserError
from unslow.look.system.recorded import is_recording
from unslow.think.judge.judge import diagnose


def judged_again(out: Path) -> list[Row]:
    """The rows with new diagnoses; those without a recording, or of a fault that is gone, stay as they are."""
    faults = {f"{where}_{fault.name}": fault for fault in every_fault() for where in fault.where}
    return [_again(row, faults.get(f"{row.where}_{row.name}"), out) for row in read_rows(out / "rows.jsonl")]


def _again(row: Row, fault: Fault | None, out: Path) -> Row:
    folder = out / f"{row.where}_{row.name}"
    if row.skipped or fault is None or not folder.is_dir():
        return row
    fresh = row_of(fault, row.where, _diagnosis(folder, row.diagnosis_s))
    for name in ("measured_before", "measured_after", "asked", "others_cpus"):
        setattr(fresh, name, getattr(row, name))
    if fresh.predicted_after and fresh.measured_after:
        fresh.error = fresh.predicted_after / fresh.measured_after - 1
    return fresh


def _diagnosis(folder: Path, seconds: float) -> Diagnosis:
    if not is_recording(folder) and not folder.name.startswith(("cpu_", "gpu_")) and (folder / LOG).is_file():
        return triaged(folder / LOG)  # a start that failed left only its log, and a folder of files is llama-server's
    try:
        report: dict[str, Any] = msgspec.to_builtins(diagnose(read_stored(str(folder))))
    except UserError as error:
        return Diagnosis({}, seconds, str(error))
    return Diagnosis(report["subjects"][0] if report["subjects"] else {}, seconds, "nothing runs there")
