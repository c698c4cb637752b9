"""Every claim of a text, judged."""

from unslow.think.claims import sizes
from unslow.think.claims.amounts import sentences
from unslow.think.claims.ratios import judge_ratio, ratio_said
from unslow.think.claims.report import JudgedClaim
from unslow.think.claims.sentence import SentenceReading, parse_sentence, role_of, with_earlier
from unslow.think.claims.speeds import Expected, judge_bandwidth, judge_efficiency, judge_speed

LONGEST_TEXT = 200_000
_MOST_CLAIMS = 2000


def check_text(text: str, expected: Expected = lambda *_: None) -> list[JudgedClaim]:
    """Every claim of a text that carries a number, in order; a sentence may hold several, or none."""
    found: list[JudgedClaim] = []
    earlier: SentenceReading | None = None
    for sentence in sentences(text[:LONGEST_TEXT]):
        said = parse_sentence(sentence)
        found += _judge_sentence(said, with_earlier(said, earlier), expected)
        earlier = said if said.models or said.devices else earlier
        if len(found) >= _MOST_CLAIMS:
            break
    return found


def check_claim(text: str, expected: Expected = lambda *_: None) -> list[JudgedClaim]:
    """The same for a text that is one claim, whatever its punctuation."""
    said = parse_sentence(" ".join(text.split()))
    return _judge_sentence(said, said, expected)


def _judge_sentence(said: SentenceReading, whole: SentenceReading, expected: Expected) -> list[JudgedClaim]:
    """What a sentence claims, by itself and with the names that it takes from before, which only some claims may."""
    roles = [(a, role_of(said, a)) for a in said.amounts if a.kind == "size" and not a.is_limit]
    room = next((a for a, role in roles if role == "room"), None)
    speeds, settings = [a for a in said.amounts if a.kind == "speed"], said.settings
    found = [judge_speed(whole, a, expected) for a in speeds]
    found += [sizes.judge_cache(whole, a) for a, role in roles if role == "cache"]
    # A bandwidth may be that of the device that a speed is claimed of, and not a claim itself
    is_setting = not said.devices and not said.on_cpu and bool(speeds)
    found += [judge_bandwidth(said, a) for a in said.amounts if a.kind == "bandwidth" and not is_setting]
    found += [judged for a in said.amounts if a.kind == "percent" and (judged := judge_efficiency(said, a))]
    for amount, role in roles if said.models or said is whole else ():
        if role == "layer":
            found.append(sizes.judge_layer_size(said, amount))
        elif role in {"weights", "need"}:
            found.append(sizes.judge_size(said, amount, role))
    if settings.layers_named is not None and said.models:
        found.append(sizes.judge_count(said))
    if settings.gpu_layers is not None and whole.models and (room or whole.devices or not speeds):
        found.append(sizes.judge_placed(whole, sizes.room_bytes(room) if room else 0.0))
    found += sizes.judge_parameters(said)
    if ratio := ratio_said(said):
        found.append(judge_ratio(said, ratio))
    about_fitting = any(pattern.search(said.rest) for pattern in sizes.ABOUT_FITTING)
    if not found and said.models and (room or (said.devices and about_fitting)):
        found.append(sizes.judge_fit(said, room))
    return found
