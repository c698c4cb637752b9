"""Does it still answer as before: by what it expects of a given text, by its answers, and by their sense."""

from typing import NamedTuple

from unslow.facts.verified import Side
from unslow.think.verify.agreement import Agreement, agreement_of, is_far_below, parts_early
from unslow.think.verify.garbage import garbage_among, has_more_garbage
from unslow.think.verify.perplexity import Expected, expected_of, reads_alike
from unslow.think.verify.report import AnswersShown, IntervalShown, Kept, PerplexityShown

ALLOWED = 0.05
"""The rise of perplexity that passes where nobody says another: that of weights of four bits, with room for chance."""


class _Seen(NamedTuple):
    """All that tells whether answers are the same."""

    before: Side
    after: Side
    allowed: float
    found: Agreement | None
    usual: Agreement | None
    expected: Expected | None


def judged_answers(before: Side, after: Side, allowed: float = ALLOWED) -> AnswersShown:
    """The verdict on the answers, and everything that it rests on."""
    found, usual = agreement_of(before.answers, after.answers), agreement_of(before.answers, before.again)
    old, new = before.scored, after.scored
    expected = expected_of(old, new) if old and new and reads_alike(old, new) else None
    seen = _Seen(before, after, allowed, found, usual, expected)
    verdict, because = _verdict(seen)
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
        perplexity=_shown(expected, allowed) if expected else None,
    )


def _verdict(seen: _Seen) -> tuple[Kept, str]:
    broken = [words for words in (_garbage(seen), _tokens(seen), _expected(seen), _parted(seen)) if words]
    if broken:
        return "changed", "; ".join(broken)
    if _turns_differ(seen):
        return "cannot_tell", "it writes a conversation in another way (chat template); only plain texts were compared"
    if seen.expected and seen.expected.high <= seen.allowed:
        return "kept", f"{_told(seen.expected)}: a rise of {seen.allowed:.0%} is excluded"
    if seen.expected:
        return "cannot_tell", f"{_told(seen.expected)}: a rise of {seen.allowed:.0%} is neither seen nor excluded"
    if seen.found and seen.usual:
        return _by_words(seen.found, seen.usual)
    return "cannot_tell", "too few answers of both to hold them against each other"


def _by_words(found: Agreement, usual: Agreement) -> tuple[Kept, str]:
    """Where there are no probabilities: by how long answers stay together."""
    alike = f"{found.begin_alike} of {found.pairs} answers begin as before"
    if parts_early(found, usual):
        parted = f"they stay together for only {found.together:.0%} of their words"
        return "cannot_tell", f"{alike}, but {parted}, {usual.together:.0%} where the old one is asked twice"
    return "kept", f"{alike}, {usual.begin_alike} of {usual.pairs} where the old one is asked twice"


def _turns_differ(seen: _Seen) -> bool:
    old, new = seen.before.written_turns, seen.after.written_turns
    return bool(old and new and old != new)


def _garbage(seen: _Seen) -> str:
    if not has_more_garbage(seen.before.answers, seen.after.answers):
        return ""
    number, known = garbage_among(seen.after.answers), garbage_among(seen.before.answers)
    return (
        f"{number} of {len(seen.after.answers)} answers are empty or repeat themselves without end, {known} did before"
    )


def _tokens(seen: _Seen) -> str:
    old, new = seen.before.scored, seen.after.scored
    if not old or not new or reads_alike(old, new):
        return ""
    return "it reads the same text in other tokens, so it is another model"


def _expected(seen: _Seen) -> str:
    expected = seen.expected
    if expected is None:
        return ""
    if expected.low > seen.allowed:
        return f"{_told(expected)}, more than the {seen.allowed:.0%} that are allowed"
    if expected.is_another_model:
        return f"it would choose another token at {1 - expected.alike:.0%} of {expected.places} places of a given text"
    return ""


def _parted(seen: _Seen) -> str:
    if not seen.found or not seen.usual or not is_far_below(seen.found, seen.usual):
        return ""
    alike = f"only {seen.found.begin_alike} of {seen.found.pairs} answers begin with the same word as before"
    return f"{alike}, {seen.usual.begin_alike} where the old one is asked twice"


def _told(expected: Expected) -> str:
    values = expected.increase, expected.low, expected.high
    middle, low, high = (f"{value:+.1%}" if expected.increase < 1 else f"×{1 + value:.1f}" for value in values)
    change = f"{middle}, 95 % sure: {low} to {high}"
    return f"perplexity of a given text {expected.before:.2f} before, {expected.after:.2f} after ({change})"


def _shown(expected: Expected, allowed: float) -> PerplexityShown:
    return PerplexityShown(
        places=expected.places,
        before=expected.before,
        after=expected.after,
        increase=IntervalShown(low=expected.low, mid=expected.increase, high=expected.high),
        allowed=allowed,
        same_choice=expected.alike,
    )
