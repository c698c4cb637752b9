"""`ollama ps` and `/api/ps`: which models are loaded, and how much of each Ollama planned for the GPU.

The column PROCESSOR compares planned bytes: it does not tell where anything is computed. Before 0.9.6 there was no
column CONTEXT; it counts the tokens of one request, not of all that may run together.
"""

import re
from itertools import islice
from typing import Any, NamedTuple

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated, failed, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_places import Places
from unslow.look.logs.go_values import size_bytes

MOST_ROWS = 64
_GAP = r"[\s|]{1,80}"
_SPLIT = r"(\d{1,3})%\s?/\s?(\d{1,3})%\s{1,4}CPU/GPU"
_ROW = re.compile(
    rf"(?<!\S)([\w./:@-]{{1,160}}){_GAP}([0-9a-f]{{12}}){_GAP}(\d{{1,6}}(?:\.\d{{1,3}})?\s?[KMGT]?B){_GAP}"
    rf"(?:(100)%\s{{1,4}}(GPU|CPU)|{_SPLIT}|(Unknown))(?:{_GAP}(\d{{3,8}})(?![\w%]))?(?:{_GAP}(Forever|Never|Stopping))?"
)
_PHRASE = re.compile(rf"{_SPLIT}|\b(\d{{1,3}})%\s?CPU\s?[/,]\s?(\d{{1,3}})%\s?GPU\b|\b100%\s(GPU|CPU)\b")
_SIZE_BEFORE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?\s?[KMGT]B)[\s|,:]{1,80}$")
_COMMAND = re.compile(r"ollama ps|\bPROCESSOR\b")
_FIELD = re.compile(
    r"[\"'](name|size|size_vram|context_length|quantization_level|parameter_size)[\"']\s*:\s*"
    r"(?:[\"']([^\"'\n]{1,160})[\"']|(\d{1,18})\b)"
)
_NEAR = 200
_MOST_PHRASES = 100
_ALL = 100


class LoadedModel(NamedTuple):
    """One loaded model, by Ollama's own account."""

    name: Fact[str]
    share: Fact[float]
    """How much of it is planned for GPUs."""
    size: Fact[int]
    size_vram: Fact[int]
    context: Fact[int]
    keep_alive_s: Fact[float]
    quant: Fact[str]

    def subject(self) -> Subject:
        """The model as a subject."""
        given: dict[str, Any] = {
            "vram_share": self.share,
            "size_bytes": self.size,
            "size_vram_bytes": self.size_vram,
            "context_per_slot": self.context,
            "context_length": _all_slots(self.context),
            "keep_alive_s": self.keep_alive_s,
        }
        source = next(fact.source for fact in self if isinstance(fact, Known))
        known: dict[str, Any] = {name: fact for name, fact in given.items() if isinstance(fact, Known)}
        runtime = Runtime(name=reported("Ollama", source), state=reported("loaded", source), **known)
        return Subject(runtime=runtime, model=Model(name=self.name, quant=self.quant))


def _all_slots(context: Fact[int]) -> Fact[int]:
    """Unless a log or a command says otherwise there is one slot."""
    return estimated(context.value, f"{context.source}: for one request") if isinstance(context, Known) else context


def parse_text(text: Text) -> Seen:
    """The table, the JSON or the phrase; of several models the one with least on the GPU, which is slowest."""
    places = Places(text)
    rows = parse_table(places) or parse_json(places)
    if rows:
        slowest = min(rows, key=lambda row: row.share.value_or(1.0))
        spans = tuple(places.span(found) for found, _ in islice(places.find(_ROW), MOST_ROWS))
        return Seen(subject=slowest.subject(), lines=len(rows), spans=spans)
    return _phrase(places)


def parse_table(places: Places) -> list[LoadedModel]:
    """Every row, wrapped or not, with spaces, tabs or bars between its columns."""
    if "%" not in places.joined:
        return []
    return [_row(found, where) for found, where in islice(places.find(_ROW), MOST_ROWS)]


def _row(found: re.Match[str], where: str) -> LoadedModel:
    name, _, size_text, whole, side, cpu, gpu, _, context, until = found.groups()
    missing = failed(f"{where} does not say")
    share = 1.0 * (side == "GPU") if whole else _share(cpu, gpu)
    size = size_bytes(size_text)
    return LoadedModel(
        name=reported(name, where),
        share=missing if share is None else reported(share, where),
        size=missing if size is None else reported(size, where),
        size_vram=missing if size is None or share is None else estimated(round(size * share), where),
        context=reported(int(context), where) if context else missing,
        keep_alive_s=reported(-1.0, where) if until in ("Forever", "Never") else missing,
        quant=missing,
    )


def _share(cpu: str | None, gpu: str | None) -> float | None:
    """The GPU's part of two that make a whole."""
    if cpu is None or gpu is None or int(cpu) + int(gpu) != _ALL:
        return None
    return int(gpu) / _ALL


def parse_json(places: Places) -> list[LoadedModel]:
    """The models of an answer of /api/ps, cut short or not."""
    if "size_vram" not in places.joined:
        return []
    models: list[dict[str, tuple[str, str]]] = []
    for found, where in places.find(_FIELD):
        if found[1] == "name" or not models:
            models.append({})
        models[-1].setdefault(found[1], (found[2] or found[3], where))
    return [_of_json(model) for model in models[:MOST_ROWS] if "size_vram" in model]


def _of_json(fields: dict[str, tuple[str, str]]) -> LoadedModel:
    size, vram = _number(fields, "size"), _number(fields, "size_vram")
    whole, part = size.value_or(0), vram.value_or(0)
    share = estimated(part / whole, fields["size_vram"][1]) if whole and part <= whole else failed("no share of a size")
    return LoadedModel(
        name=_word(fields, "name"),
        share=share,
        size=size,
        size_vram=vram,
        context=_number(fields, "context_length"),
        keep_alive_s=failed("/api/ps does not say"),
        quant=_word(fields, "quantization_level"),
    )


def _number(fields: dict[str, tuple[str, str]], name: str) -> Fact[int]:
    value, where = fields.get(name, ("", ""))
    return reported(int(value), where) if value.isdecimal() else failed(f"/api/ps does not tell its {name}")


def _word(fields: dict[str, tuple[str, str]], name: str) -> Fact[str]:
    return reported(*fields[name]) if name in fields else failed(f"/api/ps does not tell its {name}")


def _phrase(places: Places) -> Seen:
    """`68%/32% CPU/GPU` alone; "100% CPU" could be a load, unless the command is named nearby."""
    if "%" not in places.joined:
        return Seen()
    shares: list[tuple[float, int | None, str]] = []
    for found, where in islice(places.find(_PHRASE), _MOST_PHRASES):
        cpu, gpu, other_cpu, other_gpu, side = found.groups()
        share = 1.0 * (side == "GPU") if side else _share(cpu or other_cpu, gpu or other_gpu)
        if share is None or (not cpu and not _COMMAND.search(places.near(found, _NEAR))):
            continue
        shares.append((share, _size_before(places, found), where))
    if not shares:
        return Seen()
    share, size, where = min(shares, key=lambda each: each[0])  # of several the one with least on the GPU: the slowest
    sizes: dict[str, Any] = {}
    if size is not None:
        sizes = {"size_bytes": reported(size, where), "size_vram_bytes": estimated(round(size * share), where)}
    runtime = Runtime(name=reported("Ollama", where), vram_share=reported(share, where), **sizes)
    return Seen(subject=Subject(runtime=runtime), lines=1)


def _size_before(places: Places, found: re.Match[str]) -> int | None:
    """The column SIZE, where it stands right before the share: `52 GB    4%/96% CPU/GPU`."""
    before = _SIZE_BEFORE.search(places.joined[max(0, found.start() - _NEAR) : found.start()])
    return size_bytes(before[1]) if before else None
