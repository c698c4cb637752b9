"""Questions about sizes: will it fit, how many layers, total or active parameters, one quant or the next."""

from statistics import median, quantiles
from typing import NamedTuple

from docs._build.figures.asking import QUANT, SYSTEM, Answer, cell, layers, memory, middle, model, speed, table, weights

from unslow.buy.tiers import models_by_shape
from unslow.catalog.models import well_known
from unslow.catalog.quality import Figure, tables
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer
from unslow.facts.values import GIB
from unslow.show.units import rate, size
from unslow.think.fit.answers import rule_of_thumb
from unslow.think.fit.gguf import most_layers

_LARGE = "H200"
"""Holds what is asked about here, so that one layout of the graph is counted for all."""
_CARDS_GB = (8, 12, 16, 24, 48)
_USABLE = 0.985
"""Of a card's memory, about: the driver keeps the rest."""
_FAR = 0.1
"""An error that matters when a card is chosen."""
_MEDIUM, _SMALL = "Q4_K_M", "Q4_K_S"


class Sized(NamedTuple):
    """What a model really takes, and what two rules say."""

    real: int
    by_bits: int
    by_file: int


def will_it_fit() -> Answer:
    """How to tell before downloading."""
    found = {context: _sizes(context) for context in (8192, 32_768)}
    rows = [row for context, sized in found.items() for row in _rules(context, sized)]
    short = [abs(one.by_bits / one.real - 1) for one in found[8192]]
    wrong = sum(error > _FAR for error in short)
    words = (
        "Add the file size, the KV cache (layers x key-value heads x head size x 4 bytes per token of context) and "
        "about half a gigabyte; `unslow fit NAME` calculates it exactly, without a file. The usual rule, parameters x "
        f"bits / 8 x 1.25, is off by more than 10 % for {wrong} of {len(short)} model shapes at 8,192 tokens, because "
        "it includes neither the KV cache nor the real bits of a quant."
    )
    head = ("rule", "context", "models", "median", "four of five within", "off by more than 10 %", "wrong about a card")
    return Answer(words, table(head, rows))


def _sizes(context: int) -> list[Sized]:
    """Of one model for each shape of the catalogue, in the usual quant and whole on a GPU."""
    return [_sized(group[0].name, context) for group in models_by_shape(well_known().values(), context)]


def _sized(name: str, context: int) -> Sized:
    found = model(name)
    need = memory(name, _LARGE, depth=context - 256).memory().needs[0]
    rule = rule_of_thumb(found.parameters, QUANT, None, need.total)
    return Sized(need.total, rule.says_bytes if rule else 0, need.weights + need.cache + GIB // 2)


def _rules(context: int, sized: list[Sized]) -> list[tuple[str, ...]]:
    ways = {"parameters x bits x 1.25": [one.by_bits for one in sized],
            "file + cache + 0.5 GiB": [one.by_file for one in sized]}  # fmt: skip
    return [_rule(name, context, sized, said) for name, said in ways.items()]


def _rule(name: str, context: int, sized: list[Sized], said: list[int]) -> tuple[str, ...]:
    errors = [says / one.real - 1 for says, one in zip(said, sized, strict=True)]
    low, *_, high = quantiles(errors, n=10)
    rooms = [_USABLE * gb * GIB for gb in _CARDS_GB]
    pairs = [(says <= room, one.real <= room) for says, one in zip(said, sized, strict=True) for room in rooms]
    far = sum(abs(error) > _FAR for error in errors)
    wrong = sum(says != real for says, real in pairs)
    ends = f"{low:+.0%} to {high:+.0%}"
    return name, f"{context:,}", str(len(sized)), f"{median(errors):+.0%}", ends, f"{far}", f"{wrong} of {len(pairs):,}"


def why_58_layers() -> Answer:
    """Why not exactly 58 layers."""
    name, card = "llama-3.3-70b", "RTX 4090"
    every, quants, contexts = layers(name), ("Q4_K_M", "Q3_K_M", "IQ2_XS"), (4096, 8192, 32_768)
    held = {(q, c): most_layers(memory(name, card, q, depth=c - 256)) for q in quants for c in contexts}
    each = (weights(name) - _outside(name)) / (every - 1)
    words = (
        "Because the number follows from sizes and differs for every quant and context: a layer of Llama 3.3 70B in "
        f"{QUANT} takes {size(each)} plus its KV cache, so a 24 GB card holds {held[QUANT, 8192]} of {every} with "
        f"8,192 tokens. 58 would need {size(58 * each)} for weights alone. As long as some are left out, the host "
        "sets the speed, so one layer more or less matters little."
    )
    rows = [
        (q, size(weights(name, q)), *(f"{held[q, c]}" for c in contexts), rate(middle(name, card, q))) for q in quants
    ]
    head = ("quant", "weights", *(f"layers at {c:,}" for c in contexts), "tok/s with an empty context")
    return Answer(words, table(head, rows))


def _outside(name: str) -> int:
    """What lies in no layer: the table of tokens and the output."""
    tensors = model(name).blueprint.tensors
    return sum(t.bytes for t in tensors if not t.name.startswith("blk."))


def total_or_active() -> Answer:
    """A mixture of experts: total or active."""
    names = ("qwen3-30b-a3b", "qwen3-32b", "gpt-oss-120b", "mistral-large-123b", "mixtral-8x7b", "llama-3.3-70b")
    read = {name: _read(name) for name in names}
    sparse, dense = (middle(name, "RTX 4090") for name in ("qwen3-30b-a3b", "qwen3-32b"))
    words = (
        "Both: total parameters set the memory, active ones the speed. Qwen3-30B-A3B takes as much as a dense model "
        f"of its size ({size(weights('qwen3-30b-a3b'))} against {size(weights('qwen3-32b'))}) and is "
        f"{sparse / dense:.1f} times as fast on an RTX 4090, because a token reads only some of its experts."
    )
    rows = [
        (name, f"{model(name, _own(name)).parameters / 1e9:.0f}B", size(weights(name, _own(name))), size(read[name]),
         cell(speed(name, "RTX 4090", _own(name))), cell(speed(name, _LARGE, _own(name))))
        for name in names
    ]  # fmt: skip
    return Answer(words, table(("model", "parameters", "weights", "read per token", "RTX 4090", _LARGE), rows))


def _own(name: str) -> str | None:
    return None if name.startswith("gpt-oss") else QUANT


def _read(name: str) -> float:
    """Bytes for a token, by the ceiling that bandwidth sets."""
    report = answer(SYSTEM, PredictRequest(model=name, quant=_own(name), devices=(_LARGE,)))
    if report.decode is None or report.place is None or not report.decode.ceiling_tokens_per_s:
        raise SystemExit(f"nothing is predicted for {name}")
    return report.place.bytes_per_s / report.decode.ceiling_tokens_per_s


def small_or_medium() -> Answer:
    """Q4_K_S against Q4_K_M."""
    both = {t: (m, s) for t in tables() if (m := _lost(t, _MEDIUM)) is not None and (s := _lost(t, _SMALL)) is not None}
    newest = max(both, key=lambda name: (tables()[name].date, name))
    medium, small = both[newest]
    cards = {"llama-3.1-8b": "RTX 4090", "llama-3.3-70b": "2x RTX 3090"}
    saved = sum(1 - weights(name, _SMALL) / weights(name, _MEDIUM) for name in cards) / len(cards)
    words = (
        f"A little: in the newest published measurement that has both ({tables()[newest].model}) perplexity rises by "
        f"{small:.2%} with Q4_K_S and by {medium:.2%} with Q4_K_M. It saves about {saved:.0%} of the memory and of the "
        "time, which is worth it if it makes a model fit, and hardly otherwise."
    )
    rows = [(tables()[t].model, tables()[t].date, f"{m:+.2%}", f"{s:+.2%}") for t, (m, s) in sorted(both.items())]
    quality = table(("perplexity of", "published", _MEDIUM, _SMALL), rows)
    head = ("size and speed of", _MEDIUM, _SMALL, "card", f"{_MEDIUM}, tok/s", f"{_SMALL}, tok/s")
    return Answer(words, quality + "\n\n" + table(head, [_both_sizes(*case) for case in cards.items()]))


def _both_sizes(name: str, card: str) -> tuple[str, ...]:
    sizes = (size(weights(name, quant)) for quant in (_MEDIUM, _SMALL))
    rates = (rate(middle(name, card, quant)) for quant in (_MEDIUM, _SMALL))
    return name, *sizes, card, *rates


def _lost(table_name: str, quant: str) -> float | None:
    """The published increase of the perplexity."""
    measured = tables()[table_name]
    rows = [Figure(measured, row) for row in measured.rows if row.quant == quant and not row.matrix]
    return rows[0].increase if rows else None
