"""Members of a fleet as a Prometheus tells of them: one vLLM that is well, to be changed by each test."""

from typing import Any

import msgspec

from unslow.fleet.member import Member, MemberGpu, Reading

H100 = "NVIDIA H100 80GB HBM3"
RTX_4090 = "NVIDIA GeForce RTX 4090"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
CACHE = {
    "gpu_memory_utilization": "0.9", "num_gpu_blocks": "28000", "block_size": "16", "enable_prefix_caching": "True",
    "cache_dtype": "auto",
}  # fmt: skip
CACHE_OF_TWO = {**CACHE, "num_gpu_blocks": "66000"}
_GPU = {
    "vram_total_bytes": 85520809984.0, "vram_used_bytes": 77e9, "vram_used_max_bytes": 77e9, "vram_free_bytes": 8.5e9,
    "busy": 0.97, "memory_busy": 0.6, "clock_hz": 1.93e9, "clock_max_hz": 1.98e9, "temperature_c": 58.0,
    "temperature_max_c": 63.0, "power_w": 450.0, "power_max_w": 560.0, "power_limit_w": 700.0,
    "power_limit_default_w": 700.0, "thermal_throttled": 0.0, "power_throttled": 0.0, "pcie_generation": 5.0,
    "pcie_generation_max": 5.0, "pcie_width": 16.0, "pcie_width_max": 16.0,
}  # fmt: skip
_HOST = {
    "cpus": 64.0, "busy_cpus": 6.0, "load_1min": 7.0, "memory_total_bytes": 512e9, "memory_available_bytes": 400e9,
    "swap_used_bytes": 0.0, "swap_total_bytes": 0.0, "cpu_pressure": 0.01, "memory_pressure": 0.0, "io_pressure": 0.01,
    "quota_cpus": 16.0, "cpu_throttled": 0.0, "numa_nodes": 2.0,
}  # fmt: skip


def readings(**values: float | None) -> dict[str, Reading]:
    """Those that have a value."""
    return {name: Reading(value, f"{name}, mean over 15 min") for name, value in values.items() if value is not None}


def gpu(index: int = 0, name: str = H100, **changed: float | None) -> MemberGpu:
    """A GPU at work."""
    return MemberGpu(index=index, name=name, vendor="NVIDIA", readings=readings(**{**_GPU, **changed}))


def member(
    *gpus: MemberGpu, host: dict[str, float | None] | None = None, about: dict[str, Any] | None = None, **engine: Any
) -> Member:
    """vLLM with eight requests at a time on an H100; `engine`, `host` and `about` change what is told of it.

    A token takes 5.5 ms, as measured with eight users on an H200 (lab/data/vllm_h200_sweep.jsonl), and the 1.4 ms that
    an H100 takes longer to read 16 GB of weights, at 3.35 instead of 4.8 TB/s.
    """
    gap, running = engine.get("token_gap_s", 0.007) or 1.0, engine.get("running", 8.0) or 0.0
    told = {
        "up": 1.0, "samples": 60.0, "running": running, "running_spread": 2.0,
        "waiting": 0.02, "generated_tokens_per_s": 0.97 * running / gap,
        "prompt_tokens_per_s": 500.0, "preemptions": 0.0, "cache_used": 0.2,
        "tokens_counted": 873 * running / gap, "token_gap_s": gap, "first_token_s": 0.08,
        "queue_s": 0.001, "request_s": 2.4, "prompt_tokens": 400.0, "answer_tokens": 320.0,
        "prefix_hit_rate": 0.3,
    }  # fmt: skip
    one = Member(
        key="gpu-1:8000",
        runtime="vLLM",
        model=LLAMA,
        version="0.11.0",
        host_name="gpu-1",
        window_s=900.0,
        engine=readings(**{**told, **engine}),
        gpus=gpus or (gpu(),),
        host=readings(**{**_HOST, **(host or {})}),
        info=CACHE,
    )
    return msgspec.structs.replace(one, **(about or {}))


def llama_cpp(*gpus: MemberGpu, model: str = "", **engine: Any) -> Member:
    """A llama-server with four slots, of which half of one is in use."""
    unlike = {"token_gap_s": None, "queue_s": None, "cache_used": None, "preemptions": None}
    told = {
        "running": 0.5, "running_spread": 0.6, "waiting": 0.0, "generated_tokens_per_s": 20.0,
        "decode_tokens_per_busy_s": 40.0, "places": 4.0,
    }  # fmt: skip
    about = {"runtime": "llama.cpp", "model": model, "version": "b9000", "info": {}}
    return member(*gpus, about=about, **{**unlike, **told, **engine})
