"""Tests of llama-bench as benchmarks, and benchmarks as its tests.

llama-bench counts every generated token over the whole time, with no server, no template and no sampler in between;
it is the speed of the engine alone. So a benchmark says what it was measured with, and a comparison names the
difference.
"""

import hashlib
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from unslow.facts import bench as metrics
from unslow.facts.bench import DECODE, PREFILL, ROW_SETTINGS, Bench, BenchRow, Spread, Sweep, SweepPoint
from unslow.facts.calibration import MachineMark
from unslow.think.stats.figures import LONG, SHORT, depth_of
from unslow.think.stats.repeats import spread_of

RUNTIME = "llama.cpp"
TOOL, WITH_LLAMA_BENCH = "measured_with", "llama-bench"
"""The setting that tells whose method the figures are of; without it, they are this program's."""
TESTS = {DECODE: "test.decode", PREFILL: "test.prefill"}
"""Which test a figure is: lengths differ, and so do their speeds."""
USUAL = {DECODE: 128, PREFILL: 512}
"""What llama-bench measures where nothing else is asked for, and so what people publish."""
OWN = "llama_bench."
SWITCHES = {-1: "auto", 0: "off", 1: "on"}
_NOT_SETTINGS = (*metrics.ROW_RESULTS, *metrics.ROW_IDENTITY)
_NO_REPEATS = "only averages are known, not the single repeats (`llama-bench -o json` has them)"
_MOST_DIGITS = 15
_MOST_NS = 2.0**53  # A hundred days: what is longer is no time


def benches_of(rows: Sequence[BenchRow], unslow_version: str) -> tuple[Bench, ...]:
    """One benchmark for each build, model and setup, in the order in which they first come."""
    setups: dict[tuple[Any, ...], list[BenchRow]] = {}
    for row in rows:
        setup = tuple(value for name, value in msgspec.structs.asdict(row).items() if name not in metrics.ROW_RESULTS)
        setups.setdefault(setup, []).append(row)
    return tuple(_bench(group, unslow_version) for group in setups.values())


def _bench(rows: list[BenchRow], unslow_version: str) -> Bench:
    first = rows[0]
    named = {_headline(rows, name): name for name in (DECODE, PREFILL)}
    samples: dict[str, tuple[float, ...]] = {}
    for row in rows:  # a test that was run again has more repeats
        name = named.get(row.test, row.test)
        samples[name] = samples.get(name, ()) + row.samples_ts
    tests = {TESTS[name]: test for test, name in named.items() if test}
    # The same for the same tests, so that a file imported twice is one benchmark
    return Bench(
        id=f"llama-bench-{hashlib.sha256(msgspec.json.encode(list(rows))).hexdigest()[:12]}",
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


def _headline(rows: Sequence[BenchRow], figure: str) -> str:
    """The test that is meant by the speed of decoding, or of reading: the least deep, of the usual length."""
    found = [row for row in rows if bool(row.n_gen) is (figure == DECODE) and bool(row.n_prompt) is (figure != DECODE)]
    order = [(row.n_depth, row.n_prompt + row.n_gen != USUAL[figure], -row.n_prompt - row.n_gen) for row in found]
    return found[order.index(min(order))].test if found else ""


def _settings(row: BenchRow) -> dict[str, str]:
    """What was set; a field that has the value of nothing set may as well not be known."""
    plain = {name: value for name, value in msgspec.structs.asdict(row).items() if value != getattr(BenchRow(), name)}
    words = {**plain, "flash_attn": SWITCHES.get(row.flash_attn, row.flash_attn)}
    known = {k: v for k, v in words.items() if k in plain and k not in _NOT_SETTINGS}
    return {
        ROW_SETTINGS.get(name, f"{OWN}{name}"): (SWITCHES[int(value)] if isinstance(value, bool) else str(value))
        for name, value in known.items()
    }


def _by_depth(rows: Sequence[BenchRow]) -> Iterator[Sweep]:
    tests = [(figure, _headline(rows, figure).partition(" @ ")[0]) for figure in (DECODE, PREFILL)]
    points = []
    for tokens in sorted({row.n_depth for row in rows}):
        here = {row.test.partition(" @ ")[0]: row.samples_ts for row in rows if row.n_depth == tokens}
        figures = {figure: spread_of(here[test]) for figure, test in tests if test in here}
        points += [SweepPoint(at=tokens, label=f"d{tokens}", figures=figures)] if figures else []
    if len(points) > 1:
        because = "speeds from llama-bench; the state of the machine meanwhile is unknown"
        yield Sweep(axis="depth", points=tuple(points), verdict="cannot_tell", because=because)


_Test = tuple[dict[str, int], Sequence[float], Spread | None]


def rows_of(bench: Bench) -> tuple[BenchRow, ...]:
    """Its figures as llama-bench would write them."""
    # Lengths are those that were really asked, and the time of a repeat is that of so many tokens at its speed. What
    # the benchmark does not know has llama-bench's default, and repeats that are not known are an empty list.
    common, tests = _common_fields(bench), _measured_tests(bench)
    if bench.protocol == "imported":  # by the names of llama-bench's tests
        named = ((bench.settings.get(TESTS.get(name, ""), name), speeds) for name, speeds in bench.samples.items())
        tests = ((_lengths(test), speeds, None) for test, speeds in named)
    return tuple(_row({**common, **lengths}, speeds, spread) for lengths, speeds, spread in tests)


def _lengths(test: str) -> dict[str, int]:
    """`pp512+tg128 @ d4096` as its numbers."""
    fields = {"pp": "n_prompt", "tg": "n_gen", "d": "n_depth"}
    words = [(word.rstrip("0123456789"), word) for word in test.replace(" @ ", "+").split("+")]
    numbers = {fields[kind]: _parse_int(word[len(kind) :]) for kind, word in words if kind in fields}
    return {name: number for name, number in numbers.items() if number is not None}


def _measured_tests(bench: Bench) -> Iterator[_Test]:
    counted = [done for done in bench.passes if done.round > 0]
    short, long = ([done for done in counted if done.case == case] or counted for case in (SHORT, LONG))
    prompts = sorted(long, key=lambda done: done.prompt_tokens)[len(long) // 2 :]
    for name, passes in ((PREFILL, prompts), (DECODE, short), (metrics.DECODE_AT_4K, long)):
        if bench.samples.get(name) and passes:
            lengths = {"n_gen": [one.generated_tokens for one in passes], "n_depth": [depth_of(one) for one in passes]}
            if name == PREFILL:
                cached = [one.cached_tokens for one in passes]
                lengths = {"n_prompt": [one.prompt_tokens for one in passes], "n_depth": cached}
            yield {field: round(statistics.median(lengths[field])) for field in lengths}, bench.samples[name], None
    # All depths have answers of one length; a point is named by the depth that was told, its passes by the asked
    asked = [done.generated_tokens for done in counted if done.case.startswith("depth ")]
    tokens = round(statistics.median(asked)) if asked else USUAL[DECODE]
    for point in (point for sweep in bench.sweeps if sweep.axis == "depth" for point in sweep.points):
        if DECODE in point.figures and point.at >= 0:
            yield {"n_gen": tokens, "n_depth": round(point.at)}, (), point.figures[DECODE]


def _row(known: dict[str, Any], speeds: Sequence[float], spread: Spread | None) -> BenchRow:
    tokens = known.get("n_prompt", 0) + known.get("n_gen", 0)
    times = [round(_ns(tokens, speed)) for speed in speeds if speed > 0]
    mean, deviation = _mean(speeds)
    mean_ns, deviation_ns = _mean(times)
    if spread is not None:
        mean, deviation = spread.median, spread.spread * spread.median
        mean_ns = _ns(tokens, mean)
        deviation_ns = min(mean_ns * spread.spread, _MOST_NS)
    return BenchRow(
        **known,
        avg_ns=int(mean_ns),
        stddev_ns=int(deviation_ns),
        avg_ts=round(mean, 6),
        stddev_ts=round(deviation, 6),
        samples_ns=tuple(times),
        samples_ts=tuple(speeds),
    )


def _ns(tokens: int, speed: float) -> float:
    return min(1e9 * tokens / speed, _MOST_NS) if speed > 0 else 0.0


def _mean(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _common_fields(bench: Bench) -> dict[str, Any]:
    number, _, commit = bench.runtime_version.removeprefix("b").partition("-")
    # `llama 8.0B Q4_K_M`, as far as it is known.
    words = [bench.settings.get(f"model.{name}", "") for name in ("architecture", "parameters", "quant")]
    if count := _parse_int(words[1]):
        words[1] = f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"  # noqa: PLR2004 (a billion)
    known: dict[str, Any] = {
        "build_number": _parse_int(number) or 0,
        "build_commit": commit or "unknown",
        "cpu_info": bench.machine.cpu,
        "gpu_info": ", ".join(bench.machine.gpus),
        "model_filename": base_name(bench.model),
        "model_type": " ".join(word for word in words if word),
        "model_size": bench.model_bytes,
        "test_time": bench.taken_at.replace("+00:00", "Z"),
    }
    settings = {"runtime.gpu_layers_set": bench.settings.get("runtime.gpu_layers"), **bench.settings}
    for field in msgspec.structs.fields(BenchRow):
        text = settings.get(ROW_SETTINGS.get(field.name, f"{OWN}{field.name}"))
        if text is not None and field.name not in _NOT_SETTINGS:
            known |= _typed_setting(field.name, text, field.default)
    # As llama-bench lists them: the processor only where there is nothing else
    names = [name for name in known.get("backends", "").replace(" ", "").split(",") if name]
    backends = {"backends": ",".join(name for name in names if name.upper() != "CPU") or "CPU"} if names else {}
    return known | backends


def _typed_setting(name: str, text: str, default: Any) -> dict[str, Any]:
    switches = {word: number for number, word in SWITCHES.items()}
    if isinstance(default, str):
        return {name: text}
    if text in switches:
        return {name: bool(switches[text]) if isinstance(default, bool) else switches[text]}
    number = None if isinstance(default, bool) else _parse_int(text)
    return {} if number is None else {name: number}


def _parse_int(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def base_name(path: str) -> str:
    """Without the folders, which are private."""
    return path.replace("\\", "/").rpartition("/")[2]
