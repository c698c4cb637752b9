"""Which facts can be a reason for being slower than others: their worse end, and the cause that they decide."""

import re
from functools import cache

from unslow.think.causes import all_causes

WORSE = {
    "clock_hz": -1, "clock_max_hz": -1, "memory_clock_hz": -1, "memory_clock_max_hz": -1, "frequency_hz": -1,
    "frequency_max_hz": -1, "frequency_limit_hz": -1, "temperature_c": 1, "temperature_max_c": 1,
    "memory_temperature_c": 1, "temperature_margin_c": -1, "power_limit_w": -1, "power_limit_default_w": -1,
    "pcie_generation": -1, "pcie_width": -1, "pcie_generation_max": -1, "pcie_width_max": -1,
    "pcie_generation_max_seen": -1, "pcie_width_max_seen": -1, "nvlinks_active": -1,
    "vram_total_bytes": -1, "vram_free_bytes": -1, "vram_used_bytes": 1, "vram_used_max_bytes": 1,
    "gtt_used_bytes": 1, "shared_used_bytes": 1, "others_busy": 1,
    "busy_cpus": 1, "average_1min": 1, "cpu_pressure": 1, "memory_pressure": 1, "io_pressure": 1,
    "others_cpus": 1, "waiting_for_cpu_s_per_token": 1, "cpu_throttled_fraction": 1, "throttled_s": 1,
    "throttled_periods": 1, "package_throttles": 1, "logical_cpus": -1, "physical_cores": -1, "allowed_cpus": -1,
    "quota_cpus": -1, "total_bytes": -1, "available_bytes": -1, "limit_bytes": -1, "memory_limit_bytes": -1,
    "swap_used_bytes": 1, "swapped_in_bytes": 1, "swapped_out_bytes": 1,
    "preemptions": 1, "cache_used": 1, "kv_usage": 1, "prefix_hit_rate": -1, "draft_acceptance": -1,
    "kv_capacity_tokens": -1, "kv_bytes": -1, "prompts_reprocessed": 1, "longest_sequence": 1, "depth_tokens": 1,
    "logged_prompts": 1, "gpu_layers": -1, "vram_share": -1, "disk_read_bytes": 1,
    "read_bytes_per_s": -1, "read_now_bytes_per_s": -1,
}  # fmt: skip
"""By the last word of the path: 1 where more of it is worse, -1 where less is. Cooler than its peers is no reason."""

_EFFECTS = frozenset({
    "busy", "memory_busy", "power_w", "power_max_w", "samples", "performance_state", "event_reason_bits",
    "pcie_transmit_bytes_per_s", "pcie_receive_bytes_per_s",
    "decode_tokens_per_s", "prefill_tokens_per_s", "client_decode_tokens_per_s", "time_to_first_token_s",
    "queue_s", "request_s", "own_cpus", "running", "waiting", "running_requests", "busy_slots", "deferred_requests",
    "tokens_per_s", "prompt_tokens_per_s", "each_tokens_per_s", "each_among", "looks", "seconds", "counts_waiting",
    "decode_decay", "load_s", "thinking_tokens", "answer_tokens",
})  # fmt: skip
"""What an instance does and how busy it is: a slow one differs in it because it is slow."""

_IDENTITY = frozenset({
    "pid", "url", "log_path", "log_level", "bus_id", "index", "path", "device", "front", "embedded", "made_up",
    "metrics_endpoint",
})  # fmt: skip
_NOT_A_REASON = frozenset({"runtime.name", "model.name", "model.metadata", "machine.system.container"})
"""What groups instances, and what tells where they are."""

_OF_GPUS = {
    "power_limit_w": "gpu_power_capped", "power_limit_default_w": "gpu_power_capped",
    "temperature_c": "gpu_thermal_throttling", "temperature_max_c": "gpu_thermal_throttling",
    "memory_temperature_c": "gpu_thermal_throttling", "temperature_margin_c": "gpu_thermal_throttling",
    "clock_hz": "gpu_held_at_low_clocks", "clock_max_hz": "gpu_held_at_low_clocks",
    "memory_clock_hz": "gpu_held_at_low_clocks", "pcie_width": "pcie_link_degraded",
    "pcie_generation": "pcie_link_degraded", "pcie_width_max_seen": "pcie_link_degraded",
    "pcie_generation_max_seen": "pcie_link_degraded", "others_busy": "gpu_shared_with_other_work",
    "vram_free_bytes": "other_process_holds_vram",
}  # fmt: skip
"""Causes by a fact of a GPU: they declare the list of GPUs as a whole."""
_DECIDES = {
    "machine.load.busy_cpus": "cpu_contended", "machine.load.cpu_pressure": "cpu_contended",
    "machine.load.average_1min": "cpu_contended", "machine.load.memory_pressure": "swapping",
    "machine.memory.swapped_in_bytes": "swapping", "machine.memory.swapped_out_bytes": "swapping",
    "machine.cpu.package_throttles": "cpu_clock_limited", "machine.cpu.temperature_c": "cpu_clock_limited",
    "run.traffic.preemptions": "kv_cache_preemption", "run.traffic.cache_used": "kv_cache_preemption",
    "runtime.prefix_hit_rate": "prompt_reprocessed", "runtime.version": "runtime_version_regressed",
}  # fmt: skip
"""Causes by a fact that they read beside those that they declare."""

MOST_DECLARING = 3
"""Causes that declare a fact: what more of them ask for, such as the list of GPUs, says little of any one."""
_NUMBER = re.compile(r"\.\d+(?=\.)")


@cache
def plain_path(path: str) -> str:
    """The path without numbers of GPUs: what is held against one another is a fact of whichever GPU."""
    return _NUMBER.sub("", path)


@cache
def can_be_a_reason(plain: str) -> bool:
    """Whether a difference in this fact can be why an instance is slow: no name, no address, no effect of slowness."""
    last = plain.rpartition(".")[2]
    return last not in _EFFECTS and last not in _IDENTITY and plain not in _NOT_A_REASON


@cache
def worse_way(plain: str) -> int:
    """1 where more of it is worse, -1 where less is, 0 where either may be."""
    return WORSE.get(plain.rpartition(".")[2], 0)


@cache
def decided_cause(plain: str) -> str:
    """The cause that this fact decides; empty where none does, or several."""
    of_gpus = _OF_GPUS if ".gpus." in plain else {}
    if cause := of_gpus.get(plain.rpartition(".")[2]) or _DECIDES.get(plain):
        return cause
    declaring = _declared().get(plain, ())
    return declaring[0] if 0 < len(declaring) <= MOST_DECLARING else ""


@cache
def _declared() -> dict[str, tuple[str, ...]]:
    """The causes that declare a fact as one that decides them, by its path."""
    found: dict[str, dict[str, None]] = {}
    for name, cause in all_causes().items():
        for need in cause.needs:
            for path in (need,) if isinstance(need, str) else need:
                found.setdefault(plain_path(path), {})[name] = None
    return {path: tuple(names) for path, names in found.items()}
