"""What the requests of a benchmark come to: each figure with its interval, the repeats behind it, and what to know.

The warm-up counts for nothing. Decoding and the first token are those of the short questions, reading and decoding at
depth those of the long prompt; where there are no such cases, all requests are taken, and the longest prompts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from unslow.facts.bench import CLIENT_DECODE, DECODE, DECODE_AT_4K, FIRST, GAPS, PREFILL, Pass, Spread
from unslow.think.bench.notes import notes_of
from unslow.think.bench.rates import FEWEST_TOKENS, client_decode_rate, decode_rate, prefill_rate
from unslow.think.bench.spread import spread_of

__all__ = ["Figures", "client_decode_rate", "decode_rate", "figures_of", "prefill_rate", "samples_of"]

SHORT, LONG = "short", "long"
DEEP_TOKENS = 3072
"""A long prompt of so many tokens fills 4K of context, as the protocol means it."""
_NEARLY_LONGEST = 0.8


class Figures(NamedTuple):
    """The figures by name, in SI units; `samples` has the repeats of each in the order they were taken."""

    figures: dict[str, Spread]
    samples: dict[str, tuple[float, ...]]
    notes: tuple[str, ...]


def figures_of(passes: Sequence[Pass]) -> Figures:
    """All that these requests tell."""
    counted = [done for done in passes if done.round > 0]
    samples = samples_of(counted)
    figures = {name: spread_of(values) for name, values in samples.items()}
    return Figures(figures, samples, notes_of(counted, samples))


def samples_of(passes: Sequence[Pass]) -> dict[str, tuple[float, ...]]:
    """The repeats of each figure; a figure that nothing tells is left out."""
    counted = sorted((done for done in passes if done.round > 0), key=lambda done: (done.round, done.started_s))
    short, long = _of(counted, SHORT) or counted, _of(counted, LONG) or _longest(counted)
    enough = [done for done in short if done.generated_tokens >= FEWEST_TOKENS]
    deep = [
        done for done in _of(counted, LONG) if depth(done) >= DEEP_TOKENS and done.generated_tokens >= FEWEST_TOKENS
    ]
    found = {
        DECODE: _each(enough, decode_rate),
        PREFILL: _each(long, prefill_rate),
        FIRST: _each(short, lambda done: done.client_first_token_s or None),
        CLIENT_DECODE: _each(enough, client_decode_rate),
        DECODE_AT_4K: _each(deep, decode_rate),
    } | _gaps(enough)
    return {name: values for name, values in found.items() if values}


def depth(done: Pass) -> int:
    """The context that the first token found."""
    return done.prompt_tokens + done.cached_tokens


def _of(passes: Sequence[Pass], case: str) -> list[Pass]:
    return [done for done in passes if done.case == case]


def _longest(passes: Sequence[Pass]) -> list[Pass]:
    """Those whose prompt is nearly as long as the longest: they time reading best."""
    most = max((done.prompt_tokens for done in passes), default=0)
    return [done for done in passes if done.prompt_tokens >= _NEARLY_LONGEST * most]


def _each(passes: Sequence[Pass], value: Callable[[Pass], float | None]) -> tuple[float, ...]:
    return tuple(found for found in map(value, passes) if found is not None)


def _gaps(passes: Sequence[Pass]) -> dict[str, tuple[float, ...]]:
    """The quantiles of each answer; over the repeats their median counts, so one stall does not make the p99."""
    known = [done.gaps for done in passes if done.gaps]
    columns = ([gaps.p50_s for gaps in known], [gaps.p95_s for gaps in known], [gaps.p99_s for gaps in known])
    return {name: tuple(values) for name, values in zip(GAPS, columns, strict=True)}
