"""Speeds where many tokens share one read of the weights: those of a prompt, and those of many streams."""

from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.ceilings import Question, one_stream, prefill, throughput
from unslow.think.claims.one_token import subject_of
from unslow.think.claims.places import BOOST
from unslow.think.claims.verdicts import Finding

_TRILLION = 1e12


def judge_prompt(question: Question, claim: Amount) -> Finding:
    """Prompt tokens a second, against the arithmetic of the device."""
    reading, place = question.reading, question.place.for_model(question.reading.weights_bytes)
    most = prefill(reading, question.place)
    if most is None:
        because = f"the catalogue has no arithmetic speed of {place.label}"
        return Finding("cannot_tell", because, (), subject_of(question))
    needed = claim.low / most * place.operations_per_s / _TRILLION
    lines = (
        f"each prompt token takes 2 operations for each of {w.digits(reading.active / 1e9)}B active parameters",
        f"{place.label}: {w.digits(place.operations_per_s / _TRILLION)} trillion of them a second at most, in 8 bits",
        f"ceiling {w.rate(most)}; {w.rate(claim.low)} would need {w.digits(needed)} trillion",
    )
    return _bounded(question, claim, most, lines, "its arithmetic allows")


def judge_streams(question: Question, claim: Amount, users: int) -> Finding:
    """Tokens a second of all streams together; with none counted, only arithmetic limits them."""
    one, most = one_stream(question), throughput(question, users)
    if most is None:
        return Finding("cannot_tell", "it does not say for how many streams", (), subject_of(question))
    shared = f"{users} streams share each read: {w.rate(one.tokens_per_s * users)} by memory alone"
    arithmetic = prefill(question.reading, question.place)
    single, place = f"{w.rate(one.tokens_per_s)} for one stream", subject_of(question).device
    lines = (
        f"a token reads {w.gb(one.read_bytes)} of {question.reading.name}: {single} on {place}",
        shared if users else "however many streams share each read, each token takes its arithmetic",
        f"ceiling {w.rate(most)}" + (f"; arithmetic allows {w.rate(arithmetic)}" if arithmetic else ""),
    )
    return _bounded(question, claim, most, lines, "all streams together can have")


def _bounded(question: Question, claim: Amount, most: float, lines: tuple[str, ...], limit: str) -> Finding:
    found = Finding(
        "possible",
        f"{w.share(claim.low / most)} of what {limit}",
        lines,
        subject_of(question),
        nearness=most,
        ceiling=most,
    )
    if claim.low > most * BOOST:
        found = found._replace(verdict="impossible", because=f"{w.digits(claim.low / most)} times what {limit}")
    return found._replace(assumed=question.reading.assumed)
