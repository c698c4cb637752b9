"""Trials that are told without figures: `4 threads are much faster than 8`, `the draft model lowers the speed`.

Which of two ways is the faster is as much an experiment as two speeds are; only how much stays open.
"""

import re

from unslow.facts.account import Topic
from unslow.think.words.topics import topics_of
from unslow.think.words.versions import versions_in

_MUCH = r"(?:(?:much|far|way|a lot|significantly|noticeably|considerably|clearly|even|drastically|massively|\d+ ?%) )?"
_TRIALS = (
    # one way against another
    re.compile(rf"\b{_MUCH}(?:slower|faster|quicker|worse|better)\b[^.;]{{0,30}}?\b(?:than|with|without|when|if|once)\b"),
    re.compile(r"\bslow compared (?:to|with)\b"),
    re.compile(r"\b(?:than|with|without|using|on)\b[^.;,]{0,40}\b(?:is|are|was|were|runs?|goes|gets)\b"
               rf"[^.;]{{0,12}}\b{_MUCH}(?:slower|faster|quicker)\b"),
    # what a thing does to the speed
    re.compile(r"\b(?:lowers?|reduces?|hurts?|halves|slows?(?: down)?|degrades?|kills|cripples|costs|tanks|drops)\b"
               r"[^.;]{0,16}\b(?:speed|performance|throughput|generation|inference|decod\w+|tok\w*|t/s|tps|it)\b"),
    # what is well again without it
    re.compile(r"\b(?:without|disabl\w+|remov\w+|turning off|switching off|off|unset\w*|no)\b[^.;]{0,40}"
               r"\b(?:fixes|fixed|solves|solved|restores?d?|helps|helped|is fast|is fine|normal speed|full speed)\b"),
    re.compile(r"\b(?:fast|fine|normal|full speed)\b[^.;]{0,12}\b(?:without|once|as soon as|only with|with)\b"),
    re.compile(r"\b(?:fixed|solved|cured|restored|gone)\b[^.;]{0,24}\b(?:by|with|after|when|once)\b"),
)  # fmt: skip
_OF_SAMPLING = re.compile(
    r"\b(?:slow(?:er|s|ed|ly|ness|down)?|collaps\w*|lower|drop\w*|poor|bad|degrad\w*|loss|below|less than"
    r"|low|unusabl\w*|crawl\w*"
    r"|tanks?|expensive|dominat\w*|bottleneck|takes|halv\w*|hang\w*|stall\w*|fast)\b"
)
_TIED = re.compile(
    r"\b(?:with|when|whenever|using|uses?|if|once|enabl\w+|turn\w*|add\w*|set\w*|request\w*|makes?|caus\w+|slows?"
    r"|due to"
    r"|because|dominat\w*|expensive|takes?|costs?|is|are|for)\b"
)
"""What ties a thing to what it does: two words in one line are no trial yet."""
_SAMPLING = {Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS}
"""What nobody blames who has not seen requests without it run faster: they are the rule."""
_NO_TRIAL = re.compile(
    r"\b(?:maybe|might|perhaps|probably|suspect\w*|think|guess\w*|assum\w*|possibly|wonder\w*|not sure|seems? like)\b"
    r"|\?\s*$|\b(?:could|should|would|may) be\b"
    r"|\bthan (?:it |i |they |we |one )?"
    r"(?:expect\w*|should|before|usual|normal|advertised|claimed|hoped|possible|others?)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_CIRCUMSTANCES = {Topic.DEPTH, Topic.CONTEXT, Topic.EXPERTS}
PROVABLE = {
    Topic.CLIENT, Topic.GRAPHS, Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS, Topic.THREADS, Topic.NUMA,
    Topic.CPU_QUOTA, Topic.BATCH, Topic.CACHE, Topic.GPU_COUNT, Topic.SPLIT_MODE, Topic.TENSOR_PARALLEL, Topic.DRAFT,
    Topic.CLOCKS, Topic.LINK, Topic.THINKING, Topic.DISK, Topic.LOAD_MODE, Topic.CONCURRENCY,
}  # fmt: skip
"""What may be proven by a direction alone: other quants, say, differ in speed by nature."""


def worded_trial(text: str) -> tuple[Topic, ...]:
    """What a sentence of a line tells a trial of, in words only."""
    return next((topics for sentence in _SENTENCE.split(text) if (topics := _of_sentence(sentence))), ())


def _of_sentence(text: str) -> tuple[Topic, ...]:
    """Nothing where it guesses, hopes, or compares with no other way."""
    topics = tuple(topic for topic in topics_of(text) if topic not in _CIRCUMSTANCES)
    if not topics or not set(topics) <= PROVABLE or _NO_TRIAL.search(text) or versions_in(text):
        return ()
    patterns = (*_TRIALS, _OF_SAMPLING) if set(topics) <= _SAMPLING and _TIED.search(text) else _TRIALS
    return topics if any(pattern.search(text) for pattern in patterns) else ()
