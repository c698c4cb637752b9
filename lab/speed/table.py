"""The rows that can be learned from: one for each configuration, with the group it is judged in."""

import collections
import csv
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from unslow.facts.values import GIB, Unknown
from unslow.think.physics.terms import Term, least_seconds
from unslow.think.speed.question import prompt_terms, step_terms
from unslow.think.speed.rows import AskedRow, cell_number, group_of, parse_row, question_of

DATA = Path(__file__).parents[1] / "data"
TRUSTED = (
    "XiongjieDai", "lhl/", "kyuz0", "ggml-org", "cjpais", "1337hero", "AlexHiesch", "geerlingguy", "hogeheer",
    "antirez",
)  # fmt: skip
FLAGGED = (
    "SLOW SETUP", "SPILL", "low trust", "regression", "anomal", "low-efficiency", "RPC", "ot=", "nkvo=1",
)  # fmt: skip
"""What the table itself says of rows that measured something else than the hardware."""
_BENCH = re.compile(r"(?:tg|pp)\s?\d+")
"""A test as llama-bench names it."""
UNLIKE = re.compile(r"(?i)spec|mtp|draft|turboquant|claimed|aggregate")
LONGEST_ANSWER = 2048.0
TOLERANCE = 0.97
DEEPEST_CHAT = 2048.0
"""Of a chat, a larger number in the table is often the context that was configured, not the depth that was reached."""
GATHERED_WEIGHT = 0.3
TRUSTED_WEIGHT, OTHER_WEIGHT, CHAT_WEIGHT = 1.0, 0.3, 0.05
"""Benchmarks by known publishers, other benchmarks, and the speed of a whole chat."""
SLICE_WEIGHT = 0.1
"""A server's processor without a number of threads: who rents a few of its cores reads the same name."""
_SERVER_CHANNELS = 6
_ON_GPU = re.compile(r"(?i)vulkan|cuda|rocm|hip|sycl|metal|opencl")


class Measured(NamedTuple):
    """A configuration that was measured."""

    device: str
    group: str
    backend: str
    family: str
    terms: tuple[Term, ...]
    seconds: float
    weight: float
    is_trusted: bool
    source: str


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(encoding="utf-8") as file:
        return [{k: v or "" for k, v in row.items() if k} for row in csv.DictReader(file)]


def measured(rows: Iterable[dict[str, str]]) -> list[Measured]:
    """Every configuration of a table, the median of its rows, weighed so that no device outshouts the others."""
    found: dict[tuple[object, ...], list[Measured]] = collections.defaultdict(list)
    for row in rows:
        one = _measured(row)
        if one:
            found[_key(row, one)].append(one)
    merged = [_median(some) for some in found.values()]
    crowd = collections.Counter((m.device, m.backend, m.group) for m in merged)
    return [m._replace(weight=m.weight / crowd[m.device, m.backend, m.group] ** 0.5 * _certainty(m)) for m in merged]


def _certainty(m: Measured) -> float:
    """Less where the machine around the GPUs decides: prompts on several GPUs that share each matrix."""
    gathers = any(factor.name.startswith("prompt gather") for term in m.terms for factor in term.factors)
    return GATHERED_WEIGHT if gathers else 1.0


def _key(row: dict[str, str], one: Measured) -> tuple[object, ...]:
    setup = ("backend", "runtime", "model", "quant", "ctx_or_depth", "test", "threads", "n_gpus", "ngl", "kv_type")
    return (one.device, one.is_trusted, *(row.get(c, "") for c in setup))


def _median(some: list[Measured]) -> Measured:
    return some[0]._replace(seconds=statistics.median(m.seconds for m in some))


def _measured(row: dict[str, str]) -> Measured | None:
    """One row; None where it teaches nothing, or something wrong."""
    speed = cell_number(row.get("tok_s"))
    found = parse_row(row) if speed and not is_flagged(row) else None
    if found is None or isinstance(found, Unknown) or not _is_usable(found):
        return None
    is_sized = cell_number(row.get("model_size_gib")) > 0
    is_exact = bool(_BENCH.fullmatch(row["test"].strip())) and is_sized
    terms = terms_of(found)
    if found.backend == "cpu" and _ON_GPU.search(row.get("backend", "")):
        return None  # an integrated GPU, of which only the processor is named
    if (not is_exact and found.start > DEEPEST_CHAT) or beats_ceiling(1 / speed, terms):
        return None
    is_trusted = row["source"].startswith(TRUSTED)
    weight = (TRUSTED_WEIGHT if is_trusted else OTHER_WEIGHT) if is_exact else CHAT_WEIGHT
    return Measured(
        device=found.device.name,
        group=group_of(found),
        backend=found.backend,
        family=found.setting.family,
        terms=terms,
        seconds=1 / speed,
        weight=weight * (SLICE_WEIGHT if _may_be_a_slice(found) else 1.0),
        is_trusted=is_trusted and is_exact,
        source=row["source"],
    )


def _may_be_a_slice(found: AskedRow) -> bool:
    return found.backend == "cpu" and not found.threads and found.device.memory_channels >= _SERVER_CHANNELS


def beats_ceiling(seconds: float, terms: Iterable[Term]) -> bool:
    """Whether it is faster than memory can be read: another model, quant or device than the row says."""
    return seconds < TOLERANCE * float(least_seconds(terms))


def terms_of(found: AskedRow) -> tuple[Term, ...]:
    """The terms of a row's test."""
    q = question_of(found)
    terms = step_terms(q) if found.kind == "tg" else prompt_terms(q, found.tokens, found.micro_batch)
    return tuple(term for term in terms if term.seconds)


def is_flagged(row: dict[str, str]) -> bool:
    """Whether the table itself warns of a row, or it measured a trick that is no property of the hardware."""
    return any(flag in row["note"] for flag in FLAGGED) or any(
        UNLIKE.search(row.get(column, "")) for column in ("test", "kv_type", "runtime", "model")
    )


def _is_usable(found: AskedRow) -> bool:
    """One stream, an answer that is not too long, and a model that fits the GPUs it is said to run on."""
    if found.conversations > 1 or (found.kind == "tg" and found.tokens > LONGEST_ANSWER):
        return False
    room = found.device.memory_bytes * found.gpus
    is_partial = found.experts_on_cpu or found.gpu_layers is not None
    return found.backend == "cpu" or bool(is_partial) or not room or found.load.file_bytes < room or room < GIB
