"""Which causes a Prometheus can settle, by judging a healthy instance of each runtime of which it knows all it can."""

from functools import cache

from unslow.catalog.prometheus import Exporter, exporters_of
from unslow.fleet.member import ENGINE, GPU, HOST, Member, MemberGpu, Reading
from unslow.fleet.snapshots import snapshot_of
from unslow.think.case.view import views_of
from unslow.think.causes import all_causes
from unslow.think.judge.judge import judge

RUNTIMES = ("vLLM", "SGLang", "TGI", "llama.cpp", "Ollama")
MODELS = {"llama.cpp": "Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Ollama": "llama3.1:8b"}
"""As each of them writes a name."""
_ENGINE = {
    "up": 1.0, "samples": 60.0, "running": 8.0, "running_spread": 2.0,
    "waiting": 0.02, "generated_tokens_per_s": 820.0, "prompt_tokens_per_s": 500.0, "preemptions": 0.0,
    "cache_used": 0.2, "tokens_counted": 7.4e5, "token_gap_s": 0.0095, "decode_tokens_per_busy_s": 105.0,
    "first_token_s": 0.08, "queue_s": 0.001, "request_s": 3.2, "prompt_tokens": 400.0, "answer_tokens": 320.0,
    "prefix_hit_rate": 0.3, "draft_acceptance": 0.8, "places": 32.0, "context_tokens": 32768.0, "kv_tokens": 4.4e5,
    "asleep": 0.0, "token_gap_before_s": 0.0095, "decode_tokens_per_busy_s_before": 105.0, "running_before": 8.0,
}  # fmt: skip
_GPU = {
    "vram_total_bytes": 85520809984.0, "vram_used_max_bytes": 77e9, "vram_free_bytes": 8.5e9,
    "gtt_used_bytes": 0.0, "busy": 0.97, "memory_busy": 0.6, "clock_hz": 1.93e9, "clock_max_hz": 1.98e9,
    "memory_clock_hz": 2.6e9, "temperature_max_c": 63.0, "memory_temperature_max_c": 70.0,
    "power_max_w": 560.0, "power_limit_w": 700.0, "power_limit_default_w": 700.0,
    "thermal_throttled": 0.0, "power_throttled": 0.0, "pcie_generation": 5.0, "pcie_generation_max": 5.0,
    "pcie_width": 16.0, "pcie_width_max": 16.0,
}  # fmt: skip
_HOST = {
    "cpus": 64.0, "busy_cpus": 6.0, "load_1min": 7.0, "memory_total_bytes": 512e9, "memory_available_bytes": 400e9,
    "swap_used_bytes": 0.0, "swap_total_bytes": 0.0, "swapped_in_bytes_per_s": 0.0, "swapped_out_bytes_per_s": 0.0,
    "cpu_pressure": 0.01, "memory_pressure": 0.0, "io_pressure": 0.01, "package_throttles": 0.0, "quota_cpus": 16.0,
    "cpu_throttled": 0.0, "memory_limit_bytes": 256e9, "numa_nodes": 2.0,
}  # fmt: skip
"""Of an H100 that serves an 8B model and lacks nothing: every quantity that is read has a value."""
_INFO = {"gpu_memory_utilization": "0.9", "num_gpu_blocks": "28000", "block_size": "16", "cache_dtype": "auto"}
_MADE_OF = {
    "prefix_hit_rate": "prefix_hits", "draft_acceptance": "drafts_made", "decode_tokens_per_busy_s": "decode_busy_s",
    "tokens_counted": "generated_tokens_per_s",
}  # fmt: skip
"""What is worked out of something else that is read."""
_SHOWN = 2
"""Facts: any one of them would do."""
_ALWAYS = ("up", "samples")


def causes_table() -> str:
    """A row for each cause: by which runtimes' series it can be judged, and what else would be needed."""
    told = {runtime: _told(runtime) for runtime in RUNTIMES}
    rows = [_row(name, told) for name in sorted(all_causes(), key=lambda name: (_nobody(name, told), name))]
    head = f"| cause | {' | '.join(RUNTIMES)} | what only the machine itself tells |\n|---|{':-:|' * len(RUNTIMES)}---|"
    return "\n".join([head, *rows])


def counts_sentence() -> str:
    """How many causes can be judged for each runtime."""
    parts = [f"{_judged(_told(runtime))} for {runtime}" for runtime in RUNTIMES]
    return f"Of {len(all_causes())} causes it can settle {', '.join(parts[:-1])} and {parts[-1]}."


def _judged(missing: dict[str, str]) -> int:
    return len(all_causes()) - len(missing)


def _nobody(name: str, told: dict[str, dict[str, str]]) -> bool:
    return all(name in missing for missing in told.values())


def _row(name: str, told: dict[str, dict[str, str]]) -> str:
    marks = " | ".join("" if name in missing else "✓" for missing in told.values())
    needed = next((_needed(missing[name]) for missing in told.values() if name in missing), "")
    return f"| [`{name}`](../reference/causes/{name}.md) | {marks} | {needed} |"


def _needed(missing: str) -> str:
    """The first facts of those that would do, without what a person would write; others are on the cause's page."""
    facts = [fact for fact in missing.split(" or ") if not fact.startswith("account.") and " " not in fact]
    return ", ".join(f"`{fact}`" for fact in facts[:_SHOWN])


@cache
def _told(runtime: str) -> dict[str, str]:
    """The causes that can't be judged, and what is missing for each."""
    report = judge(next(views_of(snapshot_of(_member(runtime)))))
    return {one.cause: one.missing for one in report.cannot_tell}


def _member(runtime: str) -> Member:
    speaks = [one for one in exporters_of("engine").values() if one.runtime == runtime]
    engine = {name: value for name, value in _ENGINE.items() if any(_gives(one, name) for one in speaks)}
    gpu = MemberGpu(index=0, name="NVIDIA H100 80GB HBM3", vendor="NVIDIA", readings=_readings(_GPU, GPU))
    return Member(
        key="gpu-1:8000", runtime=runtime, model=MODELS.get(runtime, "meta-llama/Llama-3.1-8B-Instruct"),
        version="1.0", version_before="1.0", window_s=900.0, engine=_readings(engine, ENGINE), gpus=(gpu,),
        host=_readings(_HOST, HOST), info=_INFO if any(one.info for one in speaks) else {},
    )  # fmt: skip


def _gives(exporter: Exporter, name: str) -> bool:
    """Whether its series tell this quantity, by itself or by what it is worked out of."""
    now = name.replace("_before_s", "_s").removesuffix("_before")
    read = {now, f"{now}_sum", _MADE_OF.get(now, now)}
    return name in _ALWAYS or bool(read & exporter.readings.keys())


def _readings(values: dict[str, float], known: dict[str, str]) -> dict[str, Reading]:
    return {name: Reading(value, f"{name}, mean over 15 min") for name, value in values.items() if name in known}
