"""Whether one benchmark is slower than another, by how much, and whether that is more than noise.

A difference is called one where chance would show it in less than one of fifty comparisons of the same thing, and
where it is large enough to matter. Two benchmarks are called the same where a tenth, either way, can be excluded. All
else can't be told, and the smallest difference that this comparison could have found says what it is worth.
"""

from collections.abc import Sequence

import msgspec

from unslow.facts.bench import DECODE, FIRST, PREFILL, Bench, Change, Comparison, Difference
from unslow.think.bench.disturbance import disturbance, disturbance_note
from unslow.think.bench.lengths import otherwise
from unslow.think.bench.noise import Level, Variance, level_of, level_variance, repeat_variance, restless, run_variance
from unslow.think.bench.pairs import compared_pairs
from unslow.think.bench.testing import difference_of, pooled

__all__ = ["comparable", "compared", "compared_pairs"]

HEADLINE = (DECODE, PREFILL, FIRST)
"""The figures that decide the verdict on the whole; the others are shown."""
_WORDS = {DECODE: "decode", PREFILL: "prefill", FIRST: "the first token"}


def compared(before: Bench, after: Bench, earlier: Sequence[Bench] = ()) -> Comparison:
    """Every figure that both have; `earlier` are benchmarks of any kind, of which those of the same thing are used."""
    chains = _chains(before, after, earlier)
    metrics = [name for name in after.figures if name in before.figures]
    found = [_compared(metric, before, after, chains) for metric in metrics]
    differences = tuple(_alike(one, before, after) for one in found if one)
    verdict = _overall({one.metric: one.verdict for one in differences})
    return Comparison(
        before=before.id,
        after=after.id,
        verdict=verdict,
        because=_because(differences),
        differences=differences,
        notes=_notes(before, after, sum(map(len, chains))),
    )


def comparable(one: Bench, other: Bench) -> bool:
    """Whether two benchmarks measured the same thing: what they differ by is noise."""
    return (one.machine, one.runtime, one.runtime_version, one.model, one.protocol, one.settings) == (
        other.machine,
        other.runtime,
        other.runtime_version,
        other.model,
        other.protocol,
        other.settings,
    )


def _chains(before: Bench, after: Bench, earlier: Sequence[Bench]) -> list[list[Bench]]:
    """Earlier runs of the same thing as the one, and as the other where that differs, each in the order of time."""
    others = sorted((b for b in earlier if b.id not in (before.id, after.id)), key=lambda bench: bench.taken_at)
    like = [before] if comparable(before, after) else [before, after]
    return [chain for one in like if (chain := [bench for bench in others if comparable(bench, one)])]


def _compared(metric: str, before: Bench, after: Bench, chains: Sequence[Sequence[Bench]]) -> Difference | None:
    old, new = _level(metric, before), _level(metric, after)
    if old is None or new is None:
        return None
    history = [[level for bench in chain if (level := _level(metric, bench))] for chain in chains]
    repeat = repeat_variance(metric, [old, new, *(level for chain in history for level in chain)])
    samples = [bench.samples.get(metric, ()) for bench in (before, after)]
    between = restless(run_variance(metric, history, repeat), samples)
    parts = [level_variance(level, repeat, between) for level in (old, new)]
    others = Variance(disturbance(before, after) ** 2, repeat.freedom)
    return difference_of(metric, old.log, new.log, pooled([*parts, others]))


def _alike(one: Difference, before: Bench, after: Bench) -> Difference:
    """The difference, which tells nothing where the two were not measured in the same way."""
    why = otherwise(one.metric, before, after)
    return msgspec.structs.replace(one, verdict="cannot_tell", because=f"can't be told: {why}") if why else one


def _level(metric: str, bench: Bench) -> Level | None:
    figure = bench.figures.get(metric)
    return level_of(metric, bench.samples.get(metric) or ((figure.median,) if figure else ()))


def _overall(verdicts: dict[str, Change]) -> Change:
    """Slower where any that matters is; the same where the first of them is and none differs."""
    judged = [verdicts[name] for name in HEADLINE if name in verdicts]
    for change in ("slower", "faster"):
        if change in judged:
            return change
    return judged[0] if judged else "cannot_tell"


def _because(differences: Sequence[Difference]) -> str:
    judged = [one for name in HEADLINE for one in differences if one.metric == name]
    if not judged:
        return "the two have no figure in common"
    telling = [one for one in judged if one.verdict in ("slower", "faster")] or judged[:1]
    return "; ".join(f"{_WORDS[one.metric]}: {one.because}" for one in telling)


def _notes(before: Bench, after: Bench, runs: int) -> tuple[str, ...]:
    learned = (
        f"what runs differ by was learned from {runs} earlier runs of the same thing"
        if runs > 1
        else "how much runs of this differ by chance is not known yet, so what is usual was taken; more runs teach it"
    )
    return tuple(note for note in (learned, disturbance_note(before, after)) if note)
