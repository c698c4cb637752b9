"""What a reader of a benchmark should know besides its figures: sentences, only where there is something to say."""

import statistics
from collections.abc import Mapping, Sequence

from unslow.facts.bench import DECODE, DECODE_AT_4K, FIRST, LOWER_IS_BETTER, PREFILL, Pass
from unslow.think.bench.disagreement import disagreement
from unslow.think.bench.gaps import tokens_per_piece
from unslow.think.bench.rates import (
    FEWEST_TOKENS,
    SHORTEST_PROMPT,
    client_decode_rate,
    decode_rate,
    prefill_rate,
    waited_before_s,
)

CLOCKS_APART = 0.03
SLOW_START_SHARE, SLOW_START_S = 0.25, 0.1
SEVERAL_TOKENS = 1.5
WAITING_CPUS = 0.1
"""Processors' worth of waiting threads: beyond it others were in the way."""
_JUDGED = {DECODE: "decode", DECODE_AT_4K: "decode at 4K", PREFILL: "prefill", FIRST: "time to first token"}


def notes_of(passes: Sequence[Pass], samples: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """All sentences that apply to these requests; the warm-up is not among them."""
    if not passes:
        return ("nothing was measured",)
    rules = (_too_few, _clocks, _slow_start, _pieces, _cached, _thinking, _ended_early, _waited)
    return (*_disagreements(samples), *(sentence for rule in rules if (sentence := rule(passes))))


def _disagreements(samples: Mapping[str, Sequence[float]]) -> list[str]:
    found = {
        word: disagreement(samples.get(name, ()), lower_is_better=name in LOWER_IS_BETTER)
        for name, word in _JUDGED.items()
    }
    return [f"{word}: {sentence}" for word, sentence in found.items() if sentence]


def _too_few(passes: Sequence[Pass]) -> str:
    most = max(done.generated_tokens for done in passes)
    if most < FEWEST_TOKENS:
        return f"no answer had more than {most} tokens, too few for a rate of decoding ({FEWEST_TOKENS} are needed)"
    if not any(map(prefill_rate, passes)):
        longest = max(done.prompt_tokens for done in passes)
        clock = "" if longest < SHORTEST_PROMPT else ", and the server does not time it"
        return f"no prompt was long enough to time its reading: {longest} tokens at most{clock}"
    return ""


def _clocks(passes: Sequence[Pass]) -> str:
    """Where the client sees another speed than the server tells, the difference is in the stream."""
    timed = [done for done in passes if done.server_decode_s and done.generated_tokens >= FEWEST_TOKENS]
    both = [(ours, theirs) for done in timed if (ours := client_decode_rate(done)) and (theirs := decode_rate(done))]
    if not both:
        return ""
    client, server = sorted(both, key=lambda pair: pair[0] / pair[1])[len(both) // 2]
    share = client / server - 1
    if abs(share) <= CLOCKS_APART:
        return ""
    seen = f"the client sees {client:.1f} tokens per second, the server tells {server:.1f}"
    if share > 0:
        return f"{seen}: its clock holds {share:.0%} more than the time between the tokens"
    return f"{seen}: the stream adds {(1 / client - 1 / server) * 1e3:.2f} ms to each token ({-share:.0%})"


def _slow_start(passes: Sequence[Pass]) -> str:
    """Where the first token waits for more than its prompt."""
    timed = [done for done in passes if done.server_prefill_s is not None and done.client_first_token_s > 0]
    extra = [d.client_first_token_s - (d.server_prefill_s or 0.0) - waited_before_s(d) for d in timed]
    if not extra:
        return ""
    typical, whole = statistics.median(extra), statistics.median(d.client_first_token_s for d in timed)
    if typical < SLOW_START_S or typical < SLOW_START_SHARE * whole:
        return ""
    return (
        f"{typical:.2f} s of the {whole:.2f} s to the first token are neither reading the prompt nor a queue that the "
        "server knows: the way there, the template, the first step"
    )


def _pieces(passes: Sequence[Pass]) -> str:
    each = [tokens_per_piece(done.generated_tokens, done.gaps) for done in passes if done.gaps]
    if not each or statistics.median(each) < SEVERAL_TOKENS:
        return ""
    return f"a piece of the stream holds {statistics.median(each):.1f} tokens: the gaps are those between pieces"


def _cached(passes: Sequence[Pass]) -> str:
    known = [done for done in passes if done.cached_tokens]
    if not known:
        return ""
    cached, whole = sum(d.cached_tokens for d in known), sum(d.cached_tokens + d.prompt_tokens for d in known)
    return (
        f"a prompt cache held {cached} of {whole} prompt tokens in {len(known)} of {len(passes)} requests; "
        "prefill counts only those that were computed"
    )


def _thinking(passes: Sequence[Pass]) -> str:
    thought = sum(done.thinking_tokens or 0 for done in passes)
    whole = sum(done.generated_tokens for done in passes if done.thinking_tokens is not None)
    return (
        f"{thought} of {whole} generated tokens ({thought / whole:.0%}) were thinking; they count too"
        if thought
        else ""
    )


def _ended_early(passes: Sequence[Pass]) -> str:
    early = [done for done in passes if done.ended_early]
    if not early:
        return ""
    shortest = min(early, key=lambda done: done.generated_tokens)
    return (
        f"the model ended {len(early)} of {len(passes)} answers before it had generated what was asked, "
        f"one after {shortest.generated_tokens} of {shortest.asked_tokens} tokens"
    )


def _waited(passes: Sequence[Pass]) -> str:
    shares = [share for done in passes if (share := waiting_cpus(done)) is not None]
    disturbed = sum(share > WAITING_CPUS for share in shares)
    if not disturbed:
        return ""
    return (
        f"in {disturbed} of {len(shares)} requests the runtime's threads waited for a processor, "
        f"in the worst for {max(shares):.1f} processors' worth: other programs were in the way"
    )


def waiting_cpus(done: Pass) -> float | None:
    """How many threads of the server were ready and waited for a processor, on average; None where nobody looked."""
    if done.waited_for_cpu_s is None or done.client_total_s <= 0:
        return None
    return done.waited_for_cpu_s / done.client_total_s
