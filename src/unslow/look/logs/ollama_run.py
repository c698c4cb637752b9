"""`ollama run --verbose` and the last part of an answer of /api/generate or /api/chat: counts and durations.

The count of the prompt holds the tokens that were cached and the duration does not: a rate made of the two is too high
where a prompt was seen before. Of several prompts the one that took longest suffers least from it.
"""

import re
import statistics
from typing import Any, NamedTuple

from unslow.facts.run import Completion, Run
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown, estimated, not_found, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_places import Places
from unslow.look.logs.go_values import DURATION, seconds

LOADED_AGAIN_S = 1.0
"""A model that is there already is found in milliseconds; whatever takes longer was a load."""
MOST_BLOCKS = 1000
_KEYS = r"total|load|prompt eval|eval"
_VERBOSE = re.compile(
    rf"\b(?:({_KEYS})[ _]duration\b[\"'`*]{{0,3}}\s?[:=|]\s{{0,40}}({DURATION})(?![\w.])"
    r"|((?:prompt )?eval)[ _]count\b[\"'`*]{0,3}\s?[:=|]\s{0,40}(\d{1,9}) ?token"
    r"|((?:prompt )?eval)[ _]rate\b[\"'`*]{0,3}\s?[:=|]?\s{0,40}(\d{1,9}(?:\.\d{1,6})?) ?tok(?:en)?s?/s)"
)
_JSON = re.compile(r"[\"'](?:(total|load|prompt_eval|eval)_duration|(prompt_eval|eval)_count)[\"']\s*:\s*(\d{1,19})\b")
_NANO = 1e-9


class Block(NamedTuple):
    """The figures of one answer: `total_s`, `load_s`, `eval_count`, `eval_rate` ...; and where they stand."""

    values: dict[str, float]
    where: str
    span: tuple[int, int]


def parse_text(text: Text) -> Seen:
    """Every block of figures in a text."""
    places = Places(text)
    blocks = _blocks(places, _VERBOSE, _verbose) + _blocks(places, _JSON, _of_json)
    blocks = [
        block for block in blocks if {"eval_s", "eval_rate", "prompt_eval_s", "prompt_eval_rate"} & set(block.values)
    ]
    if not blocks:
        return Seen()
    runtime = Runtime(name=reported("Ollama", blocks[0].where), **_loads(blocks))
    lines = sum(len(block.values) for block in blocks)
    return Seen(
        subject=Subject(runtime=runtime, run=_run(blocks)), lines=lines, spans=tuple(block.span for block in blocks)
    )


def _blocks(places: Places, pattern: re.Pattern[str], read: Any) -> list[Block]:
    """A block ends where one of its figures comes again."""
    if "eval" not in places.joined:
        return []
    blocks: list[Block] = []
    for found, where in places.find(pattern):
        name, value = read(found)
        if value is None:
            continue
        start, end = places.span(found)
        if not blocks or name in blocks[-1].values or start > blocks[-1].span[1] + 4:
            if len(blocks) == MOST_BLOCKS:
                break
            blocks.append(Block({}, where, (start, end)))
        blocks[-1].values[name] = value
        blocks[-1] = blocks[-1]._replace(span=(blocks[-1].span[0], end))
    return blocks


def _verbose(found: re.Match[str]) -> tuple[str, float | None]:
    timed, duration, counted, count, rated, rate = found.groups()
    if timed:
        return f"{timed.replace(' ', '_')}_s", seconds(duration)
    if counted:
        return f"{counted.replace(' ', '_')}_count", float(count)
    return f"{rated.replace(' ', '_')}_rate", float(rate)


def _of_json(found: re.Match[str]) -> tuple[str, float | None]:
    timed, counted, number = found.groups()
    return (f"{timed}_s", int(number) * _NANO) if timed else (f"{counted}_count", float(number))


def _loads(blocks: list[Block]) -> dict[str, Any]:
    """The answers that had to wait for the model."""
    loads = [
        PastLoad(seconds=reported(block.values["load_s"], block.where), source=block.where)
        for block in blocks
        if block.values.get("load_s", 0) > LOADED_AGAIN_S
    ]
    return {"loads": reported(loads, loads[0].source)} if loads else {}


def _run(blocks: list[Block]) -> Run:
    where = blocks[-1].where
    completions = [done for block in blocks if (done := _completion(block))]
    loads = [block.values["load_s"] for block in blocks if "load_s" in block.values]
    return Run(
        completions=reported(tuple(completions), where) if completions else not_found(f"{where} has no counts"),
        decode_tokens_per_s=_decode(blocks),
        prefill_tokens_per_s=_prefill(blocks),
        load_s=reported(max(loads), where) if loads else not_found(f"{where} times no load"),
        request_s=_requests(blocks),
    )


def _decode(blocks: list[Block]) -> Known[float] | Unknown:
    rates = [rate for block in blocks if (rate := _rate(block, "eval"))]
    if not rates:
        return not_found(f"{blocks[0].where} has no rate of generation")
    return reported(statistics.median(rates), blocks[-1].where)


def _prefill(blocks: list[Block]) -> Known[float] | Unknown:
    """The rate of the prompt that took longest, of those that are timed."""
    rated = [block for block in blocks if _rate(block, "prompt_eval")]
    if not rated:
        return not_found(f"{blocks[0].where} has no rate of the prompt")
    longest = max(rated, key=lambda block: block.values.get("prompt_eval_s", 0))
    return estimated(_rate(longest, "prompt_eval"), f"{longest.where}: counts cached tokens too")


def _rate(block: Block, name: str) -> float:
    """Tokens in a second: of the count where there is one, else as printed; nought where there is neither."""
    count, took = block.values.get(f"{name}_count", 0), block.values.get(f"{name}_s", 0)
    return count / took if count and took else block.values.get(f"{name}_rate", 0)


def _completion(block: Block) -> Completion | None:
    values = block.values
    if not values.get("eval_count") or not values.get("eval_s"):
        return None
    return Completion(
        prompt_tokens=int(values.get("prompt_eval_count", 0)),
        generated_tokens=int(values["eval_count"]),
        prefill_s=values.get("prompt_eval_s", 0.0),
        decode_s=values["eval_s"],
        client_total_s=values.get("total_s"),
    )


def _requests(blocks: list[Block]) -> Known[tuple[float, ...]] | Unknown:
    totals = [block.values["total_s"] for block in blocks if "total_s" in block.values]
    return reported(tuple(totals), blocks[-1].where) if totals else not_found(f"{blocks[0].where} has no totals")
