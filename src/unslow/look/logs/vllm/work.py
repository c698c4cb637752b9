"""vLLM at work: the line it writes every ten seconds, preemptions, how drafts fare.

What it calls prompt throughput is tokens over those ten seconds, mostly idle ones: no speed of reading prompts. It
means to add its preemptions, but 0.32 sets their number back before it writes: a line without them rules none out.
"""

import re

from unslow.look.logs.serving_rules import NUMBER, Rule, share, whole
from unslow.look.logs.serving_state import Moment, Reading

_GENERATION = re.compile(r"Avg generation throughput: (\d{1,9}(?:\.\d{1,6})?)")
_PROMPT = re.compile(r"Avg prompt throughput: (\d{1,9}(?:\.\d{1,6})?)")
_RUNNING = re.compile(r"Running:? (\d{1,6}) req|\b(\d{1,6}) running\b")
_WAITING = re.compile(r"(?:Waiting|Pending):? (\d{1,6}) req|\b(\d{1,6}) (?:waiting|pending)\b")
_SWAPPED = re.compile(r"Swapped:? (\d{1,6}) req")
_USAGE = re.compile(r"(?<!C)PU KV cache usage\b([^,;\n]{1,60})")
_HOST_USAGE = re.compile(r"CPU KV cache usage\b([^,;\n]{1,60})")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,4})?) ?%")


def _moment(reading: Reading, found: re.Match[str], where: str) -> None:
    """One line about the work, or a fragment of one."""
    line = found.string
    rate, prompt = _number(_GENERATION, line), _number(_PROMPT, line)
    waiting = [n for n in (_number(_WAITING, line), _number(_SWAPPED, line)) if n is not None]
    running = _number(_RUNNING, line)
    reading.works(
        Moment(
            where=where,
            running=None if running is None else int(running),
            waiting=int(sum(waiting)) if waiting else None,
            usage=_usage(line),
            tokens_per_s=rate,
            prefills=bool(prompt),
        )
    )


def _usage(line: str) -> float | None:
    """How full the cache is; the highest of several figures, where somebody tells how it rose."""
    # on GPUs the other figure is about room for swapped requests
    part = _USAGE.search(line) or _HOST_USAGE.search(line)
    shares = [share(text) for text in _PERCENT.findall(part[1])] if part else []
    return max(shares, default=None)


def _number(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(next(text for text in found.groups() if text)) if found else None


def _hits(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("prefix_hit_rate", share(found[1]), where)


def _preempted_since(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.count("preemptions", whole(found[1]), where)


def _preempted(reading: Reading, found: re.Match[str], where: str) -> None:
    """The first engine warns at every fiftieth and gives the sum."""
    reading.worked = True
    total = whole(found[1]) if found[1] else reading.counted.get("preemptions", (0, ""))[0] + 1
    reading.counted.pop("preemptions", None)
    reading.count("preemptions", total, where)
    reading.warn(found[0][:200], where)


def _acceptance(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("draft_acceptance", share(found[1]), where)


def _acceptance_share(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("draft_acceptance", min(float(found[1]), 1.0), where)


WORK_RULES = (
    Rule(
        ("Avg generation throughput:", "KV cache usage", "Waiting: "),
        re.compile(
            r"Avg generation throughput: \d|[GC]PU KV cache usage[^,;\n]{0,60}%|Running: \d{1,6} reqs?, [SW]\w{4,6}: \d"
        ),
        _moment,
    ),
    Rule(
        ("refix cache hit rate",),
        re.compile(r"(?<!External p)refix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,4})?)%"),
        _hits,
    ),
    Rule(("Preemptions: ",), re.compile(r"Preemptions: (\d{1,9})"), _preempted_since),
    Rule(
        ("is preempted by",),
        re.compile(
            rf"equence group \S{{1,60}} is preempted by[^\n]{{0,400}}?(?:total_num_cumulative_preemption={NUMBER}|$)"
        ),
        _preempted,
    ),
    Rule(("raft acceptance rate",), re.compile(r"Draft acceptance rate: (\d{1,3}(?:\.\d{1,4})?)%"), _acceptance),
    Rule(("Speculative metrics:",), re.compile(r"Draft acceptance rate: (\d(?:\.\d{1,6})?),"), _acceptance_share),
)
