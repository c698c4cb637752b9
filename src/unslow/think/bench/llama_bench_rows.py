"""Benchmarks as tests of llama-bench, for whoever reads those."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from unslow.facts.bench import DECODE, DECODE_AT_4K, PREFILL, Bench, Pass, Spread, Sweep
from unslow.facts.llama_bench import IDENTITY, RESULTS, SETTINGS, BenchRow
from unslow.think.bench.figures import LONG, SHORT, depth
from unslow.think.bench.llama_bench import OWN, SWITCHES, TESTS, USUAL, base_name

_MOST_DIGITS = 15
_MOST_NS = 2.0**53
"""A hundred days: what is longer is no time."""


def rows_of(bench: Bench) -> tuple[BenchRow, ...]:
    """Its figures as llama-bench would write them.

    Lengths are those that were really asked, and the time of a repeat is that of so many tokens at its speed. What the
    benchmark does not know has llama-bench's default, and repeats that are not known are an empty list.
    """
    common = _common(bench)
    tests = _imported(bench) if bench.protocol == "imported" else _measured(bench)
    return tuple(_row({**common, **lengths}, speeds, spread) for lengths, speeds, spread in tests)


_Test = tuple[dict[str, int], Sequence[float], Spread | None]


def _imported(bench: Bench) -> Iterator[_Test]:
    """What came from llama-bench, by the names of its tests."""
    for name, speeds in bench.samples.items():
        yield _lengths(bench.settings.get(TESTS.get(name, ""), name)), speeds, None


def _lengths(test: str) -> dict[str, int]:
    """`pp512+tg128 @ d4096` as its numbers."""
    fields = {"pp": "n_prompt", "tg": "n_gen", "d": "n_depth"}
    words = [(word.rstrip("0123456789"), word) for word in test.replace(" @ ", "+").split("+")]
    numbers = {fields[kind]: _whole(word[len(kind) :]) for kind, word in words if kind in fields}
    return {name: number for name, number in numbers.items() if number is not None}


def _measured(bench: Bench) -> Iterator[_Test]:
    """Figures of the protocol, then the depths of a sweep."""
    counted = [done for done in bench.passes if done.round > 0]
    short, long = ([done for done in counted if done.case == case] or counted for case in (SHORT, LONG))
    prompts = sorted(long, key=lambda done: done.prompt_tokens)[len(long) // 2 :]
    for name, passes, kind in ((PREFILL, prompts, "n_prompt"), (DECODE, short, "n_gen"), (DECODE_AT_4K, long, "n_gen")):
        if bench.samples.get(name) and passes:
            lengths = _prompt_lengths(passes) if kind == "n_prompt" else _answer_lengths(passes)
            yield lengths, bench.samples[name], None
    for sweep in bench.sweeps:
        if sweep.axis == "depth":
            yield from _swept(sweep, counted)


def _prompt_lengths(passes: Sequence[Pass]) -> dict[str, int]:
    return {
        "n_prompt": _middle(passes, lambda done: done.prompt_tokens),
        "n_depth": _middle(passes, lambda done: done.cached_tokens),
    }


def _answer_lengths(passes: Sequence[Pass]) -> dict[str, int]:
    return {"n_gen": _middle(passes, lambda done: done.generated_tokens), "n_depth": _middle(passes, depth)}


def _swept(sweep: Sweep, passes: Sequence[Pass]) -> Iterator[_Test]:
    """All depths have answers of one length; a point is named by the depth that was told, its passes by the asked."""
    asked = [done for done in passes if done.case.startswith(f"{sweep.axis} ")]
    tokens = _middle(asked, lambda done: done.generated_tokens) if asked else USUAL[DECODE]
    for point in sweep.points:
        if DECODE in point.figures and point.at >= 0:
            yield {"n_gen": tokens, "n_depth": round(point.at)}, (), point.figures[DECODE]


def _middle(passes: Sequence[Pass], value: Callable[[Pass], int]) -> int:
    return round(statistics.median(map(value, passes)))


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
    """The mean and the deviation as llama-bench has them."""
    if not values:
        return 0.0, 0.0
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _common(bench: Bench) -> dict[str, Any]:
    number, _, commit = bench.runtime_version.removeprefix("b").partition("-")
    known: dict[str, Any] = {
        "build_number": _whole(number) or 0,
        "build_commit": commit or "unknown",
        "cpu_info": bench.machine.cpu,
        "gpu_info": ", ".join(bench.machine.gpus),
        "model_filename": base_name(bench.model),
        "model_type": _model_type(bench),
        "model_size": bench.model_bytes,
        "test_time": bench.taken_at.replace("+00:00", "Z"),
    }
    settings = {"runtime.gpu_layers_set": bench.settings.get("runtime.gpu_layers"), **bench.settings}
    for field in msgspec.structs.fields(BenchRow):
        text = settings.get(SETTINGS.get(field.name, f"{OWN}{field.name}"))
        if text is not None and field.name not in (*RESULTS, *IDENTITY):
            known |= _typed(field.name, text, field.default)
    return known | _backends(known)


def _model_type(bench: Bench) -> str:
    """`llama 8.0B Q4_K_M`, as far as it is known."""
    words = [bench.settings.get(f"model.{name}", "") for name in ("architecture", "parameters", "quant")]
    if count := _whole(words[1]):
        words[1] = f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"  # noqa: PLR2004 (a billion)
    return " ".join(word for word in words if word)


def _backends(known: dict[str, Any]) -> dict[str, str]:
    """As llama-bench lists them: the processor only where there is nothing else."""
    names = [name for name in known.get("backends", "").replace(" ", "").split(",") if name]
    return {"backends": ",".join(name for name in names if name.upper() != "CPU") or "CPU"} if names else {}


def _whole(text: str) -> int | None:
    """A whole number that a field can hold."""
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def _typed(name: str, text: str, default: Any) -> dict[str, Any]:
    """The setting as the field has it; nothing where it is no such value."""
    switches = {word: number for number, word in SWITCHES.items()}
    if isinstance(default, str):
        return {name: text}
    if text in switches:
        return {name: bool(switches[text]) if isinstance(default, bool) else switches[text]}
    number = None if isinstance(default, bool) else _whole(text)
    return {} if number is None else {name: number}
