"""A row of a table of measurements: its columns understood, its group, what lies where, the question about speed."""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from unslow.catalog.device_names import find_cpu, find_written
from unslow.catalog.devices import Device
from unslow.catalog.models import WellKnown
from unslow.facts.model import HfShape
from unslow.facts.values import GIB, Unknown
from unslow.think.physics.chip import Chip, SpeedSetting, type_class
from unslow.think.physics.placement import F16_BYTES, SPLIT_BY_LAYER, SPLIT_BY_ROW, SPLIT_BY_TENSOR, element_bytes
from unslow.think.speed import question
from unslow.think.speed.load import LayerLoad, ModelLoad, Totals, layer_totals, totals
from unslow.think.speed.named_models import named_load, named_model

Row = Mapping[str, str]
_BILLION = 1e9
_BACKENDS = {
    "cuda": "cuda", "rocm": "rocm", "hip": "rocm", "metal": "metal", "mtl": "metal", "mlx": "metal", "sycl": "vulkan",
    "vulkan": "vulkan", "opencl": "vulkan", "cpu": "cpu", "blas": "cpu",
}  # fmt: skip
_RUNTIMES = ("vllm", "exllama", "mlx", "mlc", "transformers", "tensorrt", "sglang")
_CPU_FORKS = ("ik_llama",)  # forks of llama.cpp with faster kernels for CPUs
_TEST = re.compile(r"(tg|pp)\s?(\d+)?")
_USUAL_TEST = 128.0
_FUSES_SINCE = 2025.65  # llama.cpp uses flash attention by default, where it can, since the end of August 2025
_SPLITS_ROWS_UNTIL = 2024.05  # llama.cpp split matrices by rows until January 2024 (pull request 4766), layers since
_TENSOR_SPLIT = re.compile(r"sm tensor|sm row|split-mode (?:tensor|row|graph)|tensor parallel|\btp ?[=:]? ?\d")
_SINGLE_BOARD = re.compile(r"host: (?:raspberry )?pi\b|\bpi (?:cm)?[45]|pi cm5|pi 500")
_MICRO_BATCH = re.compile(r"\bub=(\d+)")
_EXPERTS_ON_CPU = re.compile(r"n-?cpu-?moe\D{0,3}(\d+)|\bcmoe\b|cpu-moe")
_CACHE_TYPES = {"q8": "q8_0", "kv4": "q4_0", "fp8": "i8", "fp8_e4m3": "i8"}
"""Types of a cache as people write them, by one of ggml that is as large."""
PREFILL, PARTIAL, CPU, SEVERAL = "prefill", "partial offload", "cpu only", "several gpus"
MOE, DEEP, DENSE = "moe", "deep context", "dense gpu"
DEEP_FROM = 4096.0
USUAL_FAMILY = "ddr5"
USABLE = 0.97  # of a card's memory, after what its driver keeps
BESIDE_BYTES = GIB  # what a runtime's own context and its compute buffers take on each GPU, about
BLOCK = 4096  # caches are made larger than what is in them: in steps of so many tokens here


class AskedRow(NamedTuple):
    """A row that was understood."""

    device: Device
    gpus: int
    backend: str
    model: WellKnown | None  # None for a file that the catalog does not know
    load: ModelLoad
    setting: SpeedSetting
    year: float
    kind: str  # tg or pp
    tokens: float  # Of the test
    start: float  # The depth at which it begins
    element_bytes: float
    micro_batch: float
    split: str
    gpu_layers: int | None  # None for all
    experts_on_cpu: int
    threads: float
    conversations: float

    @property
    def depth(self) -> float:
        """In the middle of a test that generates; where a test of a prompt begins."""
        return self.start + self.tokens / 2 if self.kind == "tg" else self.start


def parse_row(row: Row) -> AskedRow | Unknown:
    """What a row asks, or why it can't be understood."""
    test = _TEST.match(row.get("test", "tg128").strip() or "tg128")
    if not test:
        return Unknown(f"not a speed test: {row.get('test')!r}")
    device = _device(row.get("hardware", ""), is_cpu=_is_cpu(row))
    if isinstance(device, Unknown):
        return device
    if _is_cpu(row) and device.kind in {"gpu", "asic"}:
        return Unknown(f"it ran on a CPU, but only the GPU is named: {device.name}")
    model = named_model(row.get("model", ""), cell_number(row.get("params_b")) * _BILLION)
    if model is None:
        return Unknown(f"the model {row.get('model')!r} is not in the catalog")
    return _parse_question(row, test, device, model)


@lru_cache(maxsize=4096)
def _device(text: str, *, is_cpu: bool) -> Device | Unknown:
    """One device; several unlike ones are none."""
    found = find_cpu(text) if is_cpu else None
    found = found or find_written(text)
    if found is None or not found.memory_bytes_per_s:
        return Unknown(f"the device {text!r} is not in the catalog", "`unslow fit --devices` lists them")
    return found


def _is_cpu(row: Row) -> bool:
    return row.get("backend", "").upper().startswith("CPU") or row.get("ngl", "").strip() == "0"


def _parse_question(row: Row, test: re.Match[str], device: Device, model: WellKnown) -> AskedRow:
    quant = row.get("quant", "")
    load = named_load(model, quant, cell_number(row.get("model_size_gib")))
    note, placed = row.get("note", "").lower(), row.get("ngl", "")
    backend = _backend(row, device)
    year = question.year_of_build(row.get("date_or_build", ""))
    gpus = max(1, int(cell_number(row.get("n_gpus"), 1.0)))
    micro_batch = _MICRO_BATCH.search(row.get("batch", "")) or _MICRO_BATCH.search(row.get("note", ""))
    gpu_layers = re.match(r"\s*(\d{1,4})", placed)
    experts = _EXPERTS_ON_CPU.search(placed.lower()) or _EXPERTS_ON_CPU.search(note)
    conversations = re.match(r"(?:conc|B)=(\d+)", row.get("batch", ""))
    cache_type = row.get("kv_type", "").split("/")[0].lower()
    element = element_bytes(_CACHE_TYPES.get(cache_type, cache_type))
    return AskedRow(
        device=device,
        gpus=gpus,
        backend=backend,
        model=model,
        load=load,
        setting=_setting(row, device, backend, quant, packed_cache=element < F16_BYTES),
        year=year,
        kind=test[1],
        tokens=float(test[2] or _USUAL_TEST),
        start=max(0.0, cell_number(row.get("ctx_or_depth"))),
        element_bytes=element,
        micro_batch=float(micro_batch[1]) if micro_batch else 512.0,
        split=_split(row, gpus, year),
        # As many as there are layers means all, as people write it
        gpu_layers=int(gpu_layers[1]) if gpu_layers and int(gpu_layers[1]) < len(load.layers) else None,
        experts_on_cpu=int(experts[1] or 999) if experts else 0,
        threads=cell_number(row.get("threads")),
        conversations=float(conversations[1]) if conversations else 1.0,
    )


def _backend(row: Row, device: Device) -> str:
    if _is_cpu(row) or device.kind == "cpu":
        return "cpu"
    words = re.findall(r"[a-z]+", row.get("backend", "").lower())
    named = [_BACKENDS[w] for w in words if w in _BACKENDS]
    if "cuda" in named and device.vendor == "NVIDIA":  # "Vulkan/CUDA": the quicker of two
        return "cuda"
    return named[0] if named else question.usual_backend(device)


def _setting(row: Row, device: Device, backend: str, quant: str, *, packed_cache: bool) -> SpeedSetting:
    runtime = row.get("runtime", "").lower()
    note = row.get("note", "").lower()
    # Flash attention as it is said; else as llama.cpp has it by default, which was off before it learned to decide
    said, built = row.get("flash_attn", "").strip().lower(), row.get("date_or_build", "").strip()
    by_default = not built or question.year_of_build(built) >= _FUSES_SINCE
    return SpeedSetting(
        backend=backend,
        family=device.family if backend != "cpu" or device.kind == "cpu" else "",
        device=device.name,
        types=type_class(quant),
        runtime=next((r for r in (_CPU_FORKS if backend == "cpu" else _RUNTIMES) if r in runtime), ""),
        fused=said in {"1", "1.0", "true", "on", "yes"} if said else by_default,
        packed_cache=packed_cache,
        linked=question.has_links(device),
        wide_vectors=backend == "cpu" and question.has_wide_vectors(row.get("hardware", "")),
        server=backend == "cpu" and question.is_server_by_name(row.get("hardware", "")),
        slow_host=bool(_SINGLE_BOARD.search(note) or _SINGLE_BOARD.search(row.get("hardware", "").lower())),
    )


def _split(row: Row, gpus: int, year: float) -> str:
    note, runtime = row.get("note", "").lower(), row.get("runtime", "").lower()
    if gpus == 1 or "split-mode layer" in note:
        return SPLIT_BY_LAYER
    if _TENSOR_SPLIT.search(note) or any(r in runtime for r in ("vllm", "mlc", "exllama", "tensorrt", "sglang")):
        return SPLIT_BY_TENSOR
    return SPLIT_BY_ROW if year < _SPLITS_ROWS_UNTIL else SPLIT_BY_LAYER


def cell_number(text: str | None, default: float = 0.0) -> float:
    """The number in a cell; the default where there is none."""
    try:
        value = float(text or "")
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


def placed_row(asked: AskedRow) -> AskedRow:
    """The same with what fits on the GPUs, where not all of it does: experts stay behind first, then whole layers."""
    on_gpu_bytes = asked.load.file_bytes - asked.load.table_bytes
    # What was measured is taken to have fitted if it can: only weights that are larger than the memory are divided
    if not is_open(asked) or on_gpu_bytes <= asked.device.capacity_bytes * asked.gpus:
        return asked
    elements = float(totals(asked.load).cache_elements(block_of(asked.start)))
    cache = elements * asked.element_bytes * asked.conversations
    room = asked.gpus * (USABLE * asked.device.capacity_bytes - BESIDE_BYTES) - cache
    # The experts of how many layers stay on the host so that the rest fits; None where that does not help
    left = room - on_gpu_bytes
    lefts = accumulate((layer.expert_bytes for layer in asked.load.layers), initial=left)
    experts = next((n for n, left in enumerate(lefts) if left >= 0), None)
    if experts is not None:
        return asked._replace(experts_on_cpu=experts)
    count = len(asked.load.layers)
    each = sum(layer.dense_bytes + layer.expert_bytes for layer in asked.load.layers) / max(1, count)
    return asked._replace(gpu_layers=max(0, min(count - 1, int(room / max(1.0, each)))))


def is_open(asked: AskedRow) -> bool:
    """Whether the placement may have to be chosen: a GPU with a memory of its own, and nothing said about layers."""
    all_on_gpu = asked.gpu_layers is None or asked.gpu_layers >= len(asked.load.layers)
    memory = asked.device.capacity_bytes if asked.device.kind == "gpu" and asked.backend != "cpu" else 0
    return bool(memory) and all_on_gpu and not asked.experts_on_cpu


def block_of(depth: Any) -> Any:
    """The context that such a depth is in, of a number or of an array."""
    return BLOCK * (1 + depth // BLOCK)


def question_of(asked: AskedRow) -> question.SpeedQuestion:
    """The question of a row."""
    on_cpu, setting = asked.setting.backend == "cpu", asked.setting
    chip = question.cpu_chip(asked.device, asked.threads) if on_cpu else question.gpu_chip(asked.device)
    when = asked.year, asked.depth, asked.element_bytes, asked.conversations
    whole = question.SpeedQuestion(None, chip, setting, *when)
    if on_cpu:
        return whole._replace(host=question.Host(totals(asked.load), chip, setting))
    placed = (asked.load, asked.gpu_layers, asked.experts_on_cpu)
    return whole._replace(
        totals=on_gpu(*placed),
        gpus=float(asked.gpus),
        split=asked.split,
        peers=question.has_peers(asked.device) or asked.split == SPLIT_BY_LAYER,
        host=placed_on_host(*placed, question.USUAL_HOST, setting),
    )


def on_gpu(load: ModelLoad, gpu_layers: int | None, experts_on_cpu: int = 0) -> Totals:
    """The part of a model on GPUs: the output first, then the last layers, as llama.cpp places them."""
    first, output_on_gpu = _first_on_gpu(load, gpu_layers)
    layers = [
        x._replace(expert_bytes=0.0, expert_weights=0.0, expert_kinds={}) if i < experts_on_cpu else x
        for i, x in enumerate(load.layers)
    ][first:]
    return layer_totals(load, layers, with_output=output_on_gpu)


def placed_on_host(
    load: ModelLoad,
    gpu_layers: int | None,
    experts_on_cpu: int,
    chip: Chip,
    setting: SpeedSetting,
    family: str = USUAL_FAMILY,
) -> question.Host | None:
    """The rest, which the CPU computes; None where nothing is left. `family` is the CPU's."""
    first, output_on_gpu = _first_on_gpu(load, gpu_layers)
    experts = [
        LayerLoad(expert_bytes=x.expert_bytes, expert_weights=x.expert_weights, expert_kinds=x.expert_kinds)
        for x in load.layers[first:experts_on_cpu]
        if x.expert_bytes
    ]
    if output_on_gpu and not first and not experts:
        return None
    layers = layer_totals(load, load.layers[:first], with_output=not output_on_gpu)
    both = layers.and_also(layer_totals(load, experts, with_output=False))
    crossings = 2.0 * len(experts) + (1.0 if first else 0.0)
    beside = setting._replace(backend="cpu", family=family, device="", beside_gpu=True)
    return question.Host(both, chip, beside, crossings)


def _first_on_gpu(load: ModelLoad, gpu_layers: int | None) -> tuple[int, bool]:
    """The first layer on a GPU, and whether the output is: it goes there before any layer does, and counts as one."""
    every = len(load.layers)
    on_host = 0 if gpu_layers is None else max(0, every + 1 - gpu_layers)
    return min(every, on_host), on_host <= every


def group_of(asked: AskedRow) -> str:
    """The group of a row."""
    if asked.kind == "pp":
        return PREFILL
    if asked.backend == "cpu":
        return CPU
    if asked.experts_on_cpu or (asked.gpu_layers is not None and asked.gpu_layers < len(asked.load.layers)):
        return PARTIAL
    return gpu_group(asked.load, asked.gpus, asked.start)


def gpu_group(model: ModelLoad | HfShape, gpus: int, depth: float) -> str:
    """The group of a model all of which lies on GPUs."""
    if gpus > 1:
        return SEVERAL
    if 0 < model.experts_used < model.experts:
        return MOE
    return DEEP if depth >= DEEP_FROM else DENSE
