"""A row of a table of measurements, understood: the columns of `measurements.csv`, read as people fill them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.device import Device
from unslow.catalog.device_names import find_cpu, find_written
from unslow.catalog.models import WellKnown
from unslow.facts.values import Unknown
from unslow.think.physics.chip import Setting
from unslow.think.physics.interconnect import LAYER, ROW, TENSOR
from unslow.think.physics.kv_cache import F16_BYTES, element_bytes
from unslow.think.speed.builds import year_of
from unslow.think.speed.chips import has_links, has_wide_vectors, is_server_by_name, usual_backend
from unslow.think.speed.load import ModelLoad
from unslow.think.speed.named_models import named_load, named_model
from unslow.think.speed.types import class_of

Row = Mapping[str, str]
_BILLION = 1e9
_BACKENDS = {
    "cuda": "cuda", "rocm": "rocm", "hip": "rocm", "metal": "metal", "mtl": "metal", "mlx": "metal", "sycl": "vulkan",
    "vulkan": "vulkan", "opencl": "vulkan", "cpu": "cpu", "blas": "cpu",
}  # fmt: skip
_RUNTIMES = ("vllm", "exllama", "mlx", "mlc", "transformers", "tensorrt", "sglang")
_CPU_FORKS = ("ik_llama",)
"""Forks of llama.cpp with faster kernels for CPUs."""
_TEST = re.compile(r"(tg|pp)\s?(\d+)?")
_FUSES_SINCE = 2025.65
"""llama.cpp uses flash attention by default, where it can, since the end of August 2025."""
_SPLITS_ROWS_UNTIL = 2024.05
"""llama.cpp split every matrix by rows until January 2024 (pull request 4766), whole layers since."""
_TENSOR_SPLIT = re.compile(r"sm tensor|sm row|split-mode (?:tensor|row|graph)|tensor parallel|\btp ?[=:]? ?\d")
_SINGLE_BOARD = re.compile(r"host: (?:raspberry )?pi\b|\bpi (?:cm)?[45]|pi cm5|pi 500")
_MICRO_BATCH = re.compile(r"\bub=(\d+)")
_EXPERTS_ON_CPU = re.compile(r"n-?cpu-?moe\D{0,3}(\d+)|\bcmoe\b|cpu-moe")
_CACHE_TYPES = {"q8": "q8_0", "kv4": "q4_0", "fp8": "i8", "fp8_e4m3": "i8"}
"""Types of a cache as people write them, by one of ggml that is as large."""
_USUAL_TEST = 128.0


class Asked(NamedTuple):
    """A row that was understood."""

    device: Device
    gpus: int
    backend: str
    model: WellKnown | None
    """None for a file that the catalogue does not know."""
    load: ModelLoad
    setting: Setting
    year: float
    kind: str
    """tg or pp."""
    tokens: float
    """Of the test."""
    start: float
    """The depth at which it begins."""
    element_bytes: float
    micro_batch: float
    split: str
    gpu_layers: int | None
    """None for all."""
    experts_on_cpu: int
    threads: float
    conversations: float
    is_sized: bool
    """Whether the row says how large the file is."""

    @property
    def depth(self) -> float:
        """In the middle of a test that generates; where a test of a prompt begins."""
        return self.start + self.tokens / 2 if self.kind == "tg" else self.start


def asked(row: Row) -> Asked | Unknown:
    """What a row asks, or why it can't be understood."""
    test = _TEST.match(row.get("test", "tg128").strip() or "tg128")
    if not test:
        return Unknown(f"no test of speed: {row.get('test')!r}")
    device = _device(row.get("hardware", ""), is_cpu=_is_cpu(row))
    if isinstance(device, Unknown):
        return device
    if _is_cpu(row) and device.kind in {"gpu", "asic"}:
        return Unknown(f"it ran on a CPU, and only the GPU is named: {device.name}")
    model = named_model(row.get("model", ""), number(row.get("params_b")) * _BILLION)
    if model is None:
        return Unknown(f"the model {row.get('model')!r} is not in the catalogue")
    return _asked(row, test, device, model)


def _asked(row: Row, test: re.Match[str], device: Device, model: WellKnown) -> Asked:
    note, gib = row.get("note", "").lower(), number(row.get("model_size_gib"))
    quant = row.get("quant", "")
    load = named_load(model, quant, gib)
    backend = _backend(row, device)
    year = year_of(row.get("date_or_build", ""))
    gpus = max(1, int(number(row.get("n_gpus"), 1.0)))
    return Asked(
        device=device,
        gpus=gpus,
        backend=backend,
        model=model,
        load=load,
        setting=_setting(row, device, backend, quant),
        year=year,
        kind=test[1],
        tokens=float(test[2] or _USUAL_TEST),
        start=max(0.0, number(row.get("ctx_or_depth"))),
        element_bytes=_element_bytes(row),
        micro_batch=_micro_batch(row),
        split=_split(row, gpus, year),
        gpu_layers=_gpu_layers(row, len(load.layers)),
        experts_on_cpu=_experts_on_cpu(row, note),
        threads=number(row.get("threads")),
        conversations=_conversations(row),
        is_sized=gib > 0,
    )


def number(text: str | None, default: float = 0.0) -> float:
    """The number in a cell; the default where there is none."""
    try:
        value = float(text or "")
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


@lru_cache(maxsize=4096)
def _device(text: str, *, is_cpu: bool) -> Device | Unknown:
    """One device; several unlike ones are none."""
    found = find_cpu(text) if is_cpu else None
    found = found or find_written(text)
    if found is None or not found.memory_bytes_per_s:
        return Unknown(f"the device {text!r} is not in the catalogue", "`unslow fit --devices` lists them")
    return found


def _is_cpu(row: Row) -> bool:
    return row.get("backend", "").upper().startswith("CPU") or row.get("ngl", "").strip() == "0"


def _backend(row: Row, device: Device) -> str:
    if _is_cpu(row) or device.kind == "cpu":
        return "cpu"
    words = re.findall(r"[a-z]+", row.get("backend", "").lower())
    named = [_BACKENDS[w] for w in words if w in _BACKENDS]
    if "cuda" in named and device.vendor == "NVIDIA":  # "Vulkan/CUDA": the quicker of two
        return "cuda"
    return named[0] if named else usual_backend(device)


def _setting(row: Row, device: Device, backend: str, quant: str) -> Setting:
    runtime = row.get("runtime", "").lower()
    note = row.get("note", "").lower()
    return Setting(
        backend=backend,
        family=device.family if backend != "cpu" or device.kind == "cpu" else "",
        device=device.name,
        types=class_of(quant),
        runtime=next((r for r in (_CPU_FORKS if backend == "cpu" else _RUNTIMES) if r in runtime), ""),
        fused=_is_fused(row),
        packed_cache=_element_bytes(row) < F16_BYTES,
        linked=has_links(device),
        wide_vectors=backend == "cpu" and has_wide_vectors(row.get("hardware", "")),
        server=backend == "cpu" and is_server_by_name(row.get("hardware", "")),
        slow_host=bool(_SINGLE_BOARD.search(note) or _SINGLE_BOARD.search(row.get("hardware", "").lower())),
    )


def _is_fused(row: Row) -> bool:
    """As it is said; else as llama.cpp has it by default, which was off before it learned to decide."""
    said = row.get("flash_attn", "").strip().lower()
    if said:
        return said in {"1", "1.0", "true", "on", "yes"}
    built = row.get("date_or_build", "").strip()
    return not built or year_of(built) >= _FUSES_SINCE


def _element_bytes(row: Row) -> float:
    written = row.get("kv_type", "").split("/")[0].lower()
    return element_bytes(_CACHE_TYPES.get(written, written))


def _micro_batch(row: Row) -> float:
    found = _MICRO_BATCH.search(row.get("batch", "")) or _MICRO_BATCH.search(row.get("note", ""))
    return float(found[1]) if found else 512.0


def _split(row: Row, gpus: int, year: float) -> str:
    note, runtime = row.get("note", "").lower(), row.get("runtime", "").lower()
    if gpus == 1 or "split-mode layer" in note:
        return LAYER
    if _TENSOR_SPLIT.search(note) or any(r in runtime for r in ("vllm", "mlc", "exllama", "tensorrt", "sglang")):
        return TENSOR
    return ROW if year < _SPLITS_ROWS_UNTIL else LAYER


def _gpu_layers(row: Row, layers: int) -> int | None:
    """None for all: as many as there are layers means all, as people write it."""
    found = re.match(r"\s*(\d{1,4})", row.get("ngl", ""))
    return int(found[1]) if found and int(found[1]) < layers else None


def _experts_on_cpu(row: Row, note: str) -> int:
    found = _EXPERTS_ON_CPU.search(row.get("ngl", "").lower()) or _EXPERTS_ON_CPU.search(note)
    return 0 if not found else int(found[1] or 999)


def _conversations(row: Row) -> float:
    found = re.match(r"(?:conc|B)=(\d+)", row.get("batch", ""))
    return float(found[1]) if found else 1.0
