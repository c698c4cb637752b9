"""Benchmarks to keep, find and compare."""

from typing import Any

from unslow.facts.bench import DECODE, PREFILL, Bench, Failure, Pass, Spread
from unslow.facts.calibration import MachineMark

MARK = MachineMark(cpu="Ryzen 7 5800X", cores=8, gpus=("RTX 4090",), drivers=("575.64",), kernel="6.8.0-52")
SETTINGS = {"runtime.threads": "8", "runtime.context_length": "4096", "runtime.flash_attention": "on"}


def spread(median: float, count: int = 5) -> Spread:
    return Spread(median=median, low=median * 0.98, high=median * 1.02, count=count, spread=0.01)


def around(median: float) -> tuple[float, ...]:
    return tuple(median * factor for factor in (0.99, 0.995, 1.0, 1.005, 1.01))


def answered(number: int = 1, **other: Any) -> Pass:
    known = {
        "case": "short", "round": number, "started_s": float(number), "asked_tokens": 128, "prompt_tokens": 40,
        "generated_tokens": 128, "server_prefill_s": 0.02, "server_decode_s": 1.27, "client_first_token_s": 0.03,
        "client_last_token_s": 1.3, "client_total_s": 1.31,
    }  # fmt: skip
    return Pass(**{**known, **other})


def failed(number: int = 1) -> Failure:
    return Failure(case="short", round=number, started_s=1.0, lasted_s=2.0, kind="stalled", why="nothing for 300 s")


def bench(number: int = 1, decode: float = 100.0, **other: Any) -> Bench:
    known: dict[str, Any] = {
        "id": f"{number:04d}-abcdef",
        "unslow_version": "1",
        "taken_at": f"2026-01-{number:02d}T10:00:00Z",
        "seconds": 60.0,
        "protocol": "standard",
        "runtime": "llama.cpp",
        "runtime_version": "b9000",
        "model": "llama-3.1-8b-q4_k_m.gguf",
        "model_bytes": 4_920_734_272,
        "machine": MARK,
        "settings": SETTINGS,
        "conditions": {"gpu_clock_hz": 2.5e9, "others_cpus": 0.1},
        "passes": (answered(1), answered(2)),
        "figures": {DECODE: spread(decode), PREFILL: spread(decode * 20)},
        "samples": {DECODE: around(decode), PREFILL: around(decode * 20)},
    }
    return Bench(**{**known, **other})
