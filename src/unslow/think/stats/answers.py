"""Does it still answer as before: by what it expects of a given text, by its answers, and by their sense."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from unslow.facts.verification import Side, TokenScores
from unslow.think.stats.published import published_of
from unslow.think.stats.repeats import CONFIDENCE, student_quantile
from unslow.think.stats.verification_report import AnswersShown, IntervalShown, Kept, PerplexityShown

ALLOWED = 0.05  # The rise of perplexity that passes by default: that of weights of four bits, with room for chance
_PIECES = re.compile(r"\w+|[^\w\s]")  # Words and signs: a measure that is the same whatever the tokens of a model are
RARE = 0.01  # How often chance may show such a fall of the first words
FAR_BELOW = 0.5  # Of the agreement of the old server with itself: a coarser quant keeps far more of its first words
MAY_BE_ANOTHER = 0.25
"""Of the words that the old server keeps with itself: from here down it may be another model that begins alike."""
ONE_SIGN = 0.8  # Of an answer, the share of its commonest sign: models that lost their numbers say `!!!!` or `GGGG`
FEWEST_SIGNS, FEWEST_WORDS = 16, 12  # Shorter answers may well repeat themselves
NEW_TRIPLES = 0.35  # Of all threes of words, those that are new; less is a loop. Prose keeps more than nine of ten.
SOME, SHARE = 2, 0.25
"""So many more than before, as a number and as a share of all: small models loop now and then by themselves."""
FEWEST_PLACES = 24  # Fewer tell nothing of a text
LEAST_ALIKE = 0.65
"""Of the places, where the likeliest token is the same. Weights of two bits still keep 71 to 86 % of them (Same top p
in llama.cpp's tools/perplexity/README.md); less is another model."""
_MOST_LOG = 20.0


class Agreement(NamedTuple):
    """Of so many pairs: those that begin alike, and the mean share of their words before they part."""

    pairs: int
    begin_alike: int
    together: float


def judge_answers(before: Side, after: Side, allowed: float = ALLOWED) -> AnswersShown:
    """The verdict on the answers, and everything that it rests on."""
    found, usual = agreement_of(before.answers, after.answers), agreement_of(before.answers, before.again)
    old, new = before.scored, after.scored
    perplexity = perplexities(old, new, allowed) if old and new and reads_alike(old, new) else None
    verdict, because = _verdict(before, after, found, usual, perplexity)
    return AnswersShown(
        verdict=verdict,
        because=because,
        questions=found.pairs if found else 0,
        begin_alike=found.begin_alike / found.pairs if found else None,
        begin_alike_before=usual.begin_alike / usual.pairs if usual else None,
        together=found.together if found else None,
        together_before=usual.together if usual else None,
        garbage_before=garbage_among(before.answers),
        garbage_after=garbage_among(after.answers),
        perplexity=perplexity,
        published=published_of(before, after, perplexity) if perplexity else None,
    )


def _verdict(
    before: Side, after: Side, found: Agreement | None, usual: Agreement | None, perplexity: PerplexityShown | None
) -> tuple[Kept, str]:
    broken = []
    number, known = garbage_among(after.answers), garbage_among(before.answers)
    if number - known >= max(SOME, SHARE * len(after.answers)):
        broken.append(f"{number} of {len(after.answers)} answers are empty or repeat endlessly ({known} before)")
    if before.scored and after.scored and not reads_alike(before.scored, after.scored):
        broken.append("the same text gives different tokens, so it is another model")
    if perplexity and perplexity.increase.low > perplexity.allowed:
        broken.append(f"{perplexity_words(perplexity)}, more than the allowed {perplexity.allowed:.0%}")
    elif perplexity and _highest_share(perplexity.same_choice, perplexity.places) < LEAST_ALIKE:
        other, places = 1 - perplexity.same_choice, perplexity.places
        broken.append(f"it would choose another token at {other:.0%} of {places} positions of a fixed text")
    if found and usual and is_far_below(found, usual):
        alike = f"only {found.begin_alike} of {found.pairs} answers begin with the same word as before"
        broken.append(f"{alike}, {usual.begin_alike} when the old setup is asked twice")
    if broken:
        return "changed", "; ".join(broken)
    if before.written_turns and after.written_turns and before.written_turns != after.written_turns:
        return "cannot_tell", "the chat template differs; only plain texts were compared"
    if perplexity:
        ruled_out = perplexity.increase.high <= perplexity.allowed
        said = f"{perplexity_words(perplexity)}: an increase of {perplexity.allowed:.0%} is"
        return ("kept", f"{said} ruled out") if ruled_out else ("cannot_tell", f"{said} neither shown nor ruled out")
    if found and usual:
        # Where there are no probabilities: by how long answers stay together
        alike = f"{found.begin_alike} of {found.pairs} answers begin as before"
        if found.together < MAY_BE_ANOTHER * usual.together:
            parted = f"they agree for only {found.together:.0%} of their words"
            return "cannot_tell", f"{alike}, but {parted}, {usual.together:.0%} when the old setup is asked twice"
        return "kept", f"{alike}, {usual.begin_alike} of {usual.pairs} when the old setup is asked twice"
    return "cannot_tell", "too few answers on both sides to compare them"


def perplexity_words(perplexity: PerplexityShown) -> str:
    """Both perplexities, and the increase with its interval."""
    rise = perplexity.increase
    values = rise.mid, rise.low, rise.high
    middle, low, high = (f"{value:+.1%}" if rise.mid < 1 else f"×{1 + value:.1f}" for value in values)
    change = f"{middle}, 95 % interval {low} to {high}"
    return f"perplexity of a fixed text {perplexity.before:.2f} before, {perplexity.after:.2f} after ({change})"


def agreement_of(one: Sequence[str], other: Sequence[str]) -> Agreement | None:
    """The agreement of two sets of answers to the same questions; None where there is no pair."""
    # Answers without any chance still differ from run to run on some machines: sums in another order round otherwise,
    # and one other word changes all that follow. So what counts is the agreement with the changed server against that
    # of the old one with itself.
    pairs = [(_PIECES.findall(a), _PIECES.findall(b)) for a, b in zip(one, other, strict=False)]
    if not pairs:
        return None
    alike, together = sum(a[:1] == b[:1] for a, b in pairs), 0.0
    for a, b in pairs:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
        length = max(len(a), len(b))
        together += same / length if length else 1.0
    return Agreement(len(pairs), alike, together / len(pairs))


def is_far_below(found: Agreement, usual: Agreement) -> bool:
    """Whether fewer answers begin alike than the old server's own do, by far and by more than chance."""
    below = found.begin_alike / found.pairs < FAR_BELOW * usual.begin_alike / usual.pairs
    return below and rarer_alike(found, usual) < RARE


def rarer_alike(found: Agreement, usual: Agreement) -> float:
    """How often chance alone puts so few of the agreeing pairs on this side (Fisher's exact test)."""
    alike, pairs = found.begin_alike + usual.begin_alike, found.pairs + usual.pairs
    counts = range(max(0, alike - usual.pairs), found.begin_alike + 1)
    ways = sum(math.comb(found.pairs, n) * math.comb(usual.pairs, alike - n) for n in counts)
    return ways / math.comb(pairs, alike)


def is_garbage(answer: str) -> bool:
    """Whether an answer says nothing."""
    words, signs = _PIECES.findall(answer), [sign for sign in answer if not sign.isspace()]
    if not words:
        return True
    if len(signs) >= FEWEST_SIGNS and Counter(signs).most_common(1)[0][1] >= ONE_SIGN * len(signs):
        return True
    triples = {tuple(words[at : at + 3]) for at in range(len(words) - 2)}
    return len(words) >= FEWEST_WORDS and len(triples) < NEW_TRIPLES * (len(words) - 2)


def garbage_among(answers: Sequence[str]) -> int:
    """How many of them say nothing."""
    return sum(map(is_garbage, answers))


def reads_alike(before: TokenScores, after: TokenScores) -> bool:
    """Whether both read the text in the same tokens; as far as both have room for it."""
    length = min(len(before.tokens), len(after.tokens))
    return before.tokens[:length] == after.tokens[:length]


def perplexities(before: TokenScores, after: TokenScores, allowed: float) -> PerplexityShown | None:
    """What the places that both were asked at tell; None where there are too few."""
    # Most of the scatter of a perplexity is that of the text; paired, it cancels: two hundred places tell a percent
    old = dict(zip(before.at, zip(before.log_probabilities, before.likeliest, strict=True), strict=True))
    new = dict(zip(after.at, zip(after.log_probabilities, after.likeliest, strict=True), strict=True))
    places = [place for place in old if place in new]
    if len(places) < FEWEST_PLACES:
        return None
    rises = [old[place][0] - new[place][0] for place in places]
    middle = statistics.fmean(rises)
    reach = student_quantile(CONFIDENCE, len(rises) - 1) * statistics.stdev(rises) / math.sqrt(len(rises))
    logs = (max(-_MOST_LOG, min(_MOST_LOG, log)) for log in (middle - reach, middle, middle + reach))
    low, increase, high = map(math.expm1, logs)
    losses = (-statistics.fmean(side[place][0] for place in places) for side in (old, new))
    perplexity, new_perplexity = (math.exp(min(_MOST_LOG, loss)) for loss in losses)
    return PerplexityShown(
        places=len(places),
        before=perplexity,
        after=new_perplexity,
        increase=IntervalShown(low=low, mid=increase, high=high),
        allowed=allowed,
        same_choice=sum(old[place][1] == new[place][1] for place in places) / len(places),
    )


def _highest_share(share: float, places: int) -> float:
    """What a share of so many places is at most, with 97.5 % confidence: the upper end of Wilson's interval."""
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = share + z * z / (2 * places)
    reach = z * math.sqrt(share * (1 - share) / places + z * z / (4 * places * places))
    return min(1.0, (centre + reach) / (1 + z * z / places))
