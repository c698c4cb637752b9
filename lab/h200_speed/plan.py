"""A plan of runs: what each one loads and how, in the words of a TOML file, and the command that does it."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

Numbers = int | list[int]

_FLAGS = {
    "prompt": "-p", "generate": "-n", "depth": "-d", "micro_batch": "-ub", "gpu_layers": "-ngl", "cpu_moe": "-ncmoe",
    "threads": "-t", "flash": "-fa", "repeat": "-r",
}  # fmt: skip


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One start of one program; lists are measured one after the other, each with each."""

    name: str
    section: str = ""
    model: str = ""
    """STEM@QUANT of the catalogue; the dtype in place of the quant where Transformers runs it."""
    runtime: str = "llama.cpp"
    """Or transformers, or a script of this folder: micro, link."""
    prompt: Numbers = 0
    generate: Numbers = 64
    depth: Numbers = 0
    sequences: Numbers = 0
    """How many are generated at once (llama-batched-bench), from `prompt` tokens each."""
    micro_batch: Numbers = 512
    kv: str = "f16"
    flash: Numbers = 1
    gpu_layers: Numbers = 99
    cpu_moe: Numbers = 0
    threads: Numbers = 16
    load: str = "auto"
    graphs: bool = True
    cpu_only: bool = False
    """Without a GPU in sight."""
    repeat: int = 3
    quiet: bool = False
    """Nothing else may run on the host meanwhile."""
    watch: bool = False
    """Whether clocks and power are noted while it runs."""
    timeout_s: int = 60
    early: bool = False
    """Whether it may start at once, to be ready when its turn comes (Transformers, which loads slowly)."""

    @property
    def needs_file(self) -> bool:
        """Whether its model must lie on disk."""
        return self.runtime == "llama.cpp"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All runs in the order in which they matter."""

    runs: list[Run]
    about: str = ""


def read_plan(path: Path) -> Plan:
    """The plan of a file."""
    return msgspec.convert(tomllib.loads(path.read_text()), Plan)


def command(run: Run, programs: Path, file: Path) -> list[str]:
    """What to start."""
    if run.runtime == "transformers":
        return [sys.executable, "-m", "lab.h200_speed.eager", msgspec.json.encode(run).decode()]
    if run.runtime != "llama.cpp":
        return [sys.executable, "-m", f"lab.h200_speed.{run.runtime}"]
    return _batched(run, programs, file) if run.sequences else _alone(run, programs, file)


def environment(run: Run) -> dict[str, str]:
    """What the program finds around it."""
    added = {} if run.graphs else {"GGML_CUDA_DISABLE_GRAPHS": "1"}
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if run.cpu_only else {}
    return {**os.environ, **added, **hidden}


def _alone(run: Run, programs: Path, file: Path) -> list[str]:
    flags = [word for field, flag in _FLAGS.items() for word in (flag, _listed(getattr(run, field)))]
    batch = str(max(2048, *_many(run.micro_batch)))
    return [
        str(programs / "llama-bench"), "-m", str(file), *flags, "-b", batch, "-ctk", run.kv, "-ctv", run.kv,
        "-lm", run.load, "-o", "jsonl",
    ]  # fmt: skip


def _batched(run: Run, programs: Path, file: Path) -> list[str]:
    """Every number of sequences twice: the first round warms up."""
    rounds = _listed(_many(run.sequences) * 2)
    context = max(_many(run.sequences)) * (max(_many(run.prompt)) + max(_many(run.generate)))
    return [
        str(programs / "llama-batched-bench"), "-m", str(file), "-c", str(context), "-b", "2048",
        "-npp", _listed(run.prompt), "-ntg", _listed(run.generate), "-npl", rounds, "-ub", _listed(run.micro_batch),
        "-ngl", _listed(run.gpu_layers), "-t", _listed(run.threads), "-fa", "on" if run.flash else "off",
        "-ctk", run.kv, "-ctv", run.kv, "--output-format", "jsonl",
    ]  # fmt: skip


def _listed(value: Any) -> str:
    return ",".join(str(one) for one in _many(value))


def _many(value: Any) -> list[int]:
    return value if isinstance(value, list) else [value]
