"""What the requests of a benchmark come to: the speeds of one answer, figures with their intervals, notes on them.

The warm-up counts for nothing. Decoding and the first token are those of the short questions, reading and decoding at
depth those of the long prompt; where there are no such cases, all requests are taken, and the longest prompts.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from unslow.facts import bench as metrics
from unslow.facts.bench import LOWER_IS_BETTER, Gaps, Pass, Spread
from unslow.think.stats.repeats import disagreement, spread_of

FEWEST_TOKENS = 8  # Fewer steps than these time the start and the end of an answer rather than its tokens
SHORTEST_PROMPT = 64  # A shorter prompt times the overhead of a request rather than reading
SHORTEST_CLIENT_PROMPT = 256
"""The same where only the client's clock tells, which holds the way there and the first step too."""
FASTEST = 1e9  # Tokens per second that no machine reaches: whoever tells more is not believed
FASTEST_STREAM = 20_000
"""Tokens per second that no step for one user reaches: what comes faster waited together in a buffer on the way."""
SHORT, LONG = "short", "long"
DEEP_TOKENS = 3072  # A long prompt of so many tokens fills 4K of context, as the protocol means it
_NEARLY_LONGEST = 0.8
CLOCKS_APART = 0.03
SLOW_START_SHARE, SLOW_START_S = 0.25, 0.1
SEVERAL_TOKENS = 1.5
WAITING_CPUS = 0.1  # Processors' worth of waiting threads: beyond it others were in the way
_JUDGED = {
    metrics.DECODE: "decode",
    metrics.DECODE_AT_4K: "decode at 4K",
    metrics.PREFILL: "prefill",
    metrics.FIRST: "time to first token",
}


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
    """The repeats of each figure, of requests that count; a figure that nothing tells is left out."""
    counted = sorted(passes, key=lambda done: (done.round, done.started_s))
    longest = max((done.prompt_tokens for done in counted), default=0)
    nearly_longest = [done for done in counted if done.prompt_tokens >= _NEARLY_LONGEST * longest]
    short, long = ([done for done in counted if done.case == case] for case in (SHORT, LONG))
    enough = [done for done in short or counted if done.generated_tokens >= FEWEST_TOKENS]
    deep = [done for done in long if depth_of(done) >= DEEP_TOKENS and done.generated_tokens >= FEWEST_TOKENS]
    found: dict[str, Iterable[float | None]] = {
        metrics.DECODE: map(decode_rate, enough),
        metrics.PREFILL: map(prefill_rate, long or nearly_longest),
        metrics.FIRST: (done.client_first_token_s or None for done in short or counted),
        metrics.CLIENT_DECODE: map(client_decode_rate, enough),
        metrics.DECODE_AT_4K: map(decode_rate, deep),
    }
    known = {name: tuple(value for value in values if value is not None) for name, values in found.items()}
    # The quantiles of each answer; over the repeats their median counts, so one stall does not make the p99
    gaps = [(done.gaps.p50_s, done.gaps.p95_s, done.gaps.p99_s) for done in enough if done.gaps]
    known |= dict(zip(metrics.GAPS, zip(*gaps, strict=True), strict=False))
    return {name: values for name, values in known.items() if values}


def depth_of(done: Pass) -> int:
    """The context that the first token found."""
    return done.prompt_tokens + done.cached_tokens


def decode_rate(done: Pass) -> float | None:
    """Tokens after the first over the time since it: by the server's clock where it tells, else by the client's."""
    if done.server_decode_s is None:
        return client_decode_rate(done)
    return _rate(done.generated_tokens - 1, done.server_decode_s)


def client_decode_rate(done: Pass) -> float | None:
    """The same by the client's clock, from the first piece of the stream to the last; None where all came at once."""
    # All but one; where a piece holds several tokens, all but those of the first piece
    pieces = done.gaps.count + 1 if done.gaps else 1
    tokens_after_first_piece = done.generated_tokens - max(1.0, done.generated_tokens / pieces)
    rate = _rate(tokens_after_first_piece, done.client_last_token_s - done.client_first_token_s)
    return rate if rate is not None and rate <= FASTEST_STREAM else None


def prefill_rate(done: Pass) -> float | None:
    """Prompt tokens that were computed over the time it took; None where the prompt is too short to tell."""
    if done.server_prefill_s is not None:
        return _rate(done.prompt_tokens, done.server_prefill_s) if done.prompt_tokens >= SHORTEST_PROMPT else None
    if done.prompt_tokens < SHORTEST_CLIENT_PROMPT:
        return None
    return _rate(done.prompt_tokens, done.client_first_token_s - waited_before_s(done))


def waited_before_s(done: Pass) -> float:
    """What the server says passed before it began to read."""
    return (done.server_load_s or 0.0) + (done.server_queue_s or 0.0)


def _rate(tokens: float, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > tokens / FASTEST else None


def gaps_of(arrivals_s: Sequence[float], generated_tokens: int) -> Gaps | None:
    """The gaps between pieces, those of tokens where each is one; None where fewer than two pieces tell nothing.

    `count` is the number of gaps: where it is far from `generated_tokens - 1`, the pieces are not tokens.

    A stream comes in pieces. Where a piece is one token, the gap between two pieces is the latency of a token. Some
    servers put several tokens into one piece, some a part of one: the gap is then that of pieces, which is what a
    reader waits for. It is never divided by the tokens of a piece: that would invent latencies.
    """
    gaps = sorted(max(0.0, later - earlier) for earlier, later in pairwise(arrivals_s))
    if generated_tokens < 1 or not gaps:
        return None
    p50, p95, p99 = (quantile_of(gaps, share) for share in (0.50, 0.95, 0.99))
    return Gaps(count=len(gaps), p50_s=p50, p95_s=p95, p99_s=p99, max_s=gaps[-1])


def quantile_of(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of all values does not exceed: always one that was really seen."""
    rank = math.ceil(share * len(ordered) - 1e-9)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def notes_of(passes: Sequence[Pass], samples: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """All sentences that apply to these requests; the warm-up is not among them."""
    if not passes:
        return ("nothing was measured",)
    notes = []
    for name, word in _JUDGED.items():
        if sentence := disagreement(samples.get(name, ()), lower_is_better=name in LOWER_IS_BETTER):
            notes.append(f"{word}: {sentence}")
    return (*notes, *_timing_notes(passes), *_answer_notes(passes))


def _timing_notes(passes: Sequence[Pass]) -> Iterator[str]:
    most, longest = max(done.generated_tokens for done in passes), max(done.prompt_tokens for done in passes)
    if most < FEWEST_TOKENS:
        yield f"no answer had more than {most} tokens, too few for a decode rate ({FEWEST_TOKENS} are needed)"
    elif not any(map(prefill_rate, passes)):
        clock = "" if longest < SHORTEST_PROMPT else ", and the server does not time it"
        yield f"no prompt was long enough to time prefill: {longest} tokens at most{clock}"
    # Where the client sees another speed than the server tells, the difference is in the stream
    timed = [done for done in passes if done.server_decode_s and done.generated_tokens >= FEWEST_TOKENS]
    both = [(ours, theirs) for done in timed if (ours := client_decode_rate(done)) and (theirs := decode_rate(done))]
    if both:
        client, server = sorted(both, key=lambda pair: pair[0] / pair[1])[len(both) // 2]
        seen, share = f"the client measures {client:.1f} tok/s, the server reports {server:.1f}", client / server - 1
        if share > CLOCKS_APART:
            yield f"{seen}: its timer includes {share:.0%} more than the time between tokens"
        elif share < -CLOCKS_APART:
            yield f"{seen}: streaming adds {(1 / client - 1 / server) * 1e3:.2f} ms to each token ({-share:.0%})"
    timed = [done for done in passes if done.server_prefill_s is not None and done.client_first_token_s > 0]
    extra = [d.client_first_token_s - (d.server_prefill_s or 0.0) - waited_before_s(d) for d in timed]
    whole = statistics.median(d.client_first_token_s for d in timed) if timed else 0.0
    if extra and statistics.median(extra) >= max(SLOW_START_S, SLOW_START_SHARE * whole):
        first = f"{statistics.median(extra):.2f} s of the {whole:.2f} s to the first token"
        yield f"{first} are neither prefill nor a queue that the server reports: network, template or first step"


def _answer_notes(passes: Sequence[Pass]) -> Iterator[str]:
    each = [done.generated_tokens / (done.gaps.count + 1) for done in passes if done.gaps]  # tokens of a piece
    if each and statistics.median(each) >= SEVERAL_TOKENS:
        yield f"a chunk of the stream has {statistics.median(each):.1f} tokens: the gaps are between chunks"
    if known := [done for done in passes if done.cached_tokens]:
        cached, whole = sum(d.cached_tokens for d in known), sum(d.cached_tokens + d.prompt_tokens for d in known)
        held = f"a prompt cache held {cached} of {whole} prompt tokens in {len(known)} of {len(passes)} requests"
        yield f"{held}; prefill counts only computed tokens"
    if thought := sum(done.thinking_tokens or 0 for done in passes):
        whole = sum(done.generated_tokens for done in passes if done.thinking_tokens is not None)
        yield f"{thought} of {whole} generated tokens ({thought / whole:.0%}) were thinking tokens, which count too"
    if early := [done for done in passes if done.ended_early]:
        shortest = min(early, key=lambda done: done.generated_tokens)
        ended = f"the model ended {len(early)} of {len(passes)} answers early"
        yield f"{ended}, one after {shortest.generated_tokens} of {shortest.asked_tokens} tokens"
    shares = [share for done in passes if (share := waiting_cpus(done)) is not None]
    if disturbed := sum(share > WAITING_CPUS for share in shares):
        waited = f"in {disturbed} of {len(shares)} requests the runtime's threads waited for a CPU"
        yield f"{waited} ({max(shares):.1f} threads on average in the worst): other programs interfered"


def waiting_cpus(done: Pass) -> float | None:
    """How many threads of the server were ready and waited for a processor, on average; None where not checked."""
    if done.waited_for_cpu_s is None or done.client_total_s <= 0:
        return None
    return done.waited_for_cpu_s / done.client_total_s
