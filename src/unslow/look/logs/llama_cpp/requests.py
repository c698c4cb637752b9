"""Lines about requests beside their timings: prompts read again, drafts, speed that falls within an answer."""

import re
from collections.abc import Iterator

from unslow.facts.values import reported
from unslow.look.logs.llama_cpp.state import Reading, Rule

_AGAIN = "forcing full prompt re-processing"
COUNTED = {_AGAIN: "prompts_reprocessed"}
"""Lines that are counted, and the fact that the count is."""
_LEAST_TOKENS = 300
"""Before that, a window of three seconds is a large part of the mean it is held against."""


def counted(reading: Reading) -> Iterator[tuple[str, tuple[int, str]]]:
    """The counts by the names of their facts."""
    return (
        (fact, reading.counts[needle])
        for needle, fact in COUNTED.items()
        if needle in reading.counts and reading.counts[needle][1]
    )


def _read_again(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.count(_AGAIN, 1, where)


def _drafted(reading: Reading, found: re.Match[str], where: str) -> None:
    """All requests of a load together: a short one says little."""
    load = reading.load
    load.accepted += int(found[1])
    load.drafted += int(found[2])
    if load.accepted <= load.drafted and load.drafted:
        load.facts["draft_acceptance"] = reported(round(load.accepted / load.drafted, 4), where)


def _acceptance(reading: Reading, found: re.Match[str], where: str) -> None:
    share = float(found[1]) / 100
    if share <= 1:
        reading.load.facts["draft_acceptance"] = reported(round(share, 4), where)


def _window(reading: Reading, found: re.Match[str], where: str) -> None:
    """The mean and the last three seconds of the answer that fell furthest."""
    tokens, mean, last = int(found[1]), float(found[2]), float(found[3])
    if tokens < _LEAST_TOKENS or mean <= 0:
        return
    share, load = min(1.0, last / mean), reading.load
    if load.decay is None or share < load.decay.value:
        load.decay = reported(round(share, 4), where)


def _rates(reading: Reading, found: re.Match[str], where: str) -> None:
    """llama-cli prints its speeds without counts."""
    reading.load.rates = (reported(float(found[1]), where), reported(float(found[2]), where))


def _top_k(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts["top_k"] = reported(int(found[1]), where)


def _draft_model(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts["speculative"] = reported(found[1].strip("'"), where)


_RATE = r"(\d{1,7}(?:\.\d{1,3})?)"
RULES = (
    Rule(_AGAIN, re.compile(_AGAIN), _read_again),
    Rule(
        "draft acceptance",
        re.compile(r"draft acceptance(?: rate)? = [\d.]{1,12} \(\s*(\d{1,9}) accepted /\s*(\d{1,9}) generated\)"),
        _drafted,
    ),
    Rule("accept  ", re.compile(r"\baccept\s+= (\d{1,3}(?:\.\d{1,6})?)%"), _acceptance),
    Rule("tg_3s", re.compile(rf"n_gen =\s*(\d{{1,9}}), tg =\s*{_RATE} t/s, tg_3s =\s*{_RATE} t/s"), _window),
    Rule("[ Prompt: ", re.compile(rf"\[ Prompt: {_RATE} t/s \| Generation: {_RATE} t/s \]"), _rates),
    Rule("top_k = ", re.compile(r"\btop_k = (-?\d{1,9}), (?:tfs_z|top_p) = "), _top_k),
    Rule("loading draft model", re.compile(r"loading draft model '?([^']{1,400})"), _draft_model),
)
