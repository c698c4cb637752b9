"""How fast a stage is: one protocol for the fault and for its cure, apart from the diagnosis."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from lab.faults.asked import USUAL, Asked
from lab.faults.asking import ask, tokens
from lab.faults.fault import Heard, Metric, Playing

ANSWERS = 3
ABOUT_S = 4.0
"""How long one answer may take; a slow server generates fewer tokens for it."""
FEWEST, MOST = 8, 128
SHORT_PROMPT, LONG_PROMPT = 32, 1024
USERS = 4
WATCHED_S = 12.0
SMALLER_IS_BETTER = ("first_token", "load")


def measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """The metric on a stage that is being played; None where it could not be had."""
    if playing.load_s is None:
        return None
    if metric == "load":
        return playing.load_s
    if playing.clients:
        return watched(metric, playing)
    if playing.heard:
        return _of_clients(metric, playing.heard, sum(one.first_token_s + one.seconds for one in playing.heard))
    url = playing.diagnose_url or playing.url
    return first_token(url, asked) if metric == "first_token" else _BY_ASKING[metric](url)


def decode(url: str) -> float:
    """Tokens per second of a short question's answer, the median of some."""
    first = ask(url, tokens(SHORT_PROMPT), FEWEST, cache_prompt=False)
    count = round(min(max(first.tokens_per_s * ABOUT_S, FEWEST), MOST))
    answers = ANSWERS if first.tokens_per_s * ABOUT_S > FEWEST else 1
    return statistics.median(
        ask(url, tokens(SHORT_PROMPT), count, cache_prompt=False).tokens_per_s for _ in range(answers)
    )


def prefill(url: str) -> float:
    """Prompt tokens per second of a long prompt, as the server counts."""
    answers = [ask(url, tokens(LONG_PROMPT), 2, cache_prompt=False) for _ in range(2)]
    return statistics.median(one.prompt_tokens / one.prompt_s for one in answers)


def first_token(url: str, asked: Asked = USUAL) -> float:
    """Seconds to the first token of such a question, the median of some: as a rule of a conversation's second turn."""
    return statistics.median(_first_token(url, asked) for _ in range(2))


def _first_token(url: str, asked: Asked) -> float:
    talk = tokens(asked.kept)
    if talk:
        ask(url, talk, 2)
    return ask(url, talk + tokens(asked.new), 2).first_token_s


def together(url: str) -> float:
    """Tokens per second of several users who ask at the same time."""
    start = time.monotonic()
    with ThreadPoolExecutor(USERS) as users:
        answers = list(users.map(lambda _: ask(url, tokens(SHORT_PROMPT), MOST // 2), range(USERS)))
    return sum(one.tokens for one in answers) / (time.monotonic() - start)


_BY_ASKING: dict[Metric, Callable[[str], float]] = {"decode": decode, "prefill": prefill, "together": together}


def watched(metric: Metric, playing: Playing) -> float | None:
    """The metric as the clients beside have it, over some seconds and at least a few answers."""
    since = time.monotonic()
    while time.monotonic() - since < 5 * WATCHED_S:
        time.sleep(0.5)
        answers = [one for one in list(playing.heard) if one.at_s >= since]
        if time.monotonic() - since >= WATCHED_S and len(answers) >= ANSWERS:
            return _of_clients(metric, answers, time.monotonic() - since)
    return None


def _of_clients(metric: Metric, answers: list[Heard], seconds: float) -> float:
    match metric:
        case "first_token":
            return statistics.median(one.first_token_s for one in answers)
        case "prefill":
            return statistics.median(one.prompt_tokens / one.prompt_s for one in answers if one.prompt_s)
        case "together":
            return sum(one.tokens for one in answers) / seconds
        case _:
            return statistics.median(one.tokens_per_s for one in answers)
