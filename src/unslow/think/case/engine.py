"""The runtime of a case: which engine computes, which version it is, which loads its log shows."""

import math
import re
import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from unslow.facts.runtime import PastLoad
from unslow.facts.values import GIB, Known, Unknown
from unslow.think.case.group import Group
from unslow.think.report import Evidence
from unslow.think.speed.question import is_numbered, year_of_build

FITS_ITSELF_SINCE = 7407  # The build of llama.cpp from which it places by itself as many layers as fit (December 2025)
_PLACE_THEMSELVES = ("ollama", "lm studio", "jan", "gpt4all", "vllm", "sglang", "localai")
GRAPHS_IN_PIECES = (0, 8), (0, 11)
"""vLLM's graphs left attention out by default from its second engine on until then (its pull request 25444)."""
RECENT_YEAR = 2026.5  # Where the version of a runtime says nothing: people diagnose what they run today
_GGML = re.compile(
    r"llama[-_. ]?(?:cpp|server|cli|bench|file|swap)|ollama|lm ?studio|kobold|jan\b|gpt4all", re.IGNORECASE
)
_PAGED = re.compile(r"vllm|sglang|aphrodite|text-generation-inference|\btgi\b|lmdeploy|tensorrt-?llm", re.IGNORECASE)
_GPUS_ALONE = re.compile(rf"{_PAGED.pattern}|exllama|tabby", re.IGNORECASE)
_HALF = re.compile(
    r"exllama|tabby|vllm|sglang|aphrodite|transformers|\btgi\b|auto-?(?:gptq|awq)|lmdeploy", re.IGNORECASE
)
_FORMATS = re.compile(r"\bexl[23]\b|\bbpw\b|\dbpw\b|\bgptq\b|\bawq\b", re.IGNORECASE)
_BUILD = re.compile(r"b?(\d{4,6})(?!-\d{1,2}\b)(?:[-+ (]|$)")
"""Alone or before a commit: `2024-05-01` is a day, and `2024.5` another way to count. One with fewer digits, as of a
shallow clone (`b1-abc`), counts only the commits that were there: models of GGUF need b1000 or later."""
_DOTTED = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9})+")
NEWEST = 10**9
LEAST_SHARE = 0.1  # Of what was free: less comes and goes with any desktop
PAUSE_S = 30 * 60
"""Between two loads: after so long a pause a load is what the first request of a new task costs, not each one."""
DEFAULT_KEEP_ALIVE_S = 300.0
"""Ollama's, where neither its variable nor a request says otherwise (envconfig/config.go, KeepAlive)."""
OFTEN = 2  # Loads again for one reason: one may be a change of mind
READING_S = 60.0  # Who keeps a model for less unloads it while a person reads the answer: once is no accident
SELDOM = 10  # Requests for each load: where so many are answered in between, loading is not what requests wait for
CEASED = 5  # Times as many requests since the last load as for each one before: by chance in less than 1 % (e⁻⁵)
EACH = 1.5  # Requests for each load, on average: at most so many where each one has to wait
_WRITTEN = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_MONTHS, _DAYS, _HOURS, _SIXTY = 12, 31, 24, 60
Reason = Literal["turns", "context", "settings", "expired", "unkept", "unknown"]
"""Why a file was loaded again: others took its place, it was asked for with another context or another setting, its
keep_alive had passed, something unloaded it before that, or nobody can say."""
KV_TYPES_WITH_KERNELS = {("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("bf16", "bf16"), ("f32", "f32")}
"""Types of keys and values that every CUDA build of llama.cpp has kernels for (GGML_CUDA_FA_QUANTS of its CMakeLists).

Without them a build computes attention on the CPU; newer builds convert the cache to F16."""
CONVERTED_KV_TYPES = {"f16", "f32", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}
"""Types that newer CUDA builds have kernels for or convert to F16 (ggml_cuda_fattn_kv_type_supported); not iq4_nl."""
_OTHER_BACKENDS = {"Vulkan", "SYCL", "Metal", "OpenCL"}


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

    @property
    def has_ceased(self) -> bool:
        """Whether the last load has answered far more requests than those before it, so that it stays."""
        requests, since = self.reloads[0].requests_since, self.reloads[-1].now.requests
        if requests is None or not isinstance(since, Known):
            return False
        before = (requests - since.value) / sum(1 + r.others for r in self.reloads)
        return since.value >= CEASED * max(1.0, before)


class EngineView(Group):
    """The runtime and what it has done so far."""

    @cached_property
    def name(self) -> str:
        """Its name in lower case; empty where it is not known, which is like no name that is asked about."""
        return self.runtime.name.value_or("").lower()

    @cached_property
    def label(self) -> str:
        """Its name in a sentence."""
        return self.runtime.name.value_or("this runtime")

    @cached_property
    def loads(self) -> list[PastLoad]:
        """The loads that its log shows; none where no log was read."""
        return self.runtime.history.loads.value_or([])

    @cached_property
    def warnings(self) -> list[str]:
        """Lines in which it complains; none where no log was read."""
        return self.runtime.history.warnings.value_or([])

    @cached_property
    def environment(self) -> dict[str, str]:
        """Its environment; empty where it could not be read: only a variable that is there proves anything."""
        return self.runtime.process.environment.value_or({})

    @cached_property
    def command(self) -> list[str]:
        """Its command line; empty where it could not be read, so only a flag that is there proves a thing."""
        return self.runtime.process.command.value_or([])

    @cached_property
    def places_layers_itself(self) -> bool | None:
        """Whether the runtime chooses how many layers go to the GPU; None where its name or its age is not known."""
        if not self.name or isinstance(self.runtime.placement.fit, Known):
            return self.runtime.placement.fit.value_or(None)
        if any(each in self.name for each in _PLACE_THEMSELVES):
            return True
        if not self.runs_ggml:
            return None
        build = build_number(self.runtime.version.value_or(""))
        return None if build == NEWEST else build >= FITS_ITSELF_SINCE

    @cached_property
    def settings_unread(self) -> bool:
        """Whether layers may have been set by hand on a llama.cpp server whose command line could not be read."""
        runtime = self.runtime
        unread = isinstance(runtime.process.command, Unknown) and isinstance(runtime.placement.gpu_layers_set, Unknown)
        return unread and not self.case.narrative.is_report and runtime.name.value_or("") == "llama.cpp"

    @cached_property
    def build_year(self) -> float:
        """When the build was made, by its number."""
        version = self.runtime.version.value_or("")
        return year_of_build(version) if is_numbered(version) else RECENT_YEAR

    @cached_property
    def graphs_without_attention(self) -> bool:
        """Whether its CUDA graphs leave attention out: as it was told, else as its version does by default."""
        told = self.runtime.compute.graphs_without_attention
        return told.value if isinstance(told, Known) else self.leaves_attention_out_by_default

    @cached_property
    def leaves_attention_out_by_default(self) -> bool:
        """Whether the version is one of those of vLLM whose graphs do."""
        first, last = GRAPHS_IN_PIECES
        version = dotted_version(self.runtime.version.value_or(""))
        return "vllm" in self.runtime.name.value_or("").lower() and first <= version < last

    @cached_property
    def runs_ggml(self) -> bool | None:
        """Whether llama.cpp's engine computes; None where the runtime is not known."""
        name = self.runtime.name
        return bool(_GGML.search(name.value)) if isinstance(name, Known) else None

    @cached_property
    def runs_paged(self) -> bool | None:
        """Whether it is vLLM, SGLang or a similar engine; None where the runtime is not known."""
        name = self.runtime.name
        return bool(_PAGED.search(name.value)) if isinstance(name, Known) else None

    @cached_property
    def runs_on_gpus_alone(self) -> bool:
        """Whether its engine computes no layer on a CPU as long as it has a GPU."""
        return bool(_GPUS_ALONE.search(self.name))

    @cached_property
    def computes_in_half(self) -> bool:
        """Whether its engine computes in 16 bits whatever the type of the weights: by its name or their format."""
        model = f"{self.model.quant.value_or('')} {self.model.name.value_or('')}"
        return bool(_HALF.search(self.name)) or (not self.runs_ggml and bool(_FORMATS.search(model)))

    @cached_property
    def own_loads(self) -> list[PastLoad]:
        """The loads of this model where the log names its file, else those of every model."""
        own = self.model.path.value_or(None)
        return [load for load in self.loads if load.model.value_or("") == own] or self.loads

    @cached_property
    def load_time_s(self) -> float | None:
        """What a load of this model takes, by the log, else by the measurement."""
        timed = [load.seconds.value for load in self.own_loads if isinstance(load.seconds, Known)]
        return statistics.median(timed) if timed else self.run.load_s.value_or(None)

    @cached_property
    def reloads(self) -> Reloading | None:
        """The most frequent reason for reloads; None where there are none, or too few to matter."""
        own = {load.source for load in self.own_loads}
        by_reason: dict[Reason, list[Reload]] = {}
        for reload in _reloads(self.loads):
            if reload.now.source in own and not reload.before.stopped:
                by_reason.setdefault(self._reload_reason(reload), []).append(reload)
        found = (Reloading(reason, tuple(each)) for reason, each in by_reason.items())
        return max(
            (r for r in found if self._reloads_matter(r)),
            key=lambda r: (r.reason != "unknown", len(r.reloads)),
            default=None,
        )

    def _reloads_matter(self, reloading: Reloading) -> bool:
        if (reloading.requests_per_load or 0.0) >= SELDOM or reloading.has_ceased:
            return False
        if reloading.reason == "expired":  # what Ollama does by itself, a person may want
            often = 1 if self.keep_alive_s < READING_S else OFTEN
            return len(reloading.reloads) >= often and self.keep_alive_s < DEFAULT_KEEP_ALIVE_S
        if reloading.reason == "turns":
            files = {load.model.value_or("") for load in self.loads}
            return self.runtime.scheduling.loaded_models.value_or(0) < len(files)  # else there is room for all of them
        return len(reloading.reloads) >= (1 if self.keep_alive_s == 0 else OFTEN)

    @cached_property
    def keep_alive_s(self) -> float:
        """How long a model stays where no request says otherwise; infinite where it does for ever."""
        seconds = self.runtime.scheduling.keep_alive_s.value_or(DEFAULT_KEEP_ALIVE_S)
        return math.inf if seconds < 0 else seconds

    def _reload_reason(self, reload: Reload) -> Reason:
        before, now = reload.before, reload.now
        is_ollama = "ollama" in self.name
        if is_ollama and self.keep_alive_s == 0:
            return "unkept"
        if before.expired or (is_ollama and (reload.pause_s() or 0) > self.keep_alive_s):
            return "expired"
        if reload.others:
            return "turns"
        contexts = before.context_length, now.context_length
        if all(isinstance(c, Known) for c in contexts) and contexts[0].value_or(0) != contexts[1].value_or(0):
            return "context"
        if before.settings != now.settings:
            return "settings"
        return "unkept" if is_ollama and isinstance(now.model, Known) else "unknown"

    @cached_property
    def load_short_of_memory(self) -> tuple[PastLoad, PastLoad] | None:
        """A load that found far less free and kept fewer layers on the GPU, and the one that found most."""
        loads = [load for load in self.loads if isinstance(load.gpu_layers, Known)]
        pairs = []
        for poor, rich in ((poor, rich) for poor in loads if free_of(poor) for rich in loads):
            gone = free_of(rich) - free_of(poor)
            same = poor.model.value_or("") == rich.model.value_or("")
            same = same and poor.context_length.value_or(0) == rich.context_length.value_or(0)
            fewer = poor.gpu_layers.value_or(0) < rich.gpu_layers.value_or(0)
            if same and fewer and gone >= max(GIB, LEAST_SHARE * free_of(rich)):
                pairs.append((poor, rich))
        return max(pairs, key=lambda pair: free_of(pair[1]) - free_of(pair[0]), default=None)

    def started_without(self, *flags: str, by_ollama: bool = False) -> bool:
        """Whether a llama.cpp whose whole command line and environment are known has none of these flags.

        A flag stands for all that begin with it, and for its variable. `by_ollama` counts the llama-server
        that Ollama starts for a model since 0.30, of what no request can set.
        """
        runtime = self.runtime
        if not isinstance(runtime.process.command, Known) or not isinstance(runtime.process.environment, Known):
            return False
        is_child = self.label == "Ollama" and "llama-server" in "".join(self.command[:1])
        if not self.label.endswith("llama.cpp") and not (by_ollama and is_child):
            return False
        variables = tuple(f"LLAMA_ARG_{flag.strip('-').replace('-', '_').upper()}" for flag in flags)
        asked = any(word.startswith(flags) for word in self.command)
        return not asked and not any(name.startswith(variables) for name in self.environment)

    def cite_load(self, load: PastLoad) -> Evidence:
        """What a load found free and how many layers it put on the GPU, as evidence."""
        words = f"{load.at} {free_of(load) / GIB:.1f} GiB free, {layers_of(load)}".strip()
        return Evidence(
            fact="runtime.history.loads", value=words, reference=None, origin="reported", source=load.source
        )

    @cached_property
    def kv_types(self) -> tuple[str, str]:
        """The types of keys and values; where one is unknown, the other's; empty where both are."""
        keys, values = self.runtime.cache.type_k.get() or "", self.runtime.cache.type_v.get() or ""
        return (keys or values).lower(), (values or keys).lower()

    @cached_property
    def lacks_kv_kernels(self) -> bool:
        """Whether usual CUDA builds of llama.cpp have no kernel for flash attention with such a KV cache."""
        flash_attention = self.runtime.compute.flash_attention.get() is not False  # the default of today's builds
        return all(self.kv_types) and self.kv_types not in KV_TYPES_WITH_KERNELS and flash_attention

    @cached_property
    def uses_cuda_kernels(self) -> bool:
        """Whether llama.cpp computes with CUDA or with HIP, which share their kernels."""
        others = _OTHER_BACKENDS & set(self.runtime.build.backends.get() or ())
        vendors = {gpu.vendor.get() or "NVIDIA" for gpu in self.case.gpus.usable} & {"NVIDIA", "AMD"}
        shared = bool(vendors) and not others and self.case.gpus.backend in {"cuda", "rocm"}
        return shared and self.runs_ggml is not False

    @cached_property
    def kv_kernel_gap(self) -> str:
        """The types of a KV cache that usual CUDA builds have no kernel for, in words; empty where there is none."""
        types = " and ".join(sorted(set(self.kv_types)))
        is_lacking = self.lacks_kv_kernels and self.uses_cuda_kernels
        return f"the KV cache is {types}, for which usual builds have no GPU kernel" if is_lacking else ""

    @cached_property
    def kv_type_fact(self) -> str:
        """The path of the type of the KV cache: that of the keys, else of the values."""
        return "runtime.cache.type_k" if isinstance(self.runtime.cache.type_k, Known) else "runtime.cache.type_v"


def build_number(version: str) -> int:
    """The build of a llama.cpp version such as `b3556` or `b9999-0c1e570`; of any other, newer than all."""
    found = _BUILD.match(version.strip())
    return int(found[1]) if found else NEWEST


def dotted_version(version: str) -> tuple[int, ...]:
    """The numbers of a version such as `v0.9.2`; none where it is not written so."""
    found = _DOTTED.search(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def is_older(one: str, other: str) -> bool:
    """Whether one version is surely older than another: both are builds, or both are dotted numbers."""
    builds, numbers = (build_number(one), build_number(other)), (dotted_version(one), dotted_version(other))
    if NEWEST not in builds:
        return builds[0] < builds[1]
    return all(numbers) and numbers[0] < numbers[1]


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


def free_of(load: PastLoad) -> float:
    """GPU memory that it found free; none where the log does not say."""
    return float(load.free_bytes.value_or(0))


def layers_of(load: PastLoad) -> str:
    """Its layers on the GPU, in words."""
    return f"{load.gpu_layers.value_or(0)} of {load.layers.value_or('its')} layers"
