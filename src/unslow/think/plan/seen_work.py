"""The usual request of a server, by what was seen of the requests of others."""

from statistics import median
from typing import NamedTuple

from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known

_FEWEST = 2
"""One request alone may be anything."""


class SeenWork(NamedTuple):
    """Numbers of a usual request; None where nothing was seen."""

    prompt: int | None = None
    kept: int | None = None
    answer: int | None = None
    said: str = ""
    """Where they are from, for the reader."""


def work_seen(case: Case) -> SeenWork:
    """From requests in work while the server was watched, else from its log; what this program sent does not count."""
    traffic = case.run.traffic
    answer = _answer(case)
    if isinstance(traffic, Known) and traffic.value.prompts.value_or(()):
        return _of_traffic(traffic.value)._replace(answer=answer)
    logged = case.run.logged_prompts.value_or(())
    if len(logged) >= _FEWEST and not isinstance(case.run.completions, Known):
        said = f"prompts as in the server's log: {int(median(logged)):,} tokens are computed for a usual one"
        return SeenWork(max(1, int(median(logged))), None, answer, said)
    return SeenWork(answer=answer)


def _of_traffic(traffic: Traffic) -> SeenWork:
    prompts = traffic.prompts.value_or(())
    kept = int(median(min(one.tokens, one.cached_tokens) for one in prompts))
    new = max(1, int(median(max(0, one.tokens - one.cached_tokens) for one in prompts)))
    said = f"prompts as seen in {len(prompts)} requests of others: {new:,} new tokens after {kept:,} kept"
    return SeenWork(new, kept, None, said)


def _answer(case: Case) -> int | None:
    """The length of an answer that a client asked for, with what was thought before it."""
    if isinstance(case.run.completions, Known) or not isinstance(case.run.answer_tokens, Known):
        return None
    return max(1, int(case.run.answer_tokens.value + case.run.thinking_tokens.value_or(0)))
