"""Ollama's options of a model and variables of a server, as people paste them: Modelfiles, chats, units, shells.

What is asked for is not yet what is had: a context or a number of layers is set by asking, flash attention and the type
of the cache are not, so these are estimates until a log says what came of them.
"""

import re
from typing import Any

from unslow.facts.masking import masked_environment
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, estimated_fact, not_found, reported_fact
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.ollama.server_lines import keep_alive_s, variable_facts
from unslow.look.logs.text_blocks import Places

_OPTION = re.compile(
    r"(?<![\w.])(num_ctx|num_gpu|num_thread|num_batch|main_gpu|use_mmap|top_k|draft_num_predict|keep_alive)\b"
    r"[\"'`]?\s{0,3}(?:[:=]|\bto\b|\bis\b)?\s{0,3}[\"'`]?(-?\d{1,9}(?:\.\d{1,3})?(?:h|m|s)?|true|false)(?!\w)"
)
# behind an equals sign stands the value; behind a space or a colon often a sentence goes on
_VARIABLE = re.compile(
    r"(?<![\w.])((?:OLLAMA|LLAMA_ARG)_[A-Z_]{2,40})[\"'`]?"
    r"(?:\s?=\s?[\"'`]?([\w.:/\\+@%!~$&#*-]{1,200})"
    r"|[: ]\s{0,2}[\"'`]?(-?\d[\w.]{0,20}|true|false|on|off|b?f16|q\d_\d)(?!\w))"
)
_RUN = re.compile(
    r"\bollama run((?: --?[a-z-]{2,20}(?:[ =](?:true|false|[\d.]+\w?))?){0,5}) ([\w./-]{2,120}(?::[\w.-]{1,60})?)"
)
# What is not a model name behind `ollama run`
_NO_MODEL = frozenset(
    ["the", "a", "it", "on", "in", "and", "is", "or", "to", "with", "command", "model", "prompt", "fails", "works"]
)
_TRUE, _FALSE = ("1", "true", "on"), ("0", "false", "off")
_MOST_VARIABLES = 40
_COUNTS = {
    "num_ctx": "context_set",
    "num_thread": "threads",
    "num_batch": "batch",
    "main_gpu": "main_gpu",
    "top_k": "top_k",
    "draft_num_predict": "draft_tokens",
}


def parse_text(text: Text) -> LogFacts:
    """What was asked for; a line of the server's own log says it in its own words and is left to that dialect."""
    places = Places(text)
    facts: dict[str, Any] = {}
    lines = 0
    for found, where in places.find(_OPTION):
        if "level=" not in places.before(found):
            facts |= option_facts({found[1]: found[2]}, where)
            lines += 1
    variables: dict[str, tuple[str, str]] = {}
    if "OLLAMA_" in places.joined or "LLAMA_ARG_" in places.joined:
        for found, where in places.find(_VARIABLE):  # not those of the log's line `server config`
            if "map[" not in places.before(found) and len(variables) < _MOST_VARIABLES:
                variables[found[1]] = ((found[2] or found[3]).rstrip("."), where)
    if variables:
        pairs = masked_environment({name: value for name, (value, _) in variables.items()})
        where = next(iter(variables.values()))[1]
        facts = {"environment": reported_fact(pairs, where), **asked_facts(pairs, where), **facts}
        lines += len(variables)
    run = next(((found[2], where) for found, where in places.find(_RUN) if found[2] not in _NO_MODEL), None)
    model: dict[str, Any] = {"name": reported_fact(run[0].rstrip(".,:"), run[1])} if run else {}
    if not facts and not model:
        return LogFacts()
    own = any(name.startswith("OLLAMA_") for name in variables)  # others take the variables of llama.cpp too
    if own or model or {"gpu_layers_set", "context_set"} & set(facts):
        known = [fact.source for fact in (*facts.values(), *model.values()) if isinstance(fact, Known)]
        facts["name"] = reported_fact("Ollama", known[0] if known else text.where(0))
    subject = Subject(runtime=Runtime().with_facts(**facts), model=Model(**model))
    return LogFacts(subject=subject, lines=lines + len(model))


def option_facts(options: dict[str, str], where: str) -> dict[str, Any]:
    """Options by Ollama's names as facts; what leaves the choice to Ollama says so."""
    facts: dict[str, Any] = {}
    for name, value in options.items():
        number = int(value) if re.fullmatch(r"-?\d{1,9}", value) else None
        source = f"{where}: {name} {value}"
        if name in _COUNTS and number is not None:
            chosen = number > 0 or (number == 0 and name in ("main_gpu", "top_k"))
            facts[_COUNTS[name]] = reported_fact(number, source) if chosen else not_found(f"{source}: Ollama chooses")
            if name == "num_ctx" and number > 0:
                facts["context_length"] = estimated_fact(number, f"{source}: for one request")
        elif name == "num_gpu" and number is not None:
            layers = reported_fact(number, source) if number >= 0 else not_found(f"{source}: Ollama chooses")
            facts["gpu_layers_set"] = layers
        elif name == "use_mmap" and value in ("true", "false"):
            facts["load_mode"] = reported_fact("mmap" if value == "true" else "none", source)
        elif name == "keep_alive" and (alive := keep_alive_s(value)) is not None:
            facts["keep_alive_s"] = reported_fact(alive, source)
    return facts


def asked_facts(variables: dict[str, str], where: str) -> dict[str, Any]:
    """What a server's variables ask for."""
    facts = variable_facts(variables, where)
    flash = variables.get("OLLAMA_FLASH_ATTENTION", "").lower()
    if flash in _FALSE:
        facts["flash_attention"] = reported_fact(value=False, source=f"{where}: OLLAMA_FLASH_ATTENTION={flash}")
    elif flash in _TRUE:
        facts["flash_attention"] = estimated_fact(value=True, source=f"{where}: asked for by OLLAMA_FLASH_ATTENTION")
    if re.fullmatch(r"(?:f|bf)?q?\d{1,2}(?:_\d)?", kind := variables.get("OLLAMA_KV_CACHE_TYPE", "").lower()):
        asked = estimated_fact(kind, f"{where}: asked for by OLLAMA_KV_CACHE_TYPE")
        facts |= {"kv_type_k": asked, "kv_type_v": asked}
    return facts
