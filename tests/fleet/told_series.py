"""Series that are made up for a test, and blocks of them for a real Prometheus."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lab.fleet.blocks import make_blocks

STEP_S, WINDOW_S, BEFORE_S = 30.0, 900.0, 86400.0
Value = Callable[[float], float | None]
"""By the seconds before now; None where there is no sample."""


class Told(NamedTuple):
    """One series."""

    name: str
    labels: Mapping[str, str]
    value: Value
    before: bool = False
    """Whether it is of a day ago."""


def level(value: float) -> Value:
    """A gauge that stays."""
    return lambda ago: value


def growing(per_s: float) -> Value:
    """A counter."""
    return lambda ago: per_s * (1_000_000 - ago)


def vllm(
    target: Mapping[str, str], *, gap_s: float = 0.02, engine: str = "0", before: bool = False, model: str = "llama"
) -> Iterator[Told]:
    """A vLLM that answers four requests and gives a hundred tokens a second."""
    per_s = 100.0
    own = {**target, "engine": engine, "model_name": model}
    yield Told("up", target, level(1), before)
    yield Told("vllm:num_requests_running", own, level(4), before)
    yield Told("vllm:num_requests_waiting", own, level(0), before)
    yield Told("vllm:generation_tokens_total", own, growing(per_s), before)
    yield Told("vllm:inter_token_latency_seconds_count", own, growing(per_s), before)
    yield Told("vllm:inter_token_latency_seconds_sum", own, growing(per_s * gap_s), before)
    yield Told("vllm:kv_cache_usage_perc", own, level(0.5), before)


def dcgm(labels: Mapping[str, str], index: int = 0, reasons: Value | None = None) -> Iterator[Told]:
    """A GPU of NVIDIA."""
    own = {"gpu": str(index), "UUID": f"GPU-{labels.get('Hostname', '')}-{index}", "modelName": "NVIDIA L4", **labels}
    yield Told("DCGM_FI_DEV_GPU_TEMP", own, level(60))
    yield Told("DCGM_FI_DEV_FB_USED", own, level(20_000))
    yield Told("DCGM_FI_DEV_FB_FREE", own, level(3_000))
    yield Told("DCGM_FI_DEV_GPU_UTIL", own, lambda ago: 100.0 if ago > WINDOW_S / 2 else 0.0)
    yield Told("DCGM_FI_DEV_SM_CLOCK", own, lambda ago: 2000.0 if ago > WINDOW_S / 2 else 300.0)
    yield Told("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", own, reasons or level(0))


def node(target: Mapping[str, str], name: str) -> Iterator[Told]:
    """A host with two processors, one of them busy."""
    yield Told("node_uname_info", {**target, "nodename": name, "machine": "x86_64", "sysname": "Linux"}, level(1))
    yield Told("node_memory_MemTotal_bytes", target, level(64e9))
    yield Told("node_memory_MemAvailable_bytes", target, level(32e9))
    for cpu in range(2):
        yield Told("node_cpu_seconds_total", {**target, "cpu": str(cpu), "mode": "idle"}, growing(float(cpu)))
        yield Told("node_cpu_seconds_total", {**target, "cpu": str(cpu), "mode": "user"}, growing(1.0 - cpu))


def write_blocks(promtool: Path, folder: Path, scenarios: Mapping[str, list[Told]], now_s: float) -> None:
    """Blocks with all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "series.om"
    with text.open("w", encoding="utf-8") as out:
        for scenario, series in scenarios.items():
            for one in series:
                inside = ",".join(f'{name}="{value}"' for name, value in {"scenario": scenario, **one.labels}.items())
                for place in range(int(WINDOW_S / STEP_S) + 2, -1, -1):
                    ago = place * STEP_S
                    value = one.value(ago)
                    if value is not None:
                        time_s = now_s - ago - (BEFORE_S if one.before else 0.0)
                        out.write(f"{one.name}{{{inside}}} {value!r} {time_s:.3f}\n")
        out.write("# EOF\n")
    make_blocks(promtool, text, folder)
    text.unlink()
