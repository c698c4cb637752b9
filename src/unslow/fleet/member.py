"""One engine of a fleet with all that a Prometheus could tell of it, its GPUs and its host, and under which names."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class Reading(NamedTuple):
    """A quantity over the window, in SI units or shares of one, and where it comes from."""

    value: float
    source: str  # The metric and how it was taken, such as `vllm:num_requests_running, mean over 15 min`


class MemberGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that belongs to the engine; `readings` by the names of `GPU`."""

    index: int
    name: str = ""
    identity: str = ""  # Its UUID or bus address, masked nowhere: it goes into no report
    driver: str = ""
    vendor: str = ""
    readings: dict[str, Reading] = msgspec.field(default_factory=dict)


class OwnDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What `unslow exporter` on its machine says of this engine: it sees logs and processes, and no Prometheus does."""

    verdict: str
    findings: dict[str, float] = msgspec.field(default_factory=dict)
    """The share of the window in which a cause was there, by its name."""
    costs_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Seconds that a cause takes of every token, by its name, where the exporter can tell."""
    speed_tokens_per_s: float | None = None
    expected_tokens_per_s: tuple[float, float, float] | None = None  # Low, middle and high, with its settings
    achievable_tokens_per_s: float | None = None
    age_s: float | None = None  # How long ago it looked


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One engine; `engine`, `host` and the GPUs' readings by the names of `ENGINE`, `HOST` and `GPU`."""

    key: str  # Unique in the fleet and short, such as `namespace/pod` or `host:port`
    runtime: str  # As the causes call it: vLLM, llama.cpp, SGLang, TGI, Ollama
    model: str = ""
    version: str = ""
    version_before: str = ""  # At the time that it is compared with, where that was told
    host_name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)  # Those of its series that tell where it is; bounded
    window_s: float
    engine: dict[str, Reading] = msgspec.field(default_factory=dict)
    info: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of information metrics, such as those of `vllm:cache_config_info`."""
    gpus: tuple[MemberGpu, ...] = ()
    host: dict[str, Reading] = msgspec.field(default_factory=dict)
    own: OwnDiagnosis | None = None
    missing: dict[str, str] = msgspec.field(default_factory=dict)
    """Why nothing is known of `engine`, `gpus` or `host`: no exporter, labels that don't join, a query that failed."""
    down: str = ""
    """Why it is not there now, where Prometheus tried to scrape it and could not; what was read is of before."""
    doubts: tuple[str, ...] = ()
    """What a reader must know: restarted within the window, twice the same labels, scraped only half of the time."""


ENGINE = {
    "up": "share of the window in which it was scraped",
    "samples": "scrapes in the window",
    "running": "running requests, mean",
    "running_spread": "standard deviation of running: gives the batch size while busy, without pauses",
    "waiting": "waiting requests, mean",
    "generated_tokens_per_s": "generated tokens of all requests",
    "prompt_tokens_per_s": "prompt tokens of all requests, only the computed ones where reported",
    "preemptions": "preemptions in the window",
    "cache_used": "share of the KV cache in use, mean",
    "tokens_counted": "generated tokens in the window: a few dozen are needed for a speed",
    "token_gap_s": "seconds between two tokens of one request, mean over tokens",
    "decode_tokens_per_busy_s": "generated tokens per second of decode time (llama.cpp)",
    "first_token_s": "time to first token, mean",
    "queue_s": "time in the queue, mean",
    "request_s": "duration of a request, mean",
    "prompt_tokens": "prompt tokens per request, mean",
    "answer_tokens": "generated tokens per request, mean",
    "prefix_hit_rate": "share of prompt tokens found in the cache",
    "draft_acceptance": "acceptance rate of the draft",
    "places": "slots, or maximum concurrent requests",
    "context_tokens": "context length",
    "kv_tokens": "KV cache size in tokens, where a gauge reports it (vLLM: `info`)",
    "asleep": "1 while asleep",
    "token_gap_before_s": "token_gap_s at the comparison time",
    "decode_tokens_per_busy_s_before": "decode_tokens_per_busy_s at that time",
    "running_before": "running at that time",
}
GPU = {
    "vram_total_bytes": "its memory", "vram_used_max_bytes": "most in use", "vram_free_bytes": "the least",
    "gtt_used_bytes": "host memory used by an AMD GPU", "busy": "share of the time that a kernel ran, mean",
    "memory_busy": "of its memory, mean", "clock_hz": "mean while busy where that is known, else mean",
    "clock_max_hz": "maximum", "memory_clock_hz": "mean", "temperature_max_c": "the most",
    "memory_temperature_max_c": "the most", "power_max_w": "the most", "power_limit_w": "current setting",
    "power_limit_default_w": "factory setting", "thermal_throttled": "share of the window with thermal throttling",
    "power_throttled": "share with power throttling", "pcie_generation": "now", "pcie_generation_max": "at most",
    "pcie_width": "now", "pcie_width_max": "at most",
}  # fmt: skip
HOST = {
    "cpus": "logical CPUs", "busy_cpus": "of them in use, mean", "load_1min": "mean", "memory_total_bytes": "",
    "memory_available_bytes": "the least", "swap_used_bytes": "the most", "swap_total_bytes": "",
    "swapped_in_bytes_per_s": "mean", "swapped_out_bytes_per_s": "mean",
    "cpu_pressure": "share of the window with tasks waiting for a CPU", "memory_pressure": "for memory",
    "io_pressure": "for a disk", "package_throttles": "thermal throttle events in the window",
    "quota_cpus": "of the engine's container", "cpu_throttled": "share of CPU quota periods that were throttled",
    "memory_limit_bytes": "of the engine's container", "numa_nodes": "NUMA nodes",
}  # fmt: skip
Raw = Mapping[str, tuple[int, float, str]]
_MEANS = ("token_gap_s", "first_token_s", "queue_s", "request_s", "prompt_tokens", "answer_tokens")
_SHARES = {"prefix_hit_rate": ("prefix_hits", "prefix_queries"), "draft_acceptance": ("drafts_accepted", "drafts_made")}
RATIOS = {name: (f"{name}_sum", f"{name}_count") for name in _MEANS} | _SHARES
"""What Prometheus divides itself: one series in its answer instead of two."""
_BUSY = {"decode_tokens_per_busy_s": ("decode_tokens", "decode_busy_s")}
_BEFORE = {"token_gap_before_s": "token_gap_s", "decode_tokens_per_busy_s_before": "decode_tokens_per_busy_s"}
_AS_READ = (
    "up", "samples", "running", "running_spread", "waiting", "generated_tokens_per_s",
    "prompt_tokens_per_s", "preemptions", "cache_used", "places", "context_tokens",
    "kv_tokens", "asleep", "draft_acceptance", "running_before",
)  # fmt: skip
COUNTED = (*_MEANS, *_SHARES, *_BUSY, "generated_tokens_per_s", "prompt_tokens_per_s", "preemptions",
           "tokens_counted")  # fmt: skip
"""What comes from counters: all of it is wrong where two targets write the same series."""
_HELD = ("thermal_throttled", "power_throttled")
LEAST = 1.0  # Of events in the window: an increase of less is a rest of extrapolation
_ENOUGH = 50.0  # Of tokens: fewer say more of first tokens than of speed


def engine_readings(raw: Raw, window_s: float) -> dict[str, Reading]:
    """The readings of `ENGINE` that can be told."""
    found = {name: Reading(*raw[name][1:]) for name in _AS_READ if name in raw}
    means = {name: Reading(*raw[name][1:]) if name in raw else _quotient(raw, *pair) for name, pair in RATIOS.items()}
    means |= {name: _quotient(raw, top, bottom, 0.0) for name, (top, bottom) in _BUSY.items()}
    for name, now in _BEFORE.items():
        top, bottom = (f"{now}_sum", f"{now}_count") if now in _MEANS else _BUSY[now]
        means[name] = _quotient(raw, f"before.{top}", f"before.{bottom}", 0.0 if now in _BUSY else _ENOUGH)
    found |= {name: reading for name, reading in means.items() if reading}
    if "generated_tokens_per_s" in found:
        rate = found["generated_tokens_per_s"]
        found["tokens_counted"] = Reading(rate.value * window_s, rate.source)
    for name in ("prefix_hit_rate", "cache_used", "draft_acceptance"):
        if name in found and not 0 <= found[name].value <= 1 + 1e-6:
            del found[name]  # more hits than questions: two things that don't belong together
    return found


def _quotient(raw: Raw, top: str, bottom: str, least: float = LEAST) -> Reading | None:
    """A mean, where there was something to take it of."""
    if top not in raw or bottom not in raw or raw[bottom][1] < least or raw[bottom][1] <= 0:
        return None
    if top.endswith("_tokens") and raw[top][1] < _ENOUGH:
        return None
    return Reading(raw[top][1] / raw[bottom][1], source_of_ratio(top, raw[top][2], raw[bottom][2]))


def source_of_ratio(top: str, above: str, below: str) -> str:
    """Where a mean or a share comes from, by the sources of what was divided."""
    if top.endswith("_sum"):
        return below.replace("_count,", ",").replace("increase over", "mean over")
    return f"{above.partition(',')[0]} by {below}"


def gpu_readings(raw: Raw) -> dict[str, Reading]:
    """The readings of `GPU` that can be told."""
    found = {name: Reading(value, source) for name, (_, value, source) in raw.items()}
    free, reserved = found.get("vram_free_bytes"), found.pop("vram_reserved_bytes", None)
    if free and "vram_used_max_bytes" in found and "vram_total_bytes" not in found:
        used = found["vram_used_max_bytes"]
        whole = used.value + free.value + (reserved.value if reserved else 0.0)
        found["vram_total_bytes"] = Reading(whole, f"{used.source.partition(',')[0]} and {free.source}")
    told, braked = found.pop("reasons_told", None), found.pop("power_braked", None)
    shares = {name: min(1.0, found[name].value) for name in _HELD if name in found}
    if told:
        # One that is not among the answers never was; nor one of a metric that counts less than the one that is there
        there = [name for name in _HELD if name in raw and raw[name][0] <= raw["reasons_told"][0]]
        shares = {name: shares[name] if name in there else 0.0 for name in _HELD}
    if braked and "power_throttled" in shares:
        shares["power_throttled"] = min(1.0, shares["power_throttled"] + braked.value)
    by = told.source.replace("last value in", "share of") if told else ""
    return found | {name: Reading(share, by or found[name].source) for name, share in shares.items()}


def host_readings(raw: Raw) -> dict[str, Reading]:
    """The readings of `HOST` that can be told."""
    found = {name: Reading(value, source) for name, (_, value, source) in raw.items()}
    idle, free = found.pop("idle_cpus", None), found.pop("swap_free_bytes", None)
    if idle and "cpus" in found:
        found["busy_cpus"] = Reading(max(0.0, found["cpus"].value - idle.value), idle.source)
    if free and "swap_total_bytes" in found:
        found["swap_used_bytes"] = Reading(max(0.0, found["swap_total_bytes"].value - free.value), free.source)
    return found
