"""What a line of prose is about: observations, and what differs between two speeds."""

from collections.abc import Iterator, Sequence

from unslow.catalog.report_words import difference_phrases, remark_phrases
from unslow.facts.account import Remark, Topic
from unslow.think.claims.quants_in_text import quants_said
from unslow.think.words.lines import Line
from unslow.think.words.modality import is_claimed

MOST_REMARKS = 200
_LONGEST = 160


_OF_PROGRAMS = {Topic.GPU_NOT_SUPPORTED, Topic.OPERATION_ON_CPU, Topic.WEIGHTS_ON_HOST, Topic.CPU_ONLY_BUILD}
"""What programs say in words that people repeat, and that means the same from both."""


def remarks_told(lines: Sequence[Line], printed: Sequence[Line] = ()) -> tuple[Remark, ...]:
    """Everything that somebody says they saw, in order; each topic of a line once. Programs are heard on a few."""
    found = [remark for line in lines for remark in _remarks(line)]
    found += [remark for line in printed for remark in _remarks(line) if remark.topic in _OF_PROGRAMS]
    return tuple(found[:MOST_REMARKS])


def _remarks(line: Line) -> Iterator[Remark]:
    for topic, phrases in remark_phrases().items():
        if (match := phrases.says.search(line.text)) and is_claimed(line.text, match.start()):
            before = line.text[: match.start()]
            denied = bool(phrases.unless and phrases.unless.search(before))
            yield Remark(topic=topic, text=line.original[:_LONGEST], source=line.where, denied=denied)


def topics_of(text: str) -> tuple[Topic, ...]:
    """What a text names that can differ between two runs."""
    found = tuple(topic for topic, pattern in difference_phrases().items() if pattern.search(text))
    only_cache = Topic.KV_TYPE in found and all(quant.of_cache for quant in quants_said(text))
    return tuple(topic for topic in found if topic is not Topic.QUANT_TYPE) if only_cache else found
