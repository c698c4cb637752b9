"""The runtime of a case: which engine computes, which version it is, and which loads its log tells of."""

import math
import re
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known

_GGML = re.compile(
    r"llama[-_. ]?(?:cpp|server|cli|bench|file|swap)|ollama|lm ?studio|kobold|jan\b|gpt4all", re.IGNORECASE
)
_PAGED = re.compile(r"vllm|sglang|aphrodite|text-generation-inference|\btgi\b|lmdeploy|tensorrt-?llm", re.IGNORECASE)
_GPUS_ALONE = re.compile(rf"{_PAGED.pattern}|exllama|tabby", re.IGNORECASE)
_HALF = re.compile(
    r"exllama|tabby|vllm|sglang|aphrodite|transformers|\btgi\b|auto-?(?:gptq|awq)|lmdeploy", re.IGNORECASE
)

_FORMATS = re.compile(r"\bexl[23]\b|\bbpw\b|\dbpw\b|\bgptq\b|\bawq\b", re.IGNORECASE)


def runs_ggml(case: Case) -> bool | None:
    """Whether llama.cpp's engine computes; None where the runtime is not known."""
    name = case.runtime.name
    return bool(_GGML.search(name.value)) if isinstance(name, Known) else None


def runs_paged(case: Case) -> bool | None:
    """Whether it is vLLM, SGLang or one of their kin; None where the runtime is not known."""
    name = case.runtime.name
    return bool(_PAGED.search(name.value)) if isinstance(name, Known) else None


def runs_on_gpus_alone(case: Case) -> bool:
    """Whether its engine computes no layer on a CPU as long as it has a GPU."""
    return bool(_GPUS_ALONE.search(case.runtime.name.value_or("")))


def computes_in_half(case: Case) -> bool:
    """Whether its engine computes in 16 bits whatever the weights are stored as: by its name, else by their format."""
    model = f"{case.model.quant.value_or('')} {case.model.name.value_or('')}"
    return bool(_HALF.search(case.runtime.name.value_or(""))) or (not runs_ggml(case) and bool(_FORMATS.search(model)))


_BUILD = re.compile(r"b?(\d{4,6})(?!-\d{1,2}\b)(?:[-+ (]|$)")
"""Alone or before a commit: `2024-05-01` is a day, and `2024.5` another way to count. One with fewer digits, as of a
shallow clone (`b1-abc`), counts only the commits that were there: models of GGUF need b1000 or later."""
NEWEST = 10**9


def build_number(version: str) -> int:
    """The build of a llama.cpp version such as `b3556` or `b9999-0c1e570`; of any other, newer than all."""
    found = _BUILD.match(version.strip())
    return int(found[1]) if found else NEWEST


def dotted_version(version: str) -> tuple[int, ...]:
    """The numbers of a version such as `v0.9.2`; none where it is not written so."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def is_older(one: str, other: str) -> bool:
    """Whether one version is surely older than another: both are builds, or both are dotted numbers."""
    builds, numbers = (build_number(one), build_number(other)), (dotted_version(one), dotted_version(other))
    if NEWEST not in builds:
        return builds[0] < builds[1]
    return all(numbers) and numbers[0] < numbers[1]


LEAST_SHARE = 0.1  # Of what was free: less comes and goes with any desktop
PAUSE_S = 30 * 60
"""Between two loads: after so long a pause a load is what the first request of a new task costs, not each one."""
DEFAULT_KEEP_ALIVE_S = 300.0
"""Ollama's, where neither its variable nor a request says otherwise (envconfig/config.go, KeepAlive)."""
OFTEN = 2  # Loads again for one reason: one may be a change of mind
SELDOM = 10  # Requests for each load: where so many are answered in between, loading is not what requests wait for
EACH = 1.5  # Requests for each load, on average: at most so many where each one has to wait
_WRITTEN = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_MONTHS, _DAYS, _HOURS, _SIXTY = 12, 31, 24, 60

Reason = Literal["turns", "context", "settings", "expired", "unkept", "unknown"]
"""Why a file was loaded again: others took its place, it was asked for with another context or another setting, its
keep_alive had passed, something unloaded it before that, or nobody can say."""


class Reload(NamedTuple):
    """A file that was loaded again, how many loads of others came in between, and the requests from then on."""

    before: PastLoad
    now: PastLoad
    others: int
    requests_since: int | None
    """Those that were answered since the load before, to the end of the log; None where nobody counted them."""

    def pause_s(self) -> int | None:
        """From the last request that it answered to its load; None where the log has no dates."""
        used, now = _moment(self.before.used_until) or _moment(self.before.at), _moment(self.now.at)
        return None if used is None or now is None else now - used


class Reloading(NamedTuple):
    """Loads of files that had been loaded before, all for one reason."""

    reason: Reason
    reloads: tuple[Reload, ...]

    @property
    def loads(self) -> list[PastLoad]:
        """Every load that was followed or preceded by another of the same file."""
        each = {load.source: load for reload in self.reloads for load in (reload.before, reload.now)}
        return list(each.values())

    @property
    def requests_per_load(self) -> float | None:
        """How many requests were answered for each load since the first of them; None where nobody counted them."""
        requests = self.reloads[0].requests_since
        return None if requests is None else requests / (1 + sum(1 + r.others for r in self.reloads))


def own_loads(case: Case) -> list[PastLoad]:
    """The loads of this model where the log names its file, else those of every model."""
    loads: list[PastLoad] = case.runtime.loads.value_or([])
    return [load for load in loads if load.model.value_or("") == case.model.path.value_or(None)] or loads


def load_time_s(case: Case) -> float | None:
    """What a load of this model takes, by the log, else by the measurement."""
    timed = [load.seconds.value for load in own_loads(case) if isinstance(load.seconds, Known)]
    return statistics.median(timed) if timed else case.run.load_s.value_or(None)


def reloading(case: Case) -> Reloading | None:
    """The most frequent reason for which files are loaded again; None where none is, or not often enough to matter."""
    own = {load.source for load in own_loads(case)}
    by_reason: dict[Reason, list[Reload]] = {}
    for reload in _reloads(case.runtime.loads.value_or([])):
        if reload.now.source in own and not reload.before.stopped:
            by_reason.setdefault(_reason(case, reload), []).append(reload)
    found = (Reloading(reason, tuple(each)) for reason, each in by_reason.items())
    return max(
        (r for r in found if _matters(case, r)), key=lambda r: (r.reason != "unknown", len(r.reloads)), default=None
    )


def _matters(case: Case, reloading: Reloading) -> bool:
    if (reloading.requests_per_load or 0.0) >= SELDOM:
        return False
    if reloading.reason == "expired":  # what Ollama does by itself, a person may want
        return len(reloading.reloads) >= OFTEN and keep_alive_s(case) < DEFAULT_KEEP_ALIVE_S
    if reloading.reason == "turns":
        files = {load.model.value_or("") for load in case.runtime.loads.value_or([])}
        return case.runtime.loaded_models.value_or(0) < len(files)  # else there is room for all of them
    return len(reloading.reloads) >= (1 if keep_alive_s(case) == 0 else OFTEN)


def keep_alive_s(case: Case) -> float:
    """How long a model stays where no request says otherwise; infinite where it does for ever."""
    seconds = case.runtime.keep_alive_s.value_or(DEFAULT_KEEP_ALIVE_S)
    return math.inf if seconds < 0 else seconds


def _reloads(loads: Sequence[PastLoad]) -> list[Reload]:
    """Each load of a file that the same server had loaded before, unless a long pause lies between."""
    latest: dict[str, int] = {}
    found = list[Reload]()
    for index, load in enumerate(loads):
        if load.after_start:
            latest.clear()
        if load.failed:
            continue
        before = latest.get(load.model.value_or(""))
        latest[load.model.value_or("")] = index
        if before is None:
            continue
        since = [each.requests for each in loads[before:]]
        known = [count.value for count in since if isinstance(count, Known)]
        reload = Reload(loads[before], load, index - before - 1, sum(known) if len(known) == len(since) else None)
        if 0 <= (reload.pause_s() or 0) <= PAUSE_S:
            found.append(reload)
    return found


def _reason(case: Case, reload: Reload) -> Reason:
    before, now = reload.before, reload.now
    is_ollama = "ollama" in case.runtime.name.value_or("").lower()
    if is_ollama and keep_alive_s(case) == 0:
        return "unkept"
    if is_ollama and (reload.pause_s() or 0) > keep_alive_s(case):
        return "expired"
    if reload.others:
        return "turns"
    contexts = before.context_length, now.context_length
    if all(isinstance(c, Known) for c in contexts) and contexts[0].value_or(0) != contexts[1].value_or(0):
        return "context"
    if before.settings != now.settings:
        return "settings"
    return "unkept" if is_ollama and isinstance(now.model, Known) else "unknown"


def _moment(written: str) -> int | None:
    """A time in seconds by the log's own clock; None where it does not say the day.

    Every month counts as the longest: what lies between two loads is at most too much, and that by days.
    """
    found = _WRITTEN.match(written)
    if not found:
        return None
    year, month, day, hour, minute, second = map(int, found.groups())
    days = (year * _MONTHS + month) * _DAYS + day
    return ((days * _HOURS + hour) * _SIXTY + minute) * _SIXTY + second


class Robbed(NamedTuple):
    """A load that found far less free and kept fewer layers on the GPU, beside one that found more."""

    poor: PastLoad
    rich: PastLoad

    @property
    def gone(self) -> float:
        """The bytes that something else held at the poor one."""
        return free_of(self.rich) - free_of(self.poor)


def robbed_load(case: Case) -> Robbed | None:
    """The pair that differs most; None where there is none."""
    loads = [load for load in case.runtime.loads.value_or([]) if isinstance(load.gpu_layers, Known)]
    pairs = []
    for pair in (Robbed(poor, rich) for poor in loads if free_of(poor) for rich in loads):
        poor, rich = pair
        same = poor.model.value_or("") == rich.model.value_or("")
        same = same and poor.context_length.value_or(0) == rich.context_length.value_or(0)
        fewer = poor.gpu_layers.value_or(0) < rich.gpu_layers.value_or(0)
        if same and fewer and pair.gone >= max(GIB, LEAST_SHARE * free_of(rich)):
            pairs.append(pair)
    return max(pairs, key=lambda pair: pair.gone, default=None)


def free_of(load: PastLoad) -> float:
    """GPU memory that it found free; none where the log does not say."""
    return float(load.free_bytes.value_or(0))


def layers_of(load: PastLoad) -> str:
    """Its layers on the GPU, in words."""
    return f"{load.gpu_layers.value_or(0)} of {load.layers.value_or('its')} layers"
