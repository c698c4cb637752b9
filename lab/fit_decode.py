"""Learn, for each backend and family of GPUs, the share of the bandwidth that decoding reaches and what a layer costs.

    python lab/fit_decode.py            prints a row for each; the figures go into src/unslow/catalog/backends
    python lab/fit_decode.py --h200     the same from our own llama-bench runs on one H200

For every published row of a dense model on one GPU at shallow depth, the time of a token is bytes / (efficiency x
bandwidth) + layers x overhead. The pair with the least median error wins, searched within physical bounds. Rows that
are flagged as slow set-ups, spills or regressions, and models larger than the card, are left out.
"""

import collections
import csv
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unslow.catalog.devices import find_device, same_name, words_of
from unslow.facts.units import GIB
from unslow.think.physics.decode import Backend, layer_overhead_s

DATA = Path(__file__).parent / "data"
FLAGGED = (
    "SLOW SETUP",
    "SPILL",
    "low trust",
    "regression",
    "anomal",
    "low-efficiency",
    "RPC",
    "ot=",
    "nkvo=1",
    "PARTIAL",
)
SPARSE = re.compile(r"(?i)moe|mixtral|-a\d+b|\ba\d+b\b|gpt-oss|deepseek|8x|16x|maverick|scout|glm-4\.5|kimi|next")
BACKENDS = {"cuda": "cuda", "rocm": "rocm", "hip": "rocm", "vulkan": "vulkan", "metal": "metal", "mtl": "metal"}
# (most billions of parameters, layers, width): the usual dense shapes
SHAPES = ((0.2, 30, 576), (0.7, 24, 896), (1.3, 16, 2048), (2, 28, 1536), (4.5, 28, 3072), (9.5, 32, 4096),
          (15, 40, 5120), (25, 40, 5120), (36, 60, 6656), (75, 80, 8192), (130, 88, 12288))  # fmt: skip
READ_SHARE = 0.97  # of the file: the token table is not read
TABLE_SHARE = {"llama8b": 0.94, "smol135m": 1.0, "llama70b": 0.986}  # tied in the smallest
DEEPEST, LONGEST_ANSWER = 1100, 2048
EFFICIENCIES = [e / 100 for e in range(40, 97, 2)]
OVERHEADS_S = [o * 1e-6 for o in (5, 10, 15, 20, 25, 30, 40, 50, 60, 65, 70, 75, 80, 90, 100, 120, 150)]
FEWEST = 4


class Row(NamedTuple):
    """One configuration: what it should take, and what it took."""

    backend: str
    family: str
    device: str
    bytes: float
    bytes_per_s: float
    layers: int
    width: int
    tokens_per_s: float


def devices() -> list[tuple[frozenset[str], str, float, float]]:
    """Words of the name, the name, bandwidth and memory of every device in the table."""
    with (DATA / "hardware.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["bandwidth_gbs"]]
    return [
        (words_of(r["name"]), r["name"], float(r["bandwidth_gbs"]) * 1e9, number(r["vram_gib"].split("/")[-1]))
        for r in rows
    ]


def number(text: str, default: float = 0.0) -> float:
    """The number in a cell."""
    try:
        return float(text)
    except ValueError:
        return default


def family_of(name: str) -> str:
    """The family that the catalogue has for a device."""
    found = find_device(name)
    return found.family if found else ""


def rows() -> Iterator[Row]:
    """Every row that can be used."""
    known = devices()
    with (DATA / "measurements.csv").open(encoding="utf-8") as file:
        for r in csv.DictReader(file):
            match = [d for d in known if same_name(words_of(r["hardware"]), d[0])]
            backend = BACKENDS.get(r["backend"].lower())
            size, parameters = number(r["model_size_gib"]), number(r["params_b"])
            if backend and match and size and parameters and usable(r):
                best = max(match, key=lambda d: len(d[0]))
                shape = next((s for s in SHAPES if parameters <= s[0]), SHAPES[-1])
                if size < best[3]:
                    read = size * GIB * READ_SHARE
                    yield Row(backend, family_of(best[1]), best[1], read, best[2], *shape[1:], number(r["tok_s"]))


def usable(r: dict[str, str]) -> bool:
    """A dense model on one GPU, decoding at shallow depth, by llama.cpp, not flagged."""
    test = re.fullmatch(r"tg ?(\d+)", r["test"].strip())
    whole = r["ngl"].strip().lower() in ("", "all", "99", "-1", "999", "100")
    return bool(
        test and int(test[1]) <= LONGEST_ANSWER and whole and number(r["tok_s"]) > 0 and "llama" in r["runtime"].lower()
        and number(r["n_gpus"], 1) == 1 and number(r["ctx_or_depth"]) <= DEEPEST and "+" not in r["hardware"]
        and not any(f in r["note"] for f in FLAGGED) and not SPARSE.search(r["model"])
    )  # fmt: skip


def merged(found: Iterator[Row]) -> list[Row]:
    """One row for each configuration: the median of its measurements."""
    groups: dict[tuple[object, ...], list[Row]] = collections.defaultdict(list)
    for row in found:
        groups[(row.backend, row.device, round(row.bytes / 1e8))].append(row)
    return [g[0]._replace(tokens_per_s=statistics.median(r.tokens_per_s for r in g)) for g in groups.values()]


def errors(some: list[Row], efficiency: float, overhead_s: float) -> list[float]:
    """Predicted over measured, less one."""
    backend = Backend(efficiency, overhead_s, 1.0)
    return [
        1 / (r.bytes / (efficiency * r.bytes_per_s) + r.layers * layer_overhead_s(backend, r.width)) / r.tokens_per_s
        - 1
        for r in some
    ]


def fitted(some: list[Row]) -> tuple[float, float, float, float]:
    """Efficiency, overhead, median error, and the factor that holds four of five rows."""
    pairs = [(e, o) for e in EFFICIENCIES for o in OVERHEADS_S]
    best = min(pairs, key=lambda p: statistics.median(abs(x) for x in errors(some, *p)))
    off = sorted(max(1 + x, 1 / (1 + x)) for x in errors(some, *best))
    median = statistics.median(abs(x) for x in errors(some, *best))
    return *best, median, off[int(0.8 * (len(off) - 1))]


H200_BYTES_PER_S = 4.8e12
H200_SHAPES = {"llama8b": (32, 4096), "smol135m": (30, 576), "llama70b": (80, 8192)}


def h200_rows() -> Iterator[Row]:
    """llama-bench on one H200, everything on the GPU with flash attention, decoding at depth 0."""
    first = [json.loads(line) for line in (DATA / "h200_llama_bench.jsonl").read_text("utf-8").splitlines()]
    second = json.loads((DATA / "h200_llama_bench_2.json").read_text("utf-8"))["llama_bench"]
    runs = [
        (r["model"], r["size"], r["avg_ts"])
        for r in first
        if r["n_gen"] and r["ngl"] == -1 and r["fa"] == 1 and not r["env"]
    ]
    runs += [(Path(r["model_filename"]).stem, r["model_size"], r["avg_ts"]) for r in second]
    for model, size, speed in runs:
        if model in H200_SHAPES:
            yield Row("cuda", "hopper", "H200", size * TABLE_SHARE[model], H200_BYTES_PER_S, *H200_SHAPES[model], speed)


def main() -> None:
    """Print a row for each backend, and for each family with enough data."""
    if sys.argv[1:] == ["--h200"]:
        some = list(h200_rows())
        print("efficiency {:.2f}, {:.1e} s a layer, median error {:.0%}, 4 of 5 within x{:.2f}".format(*fitted(some)))
        return
    table = merged(rows())
    groups: dict[str, list[Row]] = collections.defaultdict(list)
    for row in table:
        groups[row.backend].append(row)
        if row.family and row.backend == "cuda":
            groups[f"{row.backend} {row.family}"].append(row)
    for name, some in sorted(groups.items()):
        if len(some) >= FEWEST:
            efficiency, overhead_s, median, spread = fitted(some)
            basis = f"{len(some)} configurations on {len({r.device for r in some})} devices"
            print(
                f"{name:16} efficiency {efficiency:.2f}, {overhead_s * 1e6:5.0f} us a layer, "
                f"median error {median:.0%}, 4 of 5 within x{spread:.2f} ({basis})"
            )


if __name__ == "__main__":
    main()
