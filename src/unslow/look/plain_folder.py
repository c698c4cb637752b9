"""A folder of raw evidence: a server's log and answers, nvidia-smi's tables, timings of a few requests."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import msgspec

from unslow import __version__
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Gpu, GpuProcess, Load, Machine
from unslow.facts.merge import overlaid
from unslow.facts.run import Completion, GpuUnderLoad, Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import (
    MIB,
    NOT_LOOKED,
    Amount,
    Count,
    Fact,
    Known,
    Origin,
    Unknown,
    estimated_fact,
    failed_fact,
    first_known,
    measured_fact,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.completion_summary import median_fact, run_of_completions
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.logs import linux
from unslow.look.logs.gpu_facts import reason_facts
from unslow.look.logs.llama_cpp import LlamaLog
from unslow.look.logs.nvidia_smi import parse_gpus
from unslow.look.logs.nvidia_smi_rows import Row, gpus_of_rows, parse_compute_apps, parse_rows, summarise_series
from unslow.look.running_server import parse_status
from unslow.look.runtimes._gguf_answers import Answers, subject_of
from unslow.look.runtimes._gguf_process import read_log
from unslow.look.runtimes._gguf_server import requested_settings, settled_subject
from unslow.look.system import LookError, System, unknown
from unslow.look.system.live import LiveSystem

_NAMES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
MOST_PROCESSES = 64
MORE_LISTED, UNLISTED = 64 * MIB, 1024 * MIB
"""Bytes by which processes may exceed what is in use, as both are read apart, and what a driver and a display take."""

DESCRIPTION = "nvidia_smi_q.txt"
SERIES = "nvidia_smi_query.csv"
PROCESSES = "nvidia_smi_compute_apps.csv"
# what the description says of these was true with nothing loaded, and is false under load
_IDLE = ("vram_used_bytes", "vram_free_bytes", "busy", "memory_busy", "clock_hz", "memory_clock_hz", "temperature_c",
         "memory_temperature_c", "temperature_margin_c", "power_w", "event_reasons", "event_reason_bits", "processes",
         "performance_state", "pcie_transmit_bytes_per_s", "pcie_receive_bytes_per_s")  # fmt: skip

RUN_FILE = "run.json"

LARGEST_FILE_BYTES = 16 * 1024**2
_ANSWERS = {"props": "props.json", "models": "models.json", "slots": "slots.json", "metrics": "metrics.txt"}


class Timings(msgspec.Struct, frozen=True):
    """The `timings` of one answer of llama-server."""

    predicted_n: Count
    predicted_ms: Amount
    prompt_n: Count = 0
    prompt_ms: Amount = 0.0
    cache_n: Count = 0


class RunFile(msgspec.Struct, frozen=True):
    """What whoever recorded the folder wrote down; the lists have one entry for each run."""

    args: list[str] = []
    env: dict[str, str] = {}
    ok: bool | None = None
    rc: int | None = None
    load_s: Amount | None = None
    loadavg: str | None = None
    runs: list[Timings] = []
    run_delay_s: list[Amount | None] = []
    server_cpu_s: list[Amount | None] = []
    machine_busy_s: list[Amount | None] = []


def is_plain_folder(path: Path) -> bool:
    """Whether the folder holds at least a server's log or the record of a run."""
    return any((path / name).is_file() for name in ("server.log", "run.json"))


def read_plain_folder(path: Path) -> Snapshot:
    """The snapshot that the files amount to; a missing or broken file costs its own facts only."""
    folder = _Folder(LiveSystem(), path)
    raw = folder.json(RUN_FILE)
    try:
        run = raw if isinstance(raw, Unknown) else msgspec.convert(raw, RunFile)
    except (msgspec.ValidationError, OverflowError) as error:  # a field of a wrong type is the user's to repair
        hint = "see the recorded machines for the form of this file"
        raise UserError(f"{path / RUN_FILE}: {error}", hint) from error
    status = parse_status(folder.text("proc_status.txt").value_or(""), "proc_status.txt")
    machine, subject = _machine(folder, run, status), _subject(folder, run, status)
    return Snapshot(unslow_version=__version__, machine=machine, subjects=(subject,))


class _Folder:
    """Bounded reading of the files; what cannot be read is unknown."""

    def __init__(self, system: System, path: Path) -> None:
        self.system, self.path = system, path

    def text(self, name: str) -> Fact[str]:
        try:
            data = self.system.read_head(str(self.path / name), LARGEST_FILE_BYTES)
        except LookError as error:
            return Unknown(f"{name}: {error.why.rpartition(': ')[2]}", absence=error.absence)
        return reported_fact(data.decode("utf-8", "replace"), name)

    def json(self, name: str) -> Any:
        text = self.text(name)
        if isinstance(text, Unknown):
            return text
        try:
            return msgspec.json.decode(text.value)
        except (msgspec.MsgspecError, RecursionError) as error:
            return failed_fact(f"{name} is not JSON: {error}")

    @cached_property
    def log(self) -> LlamaLog | Unknown:
        try:
            return read_log(self.system, str(self.path / "server.log"))
        except LookError as error:
            return unknown(error)


def _machine(folder: _Folder, run: RunFile | Unknown, status: dict[str, Fact[Any]]) -> Machine:
    text = folder.text("machine.txt").value_or("")
    printed = folder.log.machine if isinstance(folder.log, LlamaLog) else Machine()  # the least that anybody says of it
    unlisted = msgspec.structs.replace(printed, gpus=NOT_LOOKED)
    machine = overlaid(unlisted, linux.parse_lscpu_machine(text, "machine.txt"))
    machine = overlaid(machine, Machine(memory=linux.parse_free(text, "machine.txt")))
    description, series, apps = (folder.text(name) for name in (DESCRIPTION, SERIES, PROCESSES))
    average: Fact[float] = Unknown("no load average was recorded")
    recorded = run.loadavg or "" if isinstance(run, RunFile) else ""
    with suppress(ValueError, IndexError):
        value = float((recorded.split() or folder.text("loadavg.txt").value_or("").split())[0])
        known = 0 <= value < 1e6  # noqa: PLR2004 (no machine has more to do)
        average = reported_fact(value, "loadavg.txt") if known else failed_fact("loadavg.txt holds no load average")
    seen = Machine(
        cpu=Cpu(allowed_cpus=status["Cpus_allowed_list"]),
        load=Load(average_1min=average),
        gpus=first_known(gpus_under_load(description, series, apps, text), printed.gpus),
    )
    return overlaid(machine, seen)


def gpus_under_load(description: Fact[str], series: Fact[str], apps: Fact[str], machine: str) -> Fact[tuple[Gpu, ...]]:
    """Every GPU that any of the files tells of; machine.txt stands in where nvidia-smi was not asked in full."""
    rows = parse_rows(series.value_or(""))
    described = parse_gpus(description.value_or("")) or parse_gpus(machine) or gpus_of_rows(rows, SERIES)
    if not described:
        return not_found("no file in this folder describes a GPU")
    of_each = numbered_rows(rows, len(described))
    loaded = {summary.index: summary for summary in summarise_series(of_each, source=SERIES)}
    found = [loaded.get(gpu.index) for gpu in described]
    idle = dict.fromkeys(_IDLE, not_found(f"{DESCRIPTION} was taken with nothing loaded"))
    gpus = []
    for gpu, summary, processes in zip(described, found, _processes(apps, found), strict=True):
        under_load = msgspec.structs.replace(gpu, **{**idle, "processes": processes})
        gpus.append(overlaid(under_load, _gpu_of_series(under_load, summary)) if summary else under_load)
    return reported_fact(tuple(gpus), f"{DESCRIPTION}, {SERIES}")


def _gpu_of_series(gpu: Gpu, summary: GpuUnderLoad) -> Gpu:
    used = summary.vram_used_max_bytes
    free: Fact[int] = not_found(f"{SERIES} does not show the memory in use")
    if isinstance(used, Known) and isinstance(gpu.vram_total_bytes, Known):
        # the driver's own reserve is neither free nor in use
        left = max(0, gpu.vram_total_bytes.value - gpu.vram_reserved_bytes.value_or(0) - used.value)
        free = estimated_fact(left, f"{DESCRIPTION}: total less reserved, less the most used in {SERIES}")
    facts: dict[str, Fact[Any]] = {
        "busy": summary.busy,
        "memory_busy": summary.memory_busy,
        "clock_hz": summary.clock_hz,
        "temperature_c": summary.temperature_max_c,
        "power_w": summary.power_max_w,
        "pcie_generation": summary.pcie_generation_max_seen,
        "pcie_width": summary.pcie_width_max_seen,
        "vram_used_bytes": used,
        "vram_free_bytes": free,
    }
    if isinstance(summary.event_reasons, Known):
        facts |= reason_facts(summary.event_reasons.value, SERIES)
    return Gpu(index=gpu.index, **facts)


def _processes(processes: Fact[str], loaded: Sequence[GpuUnderLoad | None]) -> list[Fact[Any]]:
    """The processes of each GPU; the table does not say on which of several they are, but their memory can."""
    listed = processes if isinstance(processes, Unknown) else parse_compute_apps(processes.value)
    if isinstance(listed, Unknown) or len(loaded) == 1:
        return [listed] * len(loaded)
    used = [summary.vram_used_max_bytes.value_or(None) if summary else None for summary in loaded]
    known = [size for size in used if size is not None]
    shared = processes_by_gpu(listed.value, known) if len(known) == len(used) else None
    if shared is None:
        return [not_supported(f"{PROCESSES} does not say on which GPU a process is")] * len(loaded)
    return [reported_fact(each, f"{PROCESSES}, by the memory in use in {SERIES}") for each in shared]


def processes_by_gpu(processes: Sequence[GpuProcess], used: Sequence[int]) -> list[list[GpuProcess]] | None:
    """The processes of each GPU, by what is in use on each; None where no way to share them out fits."""
    sizes = [p.vram_bytes.value if isinstance(p.vram_bytes, Known) else None for p in processes]
    if len(processes) > MOST_PROCESSES or None in sizes:
        return None
    pids = [p.pid for p in processes]

    @cache
    def best(first: int, gpu: int) -> tuple[float, tuple[int, ...]]:
        """How far the rest is off at least, and where the part of each GPU from this one on ends."""
        if gpu == len(used):
            return (0.0 if first == len(pids) else float("inf")), ()
        ways = [(float("inf"), (len(pids),) * (len(used) - gpu))]
        for end in range(first, len(pids) + 1):
            if len(set(pids[first:end])) < end - first:
                break  # a process is listed once for each GPU
            apart = used[gpu] - sum(size or 0 for size in sizes[first:end])
            if -MORE_LISTED <= apart <= UNLISTED:
                after, ends = best(end, gpu + 1)
                ways.append((abs(apart) + after, (end, *ends)))
        return min(ways)

    off, ends = best(0, 0)
    if off == float("inf"):
        return None
    starts = (0, *ends[:-1])
    return [list(processes[start:end]) for start, end in zip(starts, ends, strict=True)]


def numbered_rows(rows: Sequence[Row], gpus: int) -> list[Row]:
    """The rows of a series with the number of their GPU, where several take turns and no column names them.

    nvidia-smi goes through the GPUs in their order, at every sample and for processes alike.
    """
    if gpus < 2 or len(rows) < gpus or any(name in rows[0] for name in _NAMES):  # noqa: PLR2004 (several)
        return list(rows)
    whole = len(rows) - len(rows) % gpus  # the last sample may have been cut
    return [{**row, "index": str(number % gpus)} for number, row in enumerate(rows[:whole])]


def _subject(folder: _Folder, run: RunFile | Unknown, status: dict[str, Fact[Any]]) -> Subject:
    log = folder.log
    seen = Subject() if isinstance(log, Unknown) else Subject(runtime=log.runtime, model=log.model)
    if isinstance(run, RunFile):
        asked = requested_settings(parse_settings(["llama-server", *run.args], run.env), complete=True)
        names = (SERIES, DESCRIPTION, "machine.txt")
        series, description, machine = (folder.text(name).value_or("") for name in names)
        gpus = parse_gpus(description) or parse_gpus(machine)
        timed = run_of_file(run, series, log.run.load_s if isinstance(log, LlamaLog) else log, len(gpus))
    else:
        asked = Runtime()
        timed = log.run if isinstance(log, LlamaLog) else Run(completions=run, decode_tokens_per_s=run)
    props, models, slots = (folder.json(_ANSWERS[name]) for name in ("props", "models", "slots"))
    metrics: Any = folder.text(_ANSWERS["metrics"])
    metrics = metrics.value if isinstance(metrics, Known) else metrics
    health = Unknown("the folder holds no answer of /health")
    answers = subject_of(Answers(health, props, models, slots, metrics), {**_ANSWERS, "health": "the folder"})
    subject = settled_subject(asked, answers, seen)
    # How the start ended, by the one who started it, unless it ended after it had loaded; else by the server itself
    state: Fact[Any] = first_known(subject.runtime.state)
    if isinstance(run, RunFile) and run.ok is not None and (run.ok or state.value_or("") != "loaded"):
        state = reported_fact("loaded" if run.ok else "failed", RUN_FILE)
    own = Runtime().with_facts(
        name=reported_fact("llama.cpp", RUN_FILE if isinstance(run, RunFile) else "server.log"),
        command=reported_fact(["llama-server", *run.args], RUN_FILE) if isinstance(run, RunFile) else run,
        environment=reported_fact(run.env, RUN_FILE) if isinstance(run, RunFile) else run,
        pid=status["Pid"],
        resident_bytes=status["VmRSS"],
        log_path=reported_fact("server.log", "server.log") if isinstance(log, LlamaLog) else log,
        state=state,
    )
    return Subject(runtime=overlaid(subject.runtime, own), model=subject.model, run=timed)


def run_of_file(file: RunFile, series: str, log_load_s: Fact[float], gpus_described: int) -> Run:
    """Medians over the runs, what the processors did meanwhile, and the GPUs while the model was loaded."""
    load_s = log_load_s if file.load_s is None or file.ok is False else measured_fact(file.load_s, RUN_FILE)
    if not file.runs:
        why = not_found(f"{RUN_FILE} holds no run")
        return Run(completions=why, decode_tokens_per_s=why, prefill_tokens_per_s=why, load_s=load_s)
    done = tuple(
        Completion(
            prompt_tokens=timings.prompt_n,
            cached_tokens=timings.cache_n,
            generated_tokens=timings.predicted_n,
            prefill_s=timings.prompt_ms / 1e3,
            decode_s=timings.predicted_ms / 1e3,
            waited_s=waited_s,
        )
        for timings, waited_s in zip(file.runs, chain(file.run_delay_s, repeat(None)), strict=False)
    )
    gpus = summarise_series(numbered_rows(parse_rows(series), gpus_described), source=SERIES)
    # What the rest of the machine used: all but the server's own
    pairs = zip(file.machine_busy_s, file.server_cpu_s, strict=False)
    others = _shares(done, [None if busy is None or own is None else max(0.0, busy - own) for busy, own in pairs])
    return msgspec.structs.replace(
        run_of_completions(measured_fact(done, RUN_FILE), load_s),
        own_cpus=median_fact(_shares(done, file.server_cpu_s), Origin.MEASURED, RUN_FILE),
        others_cpus=median_fact(others, Origin.MEASURED, RUN_FILE),
        gpus=measured_fact(gpus, SERIES) if gpus else NOT_LOOKED,
    )


def _shares(done: Sequence[Completion], cpu_s: Sequence[float | None]) -> list[float]:
    """CPU seconds for each second of a run."""
    pairs = ((cpu, run.prefill_s + run.decode_s) for cpu, run in zip(cpu_s, done, strict=False))
    return [cpu / seconds for cpu, seconds in pairs if cpu is not None and seconds > 0]
