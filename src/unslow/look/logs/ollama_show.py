"""`ollama show` and `ollama --version`: what a model is, what its Modelfile sets, which server answers."""

import re
from typing import Any

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import estimated, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_places import Places
from unslow.look.logs.ollama_options import option_facts

_VERSION = re.compile(r"\bollama version is v?(\d{1,4}(?:\.[\w+-]{1,30}){1,4})")
_CLIENT = re.compile(r"\bclient version is v?(\d{1,4}(?:\.[\w+-]{1,30}){1,4})")
_BOX = re.compile(
    r"^[^\S\n]*Model[^\S\n]*\n(?:[^\S\n]*(?:arch(?:itecture)?|parameters|quantization|context length|embedding length|"
    r"requires)[^\S\n]+\S[^\n]{0,60}(?:\n|$)){2,6}",
    re.MULTILINE,
)
_ENTRY = re.compile(r"(arch(?:itecture)?|parameters|quantization|context length|embedding length)[^\S\n]+(\S+)")
_SET = re.compile(
    r"^[^\S\n]*Parameters[^\S\n]*\n((?:[^\S\n]+\w{2,30}[^\S\n]+\S[^\n]{0,80}(?:\n|$)){1,30})", re.MULTILINE
)
_PARAMETERS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([KMBT])")
_POWERS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def parse_text(text: Text) -> Seen:
    """The model and its parameters, and the version of the server; that of the client counts where it is alone."""
    places = Places(text)
    if "version is" not in places.joined and "quantization" not in places.joined:
        return Seen()
    runtime = _version(places)
    model: dict[str, Any] = {}
    spans = []
    for found, where in places.find(_BOX):
        model = _model(found[0], where)
        spans.append(places.span(found))
    if spans:
        for found, where in places.find(_SET):
            runtime |= _set(found[1], where)
            spans.append(places.span(found))
    if not runtime and not model:
        return Seen()
    source = next(iter((*runtime.values(), *model.values()))).source
    subject = Subject(runtime=Runtime(name=reported("Ollama", source), **runtime), model=Model(**model))
    return Seen(subject=subject, lines=len(runtime) + len(model), spans=tuple(spans))


def _version(places: Places) -> dict[str, Any]:
    for pattern in (_VERSION, _CLIENT):
        for found, where in places.find(pattern):
            return {"version": reported(found[1].rstrip("."), where)}
    return {}


def _model(box: str, where: str) -> dict[str, Any]:
    entries: dict[str, str] = dict(_ENTRY.findall(box))
    facts: dict[str, Any] = {}
    if kind := entries.get("architecture", entries.get("arch")):
        facts["architecture"] = reported(kind, where)
    if "quantization" in entries and entries["quantization"] != "unknown":
        facts["quant"] = reported(entries["quantization"], where)
    if size := _PARAMETERS.fullmatch(entries.get("parameters", "")):
        facts["parameters"] = estimated(round(float(size[1]) * _POWERS[size[2]]), where)
    for name, fact in (("context length", "context_trained"), ("embedding length", "width")):
        if re.fullmatch(r"\d{1,9}", entries.get(name, "")):
            facts[fact] = reported(int(entries[name]), where)
    return facts


def _set(rows: str, where: str) -> dict[str, Any]:
    pairs = dict(re.findall(r"(\w{2,30})[^\S\n]+(\S+)", rows))
    return option_facts(pairs, where)
