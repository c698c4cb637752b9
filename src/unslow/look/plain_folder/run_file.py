"""run.json: how the server was started, how long it took, and the timings of its requests."""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.errors import UserError
from unslow.facts.run import Completion, Run
from unslow.facts.values import NOT_LOOKED, Amount, Count, Fact, Origin, Unknown, measured, not_found
from unslow.look.logs.llama_cpp.run import median, run_of
from unslow.look.logs.nvidia_smi_csv import parse_rows
from unslow.look.logs.nvidia_smi_series import summarise_series
from unslow.look.plain_folder.several_gpus import numbered

SOURCE = "run.json"
SERIES = "nvidia_smi_query.csv"


class Timings(msgspec.Struct, frozen=True):
    """The `timings` of one answer of llama-server."""

    predicted_n: Count
    predicted_ms: Amount
    prompt_n: Count = 0
    prompt_ms: Amount = 0.0
    cache_n: Count = 0

    def completion(self, waited_s: float | None) -> Completion:
        """The same as a fact."""
        return Completion(
            prompt_tokens=self.prompt_n,
            cached_tokens=self.cache_n,
            generated_tokens=self.predicted_n,
            prefill_s=self.prompt_ms / 1e3,
            decode_s=self.predicted_ms / 1e3,
            waited_s=waited_s,
        )


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


def parse_run_file(raw: Any, where: str) -> RunFile | Unknown:
    """The file as a struct; a field of a wrong type is the user's to repair."""
    if isinstance(raw, Unknown):
        return raw
    try:
        return msgspec.convert(raw, RunFile)
    except (msgspec.ValidationError, OverflowError) as error:
        raise UserError(f"{where}: {error}", "see the recorded machines for the form of this file") from error


def run_of_file(file: RunFile, series: str, log_load_s: Fact[float], gpus_described: int = 1) -> Run:
    """Medians over the runs, what the processors did meanwhile, and the GPUs while the model was loaded."""
    load_s = log_load_s if file.load_s is None or file.ok is False else measured(file.load_s, SOURCE)
    if not file.runs:
        why = not_found(f"{SOURCE} holds no run")
        return Run(completions=why, decode_tokens_per_s=why, prefill_tokens_per_s=why, load_s=load_s)
    done = tuple(timings.completion(_at(file.run_delay_s, n)) for n, timings in enumerate(file.runs))
    gpus = summarise_series(numbered(parse_rows(series), gpus_described), source=SERIES)
    return msgspec.structs.replace(
        run_of(measured(done, SOURCE), load_s),
        own_cpus=median(_shares(done, file.server_cpu_s), Origin.MEASURED, SOURCE),
        others_cpus=median(_others(done, file), Origin.MEASURED, SOURCE),
        gpus=measured(gpus, SERIES) if gpus else NOT_LOOKED,
    )


def _at(values: Sequence[float | None], index: int) -> float | None:
    return values[index] if index < len(values) else None


def _shares(done: Sequence[Completion], cpu_s: Sequence[float | None]) -> list[float]:
    """CPU seconds for each second of a run."""
    pairs = ((cpu, run.prefill_s + run.decode_s) for cpu, run in zip(cpu_s, done, strict=False))
    return [cpu / seconds for cpu, seconds in pairs if cpu is not None and seconds > 0]


def _others(done: Sequence[Completion], file: RunFile) -> list[float]:
    """What the rest of the machine used: all but the server's own."""
    pairs = zip(file.machine_busy_s, file.server_cpu_s, strict=False)
    return _shares(done, [None if busy is None or own is None else max(0.0, busy - own) for busy, own in pairs])
