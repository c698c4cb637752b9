"""The model and the runtime that a text tells of: names, quant, size, versions and between which two it got slow."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from unslow.catalog.bug_reports import runtime_words, version_phrases
from unslow.facts.model import Model
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated_fact, told_fact
from unslow.think.claims.models import QuantSaid, models_said, quants_said, readings
from unslow.think.text.lines import Line

_LETTERS = re.compile(r"[^a-z0-9]")
_TUNED = re.compile(r"\b(?:instruct|chat|it|base|hf|gguf|text)\b|latest|.*/")
_ALIKE = 1.3  # Readings of one name that differ by more than this leave the size open
_LABEL = re.compile(r"^models?\b[^:]{0,12}:\s*")
_NAME = re.compile(r"[\w.:/+-]{3,80}")
_ACTIVE = re.compile(r"\b(\d{1,4}(?:\.\d)?)b-a(\d{1,3}(?:\.\d)?)b\b")
_GPU_NAME = re.compile(r"\b(?:radeon|geforce|quadro|vega|amd|ryzen \w{1,8})\b[\w() ]{0,16}?\b(\d{3}m)\b")
_USUAL = {"Ollama": "q4_k_m", "LM Studio": "q4_k_m"}  # The default quant of these
_MOE = re.compile(r"\bmoe\b|\bmixture of experts\b|\bexperts\b")


def model_told(lines: Sequence[Line], runtime: str = "") -> Model:
    """The model of the line that is labelled so, else of the first that names one."""
    # A GPU's name of three digits and an M is no model of so many million parameters
    lines = [
        line._replace(text=_GPU_NAME.sub(lambda m: m[0][: -len(m[1])] + "x" * len(m[1]), line.text)) for line in lines
    ]
    ordered = [*(line for line in lines if _LABEL.match(line.text)), *lines]
    named = ((q, line.where) for line in ordered for q in quants_said(line.text) if not q.of_cache)
    first, where = next(named, (None, ""))
    quant = told_fact(first.label, where) if first else NOT_LOOKED
    said = first or next(iter(quants_said(_USUAL.get(runtime, ""))), None)
    for line in ordered:
        if facts := _facts(line):
            return Model(**facts, quant=quant, **_weights(line, said))
    return Model(quant=quant)


def _weights(line: Line, quant: QuantSaid | None) -> dict[str, Any]:
    said = models_said(line.text)
    if not said or quant is None:
        return {}
    sizes = [reading.weights_bytes for reading in readings(said[0], quant)]
    known = sizes and max(sizes) < _ALIKE * min(sizes)
    return {"weights_bytes": estimated_fact(int(sizes[0]), f"{line.where}: the model in this quant")} if known else {}


def _facts(line: Line) -> dict[str, Any]:
    label = _LABEL.match(line.text)
    said = models_said(line.text)
    if not said and not label:
        return {}
    rest = line.original[label.end() :] if label else line.original
    name = _NAME.search(rest)
    called = name[0] if name else rest[:80]
    if said:  # the catalog's name where it is the same but for its spelling, else the name as it was written
        written = line.original[said[0].start : said[0].end].strip(" ,;:()")
        known, words = _letters(said[0].label), _letters(_TUNED.sub("", written.lower()))
        called = said[0].label if known.startswith(words) or known == _letters(written) else written
    facts: dict[str, Any] = {"name": told_fact(called, line.where)}
    if said and said[0].parameters:
        facts["parameters"] = told_fact(int(said[0].parameters), line.where)
    if said and len({m.shape.layers for m in said[0].models}) == 1:
        facts["layers"] = told_fact(int(said[0].models[0].shape.layers), line.where)
    # How many experts, where the catalog knows; 1 stands for "some", since the name only says that there are
    experts = said[0].models[0].shape.experts if said and len(said[0].models) == 1 else None
    if experts is None and (_ACTIVE.search(line.text) or _MOE.search(line.text)):
        experts = 1
    return facts | ({"experts": told_fact(int(experts), line.where)} if experts is not None else {})


def _letters(text: str) -> str:
    return _LETTERS.sub("", text.lower())


_VERSION_LABEL = re.compile(r"^(?:runtime|software|backend|engine|server|version)\b[^:]{0,20}:")
_UPDATE = re.compile(r"\bfrom v?\d[\d.]{1,12}\w{0,6} to (?:version )?v?(\d[\d.]{1,12}\d)")
_OTHER_PACKAGE = re.compile(r"\b(?!transformers|vllm|sglang)\w+==[\d.]{3,12}")
_BUILD = re.compile(r"^b(\d{3,6})\b|\(build (\d{3,6})\)|\bbuild b?(\d{3,6})\b")


class Versions(NamedTuple):
    """The runtime that is meant, its version, and the border between well and slow."""

    name: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    before: Fact[str] = NOT_LOOKED
    since: Fact[str] = NOT_LOOKED


def versions_told(lines: Sequence[Line]) -> Versions:
    """Which runtime of which version, and where the border is."""
    ordered = [*(line for line in lines if _VERSION_LABEL.match(line.text)), *lines]
    named = ((line, word, name) for line in ordered for word, name in runtime_words() if word in line.text)
    line, word, name = next(named, (None, "", ""))
    if line is None:
        return Versions(NOT_LOOKED, NOT_LOOKED, *_border(lines, NOT_LOOKED))
    version = _version_at(line, line.text.find(word), word)
    return Versions(told_fact(name, line.where), version, *_border(lines, version))


def _version_at(line: Line, at: int, word: str) -> Fact[str]:
    """The version beside a runtime's name: the newer of an update, one behind it, or a build of llama.cpp before it."""
    rest = line.text[at + len(word) : at + len(word) + 48]
    if update := _UPDATE.search(rest):
        return told_fact(update[1], line.where)
    near = _OTHER_PACKAGE.sub(lambda found: " " * len(found[0]), rest[:24])
    number = version_phrases()["version"].search(near)
    short = re.match(r"\W{1,3}(?:version )?(\d{1,2}\.\d{1,3})\b", near)
    build = _BUILD.search(line.text)
    found = number[0] if number else short[1] if short else f"b{build[1] or build[2] or build[3]}" if build else ""
    return told_fact(found, line.where) if found else NOT_LOOKED


def versions_in(text: str) -> list[str]:
    """Every version that a text names."""
    return [match[0] for match in version_phrases()["version"].finditer(text)]


def other_version(one: str, other: str) -> bool:
    """Whether two texts name one version each, of the same kind, and not the same one."""
    ours, theirs = set(versions_in(one)), set(versions_in(other))
    return len(ours) == len(theirs) == 1 and ours != theirs and {*map(_kind, ours)} == {*map(_kind, theirs)}


def _border(lines: Sequence[Line], version: Fact[str]) -> tuple[Fact[str], Fact[str]]:
    before: Fact[str] = NOT_LOOKED
    since: Fact[str] = NOT_LOOKED
    for line in lines:
        if slower := version_phrases()["slower"].search(line.text):
            named = slower.groupdict()
            old = next(value for name, value in named.items() if name.startswith("old") and value)
            new = next((v for name, v in named.items() if name.startswith("new") and v), version.value_or(""))
            if old != new:
                return told_fact(old, line.where), told_fact(new, line.where) if new else NOT_LOOKED
        if pair := version_phrases()["pair"].search(line.text):
            older, newer = sorted((pair["a"], pair["b"]), key=_order)
            if older != newer:
                return told_fact(older, line.where), told_fact(newer, line.where)
        if (match := version_phrases()["since"].search(line.text)) and since == NOT_LOOKED:
            since = told_fact(_first_group(match), line.where)
        if (match := version_phrases()["before"].search(line.text)) and before == NOT_LOOKED:
            before = told_fact(_first_group(match), line.where)
        if before == NOT_LOOKED and isinstance(version, Known) and re.search(r"\d", line.text):
            # Another, older version in a line with a number: people quote what the last good one gave
            others = version_phrases()["version"].findall(line.text)
            alike = [v for v in others if _kind(v) == _kind(version.value) and _order(v) < _order(version.value)]
            before = told_fact(alike[0], line.where) if alike else NOT_LOOKED
    return before, since


def _first_group(match: re.Match[str]) -> str:
    return next(value for value in match.groupdict().values() if value)


def _kind(version: str) -> str:
    return "build" if version.startswith("b") else version.partition(" ")[0] if " " in version else "version"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)) or (0,)
