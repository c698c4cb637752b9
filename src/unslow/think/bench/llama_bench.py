"""Tests of llama-bench as benchmarks.

llama-bench counts every generated token over the whole time, with no server, no template and no sampler in between; it
is the speed of the engine alone. So a benchmark says what it was measured with, and a comparison names the difference.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from unslow.facts.bench import DECODE, PREFILL, Bench, Sweep, SweepPoint
from unslow.facts.calibration import MachineMark
from unslow.facts.llama_bench import IDENTITY, RESULTS, SETTINGS, BenchRow
from unslow.think.bench.spread import spread_of

RUNTIME = "llama.cpp"
TOOL, WITH_LLAMA_BENCH = "measured_with", "llama-bench"
"""The setting that tells whose method the figures are of; without it, they are this program's."""
TESTS = {DECODE: "test.decode", PREFILL: "test.prefill"}
"""Which test a figure is: lengths differ, and so do their speeds."""
USUAL = {DECODE: 128, PREFILL: 512}
"""What llama-bench measures where nothing else is asked for, and so what people publish."""
OWN = "llama_bench."
SWITCHES = {-1: "auto", 0: "off", 1: "on"}
_NO_REPEATS = "only means are known, without the repeats behind them (`llama-bench -o json` has them)"


def benches_of(rows: Sequence[BenchRow], unslow_version: str) -> tuple[Bench, ...]:
    """One benchmark for each build, model and setup, in the order in which they first come."""
    setups: dict[tuple[Any, ...], list[BenchRow]] = {}
    for row in rows:
        setups.setdefault(_setup(row), []).append(row)
    return tuple(_bench(group, unslow_version) for group in setups.values())


def _setup(row: BenchRow) -> tuple[Any, ...]:
    return tuple(value for name, value in msgspec.structs.asdict(row).items() if name not in RESULTS)


def _bench(rows: list[BenchRow], unslow_version: str) -> Bench:
    first = rows[0]
    named = {_headline(rows, name): name for name in (DECODE, PREFILL)}
    samples: dict[str, tuple[float, ...]] = {}
    for row in rows:  # a test that was run again has more repeats
        name = named.get(row.test, row.test)
        samples[name] = samples.get(name, ()) + row.samples_ts
    tests = {TESTS[name]: test for test, name in named.items() if test}
    return Bench(
        id=_id(rows),
        unslow_version=unslow_version,
        taken_at=max(row.test_time for row in rows),
        seconds=sum(sum(row.samples_ns) for row in rows) / 1e9,
        protocol="imported",
        runtime=RUNTIME,
        runtime_version=f"b{first.build_number}-{first.build_commit}" if first.build_number else "",
        model=base_name(first.model_filename) or first.model_type,
        model_bytes=max(0, first.model_size),
        machine=MachineMark(cpu=first.cpu_info, gpus=tuple(sorted(filter(None, first.gpu_info.split(", "))))),
        settings={TOOL: WITH_LLAMA_BENCH, **tests, **_settings(first)},
        figures={name: spread_of(values) for name, values in samples.items()},
        samples=samples,
        sweeps=tuple(_by_depth(rows)),
        notes=() if any(row.samples_ns for row in rows) else (_NO_REPEATS,),
    )


def _id(rows: Sequence[BenchRow]) -> str:
    """The same for the same tests, so that a file imported twice is one benchmark."""
    return f"llama-bench-{hashlib.sha256(msgspec.json.encode(list(rows))).hexdigest()[:12]}"


def base_name(path: str) -> str:
    """Without the folders, which are nobody's business."""
    return path.replace("\\", "/").rpartition("/")[2]


def _headline(rows: Sequence[BenchRow], figure: str) -> str:
    """The test that is meant by the speed of decoding, or of reading: the least deep, of the usual length."""
    found = [row for row in rows if _is(row, figure)]
    usual = USUAL[figure]
    best = min(found, key=lambda row: (row.n_depth, _length(row) != usual, -_length(row)), default=None)
    return best.test if best else ""


def _is(row: BenchRow, figure: str) -> bool:
    return bool(row.n_gen and not row.n_prompt) if figure == DECODE else bool(row.n_prompt and not row.n_gen)


def _length(row: BenchRow) -> int:
    return row.n_prompt + row.n_gen


def _settings(row: BenchRow) -> dict[str, str]:
    """What was set; a field that has the value of nothing set may as well not be known."""
    plain = {name: value for name, value in msgspec.structs.asdict(row).items() if value != getattr(BenchRow(), name)}
    words = {**plain, "flash_attn": SWITCHES.get(row.flash_attn, row.flash_attn)}
    known = {k: v for k, v in words.items() if k in plain and k not in (*RESULTS, *IDENTITY)}
    return {SETTINGS.get(name, f"{OWN}{name}"): _worded(value) for name, value in known.items()}


def _worded(value: Any) -> str:
    return SWITCHES[int(value)] if isinstance(value, bool) else str(value)


def _by_depth(rows: Sequence[BenchRow]) -> Iterator[Sweep]:
    """The headline tests over the depths, where there are several."""
    tests = [(figure, _headline(rows, figure).partition(" @ ")[0]) for figure in (DECODE, PREFILL)]
    points = []
    for tokens in sorted({row.n_depth for row in rows}):
        here = {row.test.partition(" @ ")[0]: row.samples_ts for row in rows if row.n_depth == tokens}
        figures = {figure: spread_of(here[test]) for figure, test in tests if test in here}
        points += [SweepPoint(at=tokens, label=f"d{tokens}", figures=figures)] if figures else []
    if len(points) > 1:
        because = "these are the speeds that llama-bench measured; what the machine did meanwhile is not known"
        yield Sweep(axis="depth", points=tuple(points), verdict="cannot_tell", because=because)
