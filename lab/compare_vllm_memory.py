"""Compare what `unslow` computes for vLLM with what published starts of it report.

    python lab/compare_vllm_memory.py            a line for each published start, then the errors together

`data/vllm_memory.csv` has a row for each, with its address; figures that were not published are empty. The tokens of a
cache must follow exactly from its memory, as far as the two decimals that a log gives let one tell; the memory that is
left for the cache follows from a sum with uncertain terms, and must lie within their range.
"""

import csv
import json
import statistics
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.catalog.weight_parts import Storage, find_scheme, packed_storage, parts_of_shape, plain_storage
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.memory.footprint import Spread
from unslow.think.memory.vllm import (
    CacheCapacity,
    VllmSettings,
    activation_peak,
    block_bytes,
    cache_capacity,
    cache_groups,
    captured_graphs,
    longest_request,
    request_blocks,
    stage_layers,
    stage_weight_bytes,
    vllm_memory,
)

DATA = Path(__file__).parent / "data"
PLAIN_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
ROUNDING = 0.005 * GIB
"""A log rounds to two decimals."""


class Start(NamedTuple):
    """A published start of vLLM."""

    fields: dict[str, str]
    shape: HfShape
    storage: Storage
    settings: VllmSettings

    @property
    def name(self) -> str:
        """What was started."""
        split = f"{self.settings.tensor_parallel} x {self.settings.pipeline_parallel}"
        return f"{self.fields['model']} {self.fields['scheme']} {split} of {self.fields['gpu'] or '?'}"

    def gib(self, field: str) -> float | None:
        """A published figure."""
        return float(self.fields[field]) if self.fields[field] else None

    def number(self, field: str) -> int | None:
        """A published count."""
        return int(self.fields[field]) if self.fields[field] else None


def starts() -> list[Start]:
    """Every published start."""
    shapes = json.loads((DATA / "hf_shapes.json").read_text())
    with (DATA / "vllm_memory.csv").open(newline="") as file:
        return [start_of(row, msgspec.convert(shapes[row["model"]], HfShape)) for row in csv.DictReader(file)]


def start_of(row: dict[str, str], shape: HfShape) -> Start:
    """A row with what it stands for."""
    plain = PLAIN_BYTES.get(row["scheme"])
    storage = plain_storage(plain) if plain else packed_storage(find_scheme(row["scheme"]))
    return Start(row, shape, storage, settings_of(row)._replace(packing=storage.packing))


def settings_of(row: dict[str, str]) -> VllmSettings:
    """What was asked of vLLM; what was not published takes its defaults."""
    major, minor = row["version"].split(".")
    return VllmSettings(
        max_model_len=int(row["max_model_len"] or 4096),
        tensor_parallel=int(row["tensor"] or 1),
        pipeline_parallel=int(row["pipeline"] or 1),
        gpu_memory_utilization=float(row["utilization"]) if row["utilization"] else None,
        max_num_seqs=int(row["seqs"] or 0),
        max_num_batched_tokens=int(row["tokens"] or 0),
        kv_cache_dtype=row["kv_dtype"] or "auto",
        dtype_bytes=int(row["dtype_bytes"] or 2),
        prefix_caching=row["prefix_caching"] != "0",
        version=(int(major), int(minor)),
    )


def weights_gib(start: Start) -> float:
    """What the fullest stage's rank holds."""
    parts = parts_of_shape(start.shape, start.storage)
    return max(stage_weight_bytes(start.shape, parts, start.settings)) / GIB


def available(start: Start) -> Spread:
    """What is left for the cache on a card of the published size."""
    parts = parts_of_shape(start.shape, start.storage)
    total = round((start.gib("total_gib") or 0) * GIB)
    return vllm_memory(start.shape, parts, start.settings, total).available


def peak_gib(start: Start) -> float:
    """The activations of the first stage."""
    alone = start.settings.pipeline_parallel == 1
    return activation_peak(start.shape, start.settings, first=True, last=alone).mid / GIB


def cache_of(shape: HfShape, settings: VllmSettings, available_bytes: int) -> CacheCapacity:
    """The blocks and tokens of a cache whose memory is known, as a log's `Available KV cache memory` tells it."""
    settings = settings.on_card(0)
    groups = cache_groups(shape, settings)
    size = max(block_bytes(groups, layers) for layers in stage_layers(shape.layers, settings.pipeline_parallel))
    return cache_capacity(shape, settings, groups, available_bytes // size if size else 0)


def longest_of(shape: HfShape, settings: VllmSettings, available_bytes: int) -> tuple[int, int]:
    """What the longest request asked for takes, and the longest one that a cache of known memory serves."""
    settings = settings.on_card(0)
    groups = cache_groups(shape, settings)
    size = max(block_bytes(groups, layers) for layers in stage_layers(shape.layers, settings.pipeline_parallel))
    needed = request_blocks(shape, settings, groups, settings.max_model_len) * size
    return needed, longest_request(shape, settings, groups, available_bytes // size if size else 0)


def tokens_range(start: Start, available_gib: float) -> tuple[int, int]:
    """The tokens at the least and the most memory that the published figure stands for."""
    low, high = (cache_of(start.shape, start.settings, round(available_gib * GIB + d)) for d in (-ROUNDING, ROUNDING))
    return low.tokens, high.tokens


def longest_range(start: Start, available_gib: float) -> tuple[int, int]:
    """The longest requests at the least and the most memory that the published figure stands for."""
    low, high = (longest_of(start.shape, start.settings, round(available_gib * GIB + d)) for d in (-ROUNDING, ROUNDING))
    return low[1], high[1]


def needed_gib(start: Start) -> float:
    """What the longest request asked for takes."""
    return longest_of(start.shape, start.settings, 0)[0] / GIB


def main() -> None:
    """Print every comparison, and the errors together."""
    errors: dict[str, list[float]] = {"weights, %": [], "peak, GiB": [], "available, GiB": [], "graphs, GiB": []}
    exact: list[bool] = []
    for start in starts():
        line = f"{start.name:52}"
        if (weights := start.gib("weights_gib")) is not None:
            errors["weights, %"].append(100 * (weights_gib(start) / weights - 1))
            line += f" weights {weights_gib(start):7.3f} / {weights:7.3f}"
        if (peak := start.gib("activation_gib")) is not None:
            errors["peak, GiB"].append(peak_gib(start) - peak)
            line += f" peak {peak_gib(start):5.2f} / {peak:5.2f}"
        if (taken := start.gib("graphs_gib")) is not None:
            errors["graphs, GiB"].append(captured_graphs(start.shape, start.settings).mid / GIB - taken)
        line += about_cache(start, errors["available, GiB"], exact)
        print(line)
    for what, found in errors.items():
        sizes = [abs(error) for error in found]
        print(f"{what:14} {len(sizes):3} rows, median {statistics.median(sizes):.3f}, largest {max(sizes):.3f}")
    print(f"tokens and lengths: {sum(exact)} of {len(exact)} follow exactly from the published memory")


def about_cache(start: Start, errors: list[float], exact: list[bool]) -> str:
    """The part of a line that is about the cache."""
    told, line = start.gib("available_gib"), ""
    if told is None:
        return line
    if start.fields["total_gib"]:
        room = available(start)
        errors.append(room.mid / GIB - told)
        line += f" left {room.mid / GIB:6.2f} [{room.low / GIB:.2f}, {room.high / GIB:.2f}] / {told:6.2f}"
    for field, computed in (("kv_tokens", tokens_range(start, told)), ("longest", longest_range(start, told))):
        if (count := start.number(field)) is not None:
            exact.append(computed[0] <= count <= computed[1])
            line += f" {field} {computed[0]}..{computed[1]} / {count}{'' if exact[-1] else '  differs'}"
    return line


if __name__ == "__main__":
    main()
