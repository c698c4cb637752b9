"""The files of a plain folder, put together into a snapshot."""

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from unslow import __version__
from unslow.facts.machine import Cpu, Load, Machine
from unslow.facts.merge import overlaid
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, failed, first_known, reported
from unslow.look.llama_server.answers import subject_of
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.llama_server.http import Answers
from unslow.look.llama_server.log_file import read_log
from unslow.look.llama_server.process import parse_status
from unslow.look.llama_server.settle import settled
from unslow.look.llama_server.told import told
from unslow.look.logs import free, lscpu
from unslow.look.logs.llama_cpp import LlamaLog, run_of_log
from unslow.look.plain_folder.gpus import DESCRIPTION, gpus_described, gpus_under_load
from unslow.look.plain_folder.run_file import RunFile, parse_run_file, run_of_file
from unslow.look.system import LookError, System, unknown
from unslow.look.system.live import LiveSystem

LARGEST_FILE_BYTES = 16 * 1024**2
_SURE_SIGNS = ("server.log", "run.json")
_ANSWERS = {"props": "props.json", "models": "models.json", "slots": "slots.json", "metrics": "metrics.txt"}


def is_plain_folder(path: Path) -> bool:
    """Whether the folder holds at least a server's log or the record of a run."""
    return any((path / name).is_file() for name in _SURE_SIGNS)


def read_plain_folder(path: Path, system: System | None = None) -> Snapshot:
    """The snapshot that the files amount to; a missing or broken file costs its own facts only."""
    folder = _Folder(system or LiveSystem(), path)
    run = parse_run_file(folder.json("run.json"), str(path / "run.json"))
    status = parse_status(folder.text("proc_status.txt").value_or(""), "proc_status.txt")
    return Snapshot(
        unslow_version=__version__, machine=_machine(folder, run, status), subjects=(_subject(folder, run, status),)
    )


class _Folder:
    """Bounded reading of the files; what can't be read is unknown."""

    def __init__(self, system: System, path: Path) -> None:
        self.system = system
        self.path = path

    def text(self, name: str) -> Fact[str]:
        try:
            data = self.system.read_head(str(self.path / name), LARGEST_FILE_BYTES)
        except LookError as error:
            return Unknown(f"{name}: {error.why.rpartition(': ')[2]}", absence=error.absence)
        return reported(data.decode("utf-8", "replace"), name)

    def json(self, name: str) -> Any:
        """The decoded file, or Unknown."""
        text = self.text(name)
        if isinstance(text, Unknown):
            return text
        try:
            return msgspec.json.decode(text.value)
        except (msgspec.MsgspecError, RecursionError) as error:
            return failed(f"{name} is not JSON: {error}")

    @cached_property
    def log(self) -> LlamaLog | Unknown:
        """What the server's log tells."""
        try:
            return read_log(self.system, str(self.path / "server.log"))
        except LookError as error:
            return unknown(error)


def _machine(folder: _Folder, run: RunFile | Unknown, status: dict[str, Fact[Any]]) -> Machine:
    described = folder.text("machine.txt")
    text = described.value_or("")
    printed = folder.log.machine if isinstance(folder.log, LlamaLog) else Machine()  # the least that anybody says of it
    unlisted = msgspec.structs.replace(printed, gpus=NOT_LOOKED)
    machine = overlaid(unlisted, lscpu.parse_machine(text, "machine.txt"))
    machine = overlaid(machine, Machine(memory=free.parse_memory(text, "machine.txt")))
    texts = {name: folder.text(f"nvidia_smi_{name}") for name in ("q.txt", "query.csv", "compute_apps.csv")}
    seen = Machine(
        cpu=Cpu(allowed_cpus=status["Cpus_allowed_list"]),
        load=Load(average_1min=_load_average(folder, run)),
        gpus=first_known(
            gpus_under_load(texts["q.txt"], texts["query.csv"], texts["compute_apps.csv"], text), printed.gpus
        ),
    )
    return overlaid(machine, seen)


def _load_average(folder: _Folder, run: RunFile | Unknown) -> Fact[float]:
    loadavg = folder.text("loadavg.txt")
    words = (run.loadavg or "" if isinstance(run, RunFile) else "").split() or loadavg.value_or("").split()
    try:
        value = float(words[0])
    except (ValueError, IndexError):
        return Unknown("no load average was recorded")
    return reported(value, "loadavg.txt") if 0 <= value < 1e6 else failed("loadavg.txt holds no load average")  # noqa: PLR2004


def _subject(folder: _Folder, run: RunFile | Unknown, status: dict[str, Fact[Any]]) -> Subject:
    log = folder.log
    seen = Subject() if isinstance(log, Unknown) else Subject(runtime=log.runtime, model=log.model)
    asked, command = _asked(run)
    subject = settled(asked, _answers(folder), seen)
    own = Runtime(
        name=reported("llama.cpp", "run.json" if isinstance(run, RunFile) else "server.log"),
        command=command,
        environment=reported(run.env, "run.json") if isinstance(run, RunFile) else run,
        pid=status["Pid"],
        resident_bytes=status["VmRSS"],
        log_path=reported("server.log", "server.log") if isinstance(log, LlamaLog) else log,
        state=_state(run, subject.runtime),
    )
    return Subject(runtime=overlaid(subject.runtime, own), model=subject.model, run=_run(folder, run, log))


def _run(folder: _Folder, run: RunFile | Unknown, log: LlamaLog | Unknown) -> Run:
    """The recorded requests; without a record, those that the log timed."""
    if isinstance(run, RunFile):
        series = folder.text("nvidia_smi_query.csv").value_or("")
        gpus = gpus_described(folder.text(DESCRIPTION), folder.text("machine.txt").value_or(""))
        return run_of_file(run, series, log if isinstance(log, Unknown) else log.load_s, gpus)
    return Run(completions=run, decode_tokens_per_s=run) if isinstance(log, Unknown) else run_of_log(log)


def _asked(run: RunFile | Unknown) -> tuple[Runtime, Fact[list[str]]]:
    if isinstance(run, Unknown):
        return Runtime(), run
    command = ["llama-server", *run.args]
    return told(parse_settings(command, run.env), complete=True), reported(command, "run.json")


def _answers(folder: _Folder) -> Subject:
    props, models, slots = (folder.json(_ANSWERS[name]) for name in ("props", "models", "slots"))
    metrics: Any = folder.text(_ANSWERS["metrics"])
    metrics = metrics.value if isinstance(metrics, Known) else metrics
    health = Unknown("the folder holds no answer of /health")
    return subject_of(Answers(health, props, models, slots, metrics), {**_ANSWERS, "health": "the folder"})


def _state(run: RunFile | Unknown, runtime: Runtime) -> Fact[Any]:
    """How the start ended, by the one who started it; else by the server itself."""
    if isinstance(run, RunFile) and run.ok is False and runtime.state.value_or("") == "loaded":
        return runtime.state  # it ended after it had loaded
    if isinstance(run, RunFile) and run.ok is not None:
        return reported("loaded" if run.ok else "failed", "run.json")
    return first_known(runtime.state)
