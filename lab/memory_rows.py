"""Recorded allocations of llama.cpp, and what this program computes for the same settings."""

import atexit
import csv
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from unslow.catalog.models import find_model
from unslow.facts.model import Blueprint
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.system.live import LiveSystem
from unslow.think.blueprints import made_up
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import Need, memory_of

FOLDER = Path(__file__).parent / "data" / "memory"
MIB = 1024**2
TOLERANCE_MIB, TOLERANCE_SHARE = 32, 0.01
EXACT_MIB = 0.06
"""The rows are rounded to a thousandth of a MiB, each of six parts of them."""


class Row(NamedTuple):
    """What llama.cpp asked for: MiB of weights, cache and compute on each device and at the end on the host."""

    model: str
    """A recorded header, or `NAME@QUANT` of the catalogue."""
    settings: Settings
    free_mib: tuple[float, ...]
    truth: tuple[tuple[float, float, float], ...]

    def computed(self) -> list[Need]:
        """What this program says."""
        return memory_of(plan_of(self.model), self.settings, [f * MIB for f in self.free_mib]).needs

    def errors_mib(self) -> list[float]:
        """The difference of each part, in MiB."""
        pairs = zip(self.computed(), self.truth, strict=True)
        return [have / MIB - want for need, parts in pairs for have, want in zip(need, parts, strict=True)]


def is_within(row: Row, errors_mib: list[float]) -> bool:
    """Whether every device's sum is within 1 % or 32 MiB, whichever is larger."""
    sums = (sum(errors_mib[n : n + 3]) for n in range(0, len(errors_mib), 3))
    totals = (sum(parts) for parts in row.truth)
    return all(abs(e) <= max(TOLERANCE_MIB, TOLERANCE_SHARE * t) for e, t in zip(sums, totals, strict=True))


@cache
def plan_of(model: str) -> Blueprint:
    """The model of a row."""
    name, at, quant = model.partition("@")
    if at:
        return made_up(find_model(name), quant)
    return blueprint(read_gguf(LiveSystem(), str(header_path(model))))


def header_path(model: str) -> Path:
    """The file with a recorded model's header."""
    return _headers() / f"{model}.gguf-header"


@cache
def _headers() -> Path:
    """A folder with all recorded headers, which lie in one archive, as they are small and much alike."""
    folder = Path(tempfile.mkdtemp(prefix="unslow-headers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(FOLDER / "headers.tar.xz") as archive:
        for member in archive:
            if content := archive.extractfile(member):  # none for a folder
                (folder / Path(member.name).name).write_bytes(content.read())
    return folder


def rows(name: str) -> Iterator[Row]:
    """The rows of a file in the folder."""
    with (FOLDER / name).open(newline="") as file:
        for line in csv.DictReader(file):
            yield _row(line)


def _row(line: dict[str, str]) -> Row:
    free = tuple(float(f) for f in line.get("free_mib", "").split()) or (143_000.0,)
    host = str(len(free))
    settings = Settings(
        context=int(line["context"]),
        batch=int(line["batch"]),
        micro_batch=int(line["ubatch"]),
        slots=int(line["parallel"]),
        unified=line["kv_unified"] == "1",
        key_type=line["kv_type"].upper(),
        value_type=line["kv_type_v"].upper(),
        flash_attention={"on": True, "off": False}.get(line["flash_attention"]),
        outputs=int(line["outputs"]),
        gpu_layers=int(line["gpu_layers"]),
        cache_on_gpu=line["kv_offload"] == "1",
        offload_ops=line["op_offload"] == "1",
        full_windows=line["swa_full"] == "1",
        overrides=((line["override"], host),) if line["override"] else (),
        fuses=line.get("fuses") == "1",
    )
    places = [f"dev{n}" if len(free) > 1 else "dev" for n in range(len(free))]
    truth = tuple(
        (float(line[f"{p}_model_mib"]), float(line[f"{p}_context_mib"]), float(line[f"{p}_compute_mib"]))
        for p in (*places, "host")
    )
    return Row(line["model"], settings, free, truth)
