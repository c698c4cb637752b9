"""What `ollama ps`, `ollama run --verbose` and `ollama show` print, and options as people paste them."""

import re
import statistics
from itertools import islice
from typing import Any, NamedTuple

from unslow.facts.masking import masked_environment
from unslow.facts.model import Model
from unslow.facts.run import Completion, Run
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, estimated, failed, not_found, reported
from unslow.look.logs.dialect import Seen, Text, TextDialect
from unslow.look.logs.ollama.server_lines import keep_alive_s, variable_facts
from unslow.look.logs.ollama.state import DURATION, parse_seconds, parse_size_bytes
from unslow.look.logs.text_blocks import Places

# Ollama's options of a model and variables of a server, as people paste them: Modelfiles, chats, JSON, units, shells.
# What is asked for is not yet what is had: a context or a number of layers is set by asking, flash attention and the
# type of the cache are not, so these are estimates until a log says what came of them.

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
_NO_MODEL = (
    "the",
    "a",
    "it",
    "on",
    "in",
    "and",
    "is",
    "or",
    "to",
    "with",
    "command",
    "model",
    "prompt",
    "fails",
    "works",
)
_TRUE, _FALSE = ("1", "true", "on"), ("0", "false", "off")
_MOST_VARIABLES = 40
_COUNTS = {
    "num_ctx": ("context_set",),
    "num_thread": ("threads",),
    "num_batch": ("batch",),
    "main_gpu": ("main_gpu",),
    "top_k": ("top_k",),
    "draft_num_predict": ("draft_tokens",),
}
_MAY_BE_NOUGHT = ("main_gpu", "top_k")


def parse_options_text(text: Text) -> Seen:
    """What was asked for; a line of the server's own log says it in its own words and is left to that dialect."""
    places = Places(text)
    variables, lines = _variables(places), 0
    facts: dict[str, Any] = {}
    for found, where in places.find(_OPTION):
        if "level=" not in places.before(found):
            facts |= option_facts({found[1]: found[2]}, where)
            lines += 1
    if variables:
        pairs = masked_environment({name: value for name, (value, _) in variables.items()})
        where = next(iter(variables.values()))[1]
        facts = {"environment": reported(pairs, where), **asked_facts(pairs, where), **facts}
        lines += len(variables)
    model = _model(places)
    if not facts and not model:
        return Seen()
    own = any(name.startswith("OLLAMA_") for name in variables)  # others take the variables of llama.cpp too
    sure = own or model or {"gpu_layers_set", "context_set"} & set(facts)
    if sure:
        known = [fact.source for fact in (*facts.values(), *model.values()) if isinstance(fact, Known)]
        facts["name"] = reported("Ollama", known[0] if known else text.where(0))
    return Seen(subject=Subject(runtime=Runtime(**facts), model=Model(**model)), lines=lines + len(model))


def option_facts(options: dict[str, str], where: str) -> dict[str, Any]:
    """Options by Ollama's names as facts; what leaves the choice to Ollama says so."""
    facts: dict[str, Any] = {}
    for name, value in options.items():
        number = int(value) if re.fullmatch(r"-?\d{1,9}", value) else None
        source = f"{where}: {name} {value}"
        if name in _COUNTS and number is not None:
            facts |= {fact: _chosen(number, source) for fact in _COUNTS[name]}
            if name == "num_ctx" and number > 0:
                facts["context_length"] = estimated(number, f"{source}: for one request")
        elif name == "num_gpu" and number is not None:
            facts["gpu_layers_set"] = (
                reported(number, source) if number >= 0 else not_found(f"{source}: Ollama chooses")
            )
        elif name == "use_mmap" and value in ("true", "false"):
            facts["load_mode"] = reported("mmap" if value == "true" else "none", source)
        elif name == "keep_alive" and (alive := keep_alive_s(value)) is not None:
            facts["keep_alive_s"] = reported(alive, source)
    return facts


def _chosen(number: int, source: str) -> Any:
    free = number < 0 or (number == 0 and not source.endswith((*(f"{name} 0" for name in _MAY_BE_NOUGHT),)))
    return not_found(f"{source}: Ollama chooses") if free else reported(number, source)


def asked_facts(variables: dict[str, str], where: str) -> dict[str, Any]:
    """What a server's variables ask for."""
    facts = variable_facts(variables, where)
    flash = variables.get("OLLAMA_FLASH_ATTENTION", "").lower()
    if flash in _FALSE:
        facts["flash_attention"] = reported(value=False, source=f"{where}: OLLAMA_FLASH_ATTENTION={flash}")
    elif flash in _TRUE:
        facts["flash_attention"] = estimated(value=True, source=f"{where}: asked for by OLLAMA_FLASH_ATTENTION")
    if re.fullmatch(r"(?:f|bf)?q?\d{1,2}(?:_\d)?", kind := variables.get("OLLAMA_KV_CACHE_TYPE", "").lower()):
        asked = estimated(kind, f"{where}: asked for by OLLAMA_KV_CACHE_TYPE")
        facts |= {"kv_type_k": asked, "kv_type_v": asked}
    return facts


def _variables(places: Places) -> dict[str, tuple[str, str]]:
    """The last value of each variable; not those of the log's line `server config`."""
    found: dict[str, tuple[str, str]] = {}
    if "OLLAMA_" not in places.joined and "LLAMA_ARG_" not in places.joined:
        return found
    for match, where in places.find(_VARIABLE):
        if "map[" not in places.before(match) and len(found) < _MOST_VARIABLES:
            found[match[1]] = ((match[2] or match[3]).rstrip("."), where)
    return found


def _model(places: Places) -> dict[str, Any]:
    for found, where in places.find(_RUN):
        if found[2] not in _NO_MODEL:
            return {"name": reported(found[2].rstrip(".,:"), where)}
    return {}


# `ollama ps` and `/api/ps`: which models are loaded, and how much of each Ollama planned for the GPU.
# The column PROCESSOR compares planned bytes: it does not tell where anything is computed. Before 0.9.6 there was no
# column CONTEXT; it counts the tokens of one request, not of all that may run together.

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
        # Unless a log or a command says otherwise there is one slot
        given: dict[str, Any] = {
            "vram_share": self.share,
            "size_bytes": self.size,
            "size_vram_bytes": self.size_vram,
            "context_per_slot": self.context,
            "context_length": estimated(self.context.value, f"{self.context.source}: for one request")
            if isinstance(self.context, Known)
            else self.context,
            "keep_alive_s": self.keep_alive_s,
        }
        source = next(fact.source for fact in self if isinstance(fact, Known))
        known: dict[str, Any] = {name: fact for name, fact in given.items() if isinstance(fact, Known)}
        runtime = Runtime(name=reported("Ollama", source), state=reported("loaded", source), **known)
        return Subject(runtime=runtime, model=Model(name=self.name, quant=self.quant))


def parse_ps_text(text: Text) -> Seen:
    """The table, the JSON or the phrase; of several models the one with least on the GPU, which is slowest."""
    places = Places(text)
    rows = parse_ps_table(places) or parse_ps_json(places)
    if rows:
        slowest = min(rows, key=lambda row: row.share.value_or(1.0))
        spans = tuple(places.span(found) for found, _ in islice(places.find(_ROW), MOST_ROWS))
        return Seen(subject=slowest.subject(), lines=len(rows), spans=spans)
    return _phrase(places)


def parse_ps_table(places: Places) -> list[LoadedModel]:
    """Every row, wrapped or not, with spaces, tabs or bars between its columns."""
    if "%" not in places.joined:
        return []
    return [_row(found, where) for found, where in islice(places.find(_ROW), MOST_ROWS)]


def _row(found: re.Match[str], where: str) -> LoadedModel:
    name, _, size_text, whole, side, cpu, gpu, _, context, until = found.groups()
    missing = failed(f"{where} does not say")
    share = 1.0 * (side == "GPU") if whole else _share(cpu, gpu)
    size = parse_size_bytes(size_text)
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


def parse_ps_json(places: Places) -> list[LoadedModel]:
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
        # The column SIZE, where it stands right before the share: `52 GB 4%/96% CPU/GPU`
        before = _SIZE_BEFORE.search(places.joined[max(0, found.start() - _NEAR) : found.start()])
        shares.append((share, parse_size_bytes(before[1]) if before else None, where))
    if not shares:
        return Seen()
    share, size, where = min(shares, key=lambda each: each[0])  # of several the one with least on the GPU: the slowest
    sizes: dict[str, Any] = {}
    if size is not None:
        sizes = {"size_bytes": reported(size, where), "size_vram_bytes": estimated(round(size * share), where)}
    runtime = Runtime(name=reported("Ollama", where), vram_share=reported(share, where), **sizes)
    return Seen(subject=Subject(runtime=runtime), lines=1)


# `ollama run --verbose` and the last part of an answer of /api/generate or /api/chat: counts and durations.
# The count of the prompt holds the tokens that were cached and the duration does not: a rate made of the two is too
# high where a prompt was seen before. Of several prompts the one that took longest suffers least from it.

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


class RunBlock(NamedTuple):
    """The figures of one answer: `total_s`, `load_s`, `eval_count`, `eval_rate` ...; and where they stand."""

    values: dict[str, float]
    where: str
    span: tuple[int, int]


def parse_run_text(text: Text) -> Seen:
    """Every block of figures in a text."""
    places = Places(text)
    blocks = _blocks(places, _VERBOSE, _verbose) + _blocks(places, _JSON, _run_of_json)
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


def _blocks(places: Places, pattern: re.Pattern[str], read: Any) -> list[RunBlock]:
    """A block ends where one of its figures comes again."""
    if "eval" not in places.joined:
        return []
    blocks: list[RunBlock] = []
    for found, where in places.find(pattern):
        name, value = read(found)
        if value is None:
            continue
        start, end = places.span(found)
        if not blocks or name in blocks[-1].values or start > blocks[-1].span[1] + 4:
            if len(blocks) == MOST_BLOCKS:
                break
            blocks.append(RunBlock({}, where, (start, end)))
        blocks[-1].values[name] = value
        blocks[-1] = blocks[-1]._replace(span=(blocks[-1].span[0], end))
    return blocks


def _verbose(found: re.Match[str]) -> tuple[str, float | None]:
    timed, duration, counted, count, rated, rate = found.groups()
    if timed:
        return f"{timed.replace(' ', '_')}_s", parse_seconds(duration)
    if counted:
        return f"{counted.replace(' ', '_')}_count", float(count)
    return f"{rated.replace(' ', '_')}_rate", float(rate)


def _run_of_json(found: re.Match[str]) -> tuple[str, float | None]:
    timed, counted, number = found.groups()
    return (f"{timed}_s", int(number) * _NANO) if timed else (f"{counted}_count", float(number))


def _loads(blocks: list[RunBlock]) -> dict[str, Any]:
    """The answers that had to wait for the model."""
    loads = [
        PastLoad(seconds=reported(block.values["load_s"], block.where), source=block.where)
        for block in blocks
        if block.values.get("load_s", 0) > LOADED_AGAIN_S
    ]
    return {"loads": reported(loads, loads[0].source)} if loads else {}


def _run(blocks: list[RunBlock]) -> Run:
    where = blocks[-1].where
    completions = [done for block in blocks if (done := _completion(block))]
    loads = [block.values["load_s"] for block in blocks if "load_s" in block.values]
    totals = [block.values["total_s"] for block in blocks if "total_s" in block.values]
    requests = reported(tuple(totals), blocks[-1].where) if totals else not_found(f"{blocks[0].where} has no totals")
    return Run(
        completions=reported(tuple(completions), where) if completions else not_found(f"{where} has no counts"),
        decode_tokens_per_s=_decode(blocks),
        prefill_tokens_per_s=_prefill(blocks),
        load_s=reported(max(loads), where) if loads else not_found(f"{where} times no load"),
        request_s=requests,
    )


def _decode(blocks: list[RunBlock]) -> Known[float] | Unknown:
    rates = [rate for block in blocks if (rate := _rate(block, "eval"))]
    if not rates:
        return not_found(f"{blocks[0].where} has no rate of generation")
    return reported(statistics.median(rates), blocks[-1].where)


def _prefill(blocks: list[RunBlock]) -> Known[float] | Unknown:
    """The rate of the prompt that took longest, of those that are timed."""
    rated = [block for block in blocks if _rate(block, "prompt_eval")]
    if not rated:
        return not_found(f"{blocks[0].where} has no rate of the prompt")
    longest = max(rated, key=lambda block: block.values.get("prompt_eval_s", 0))
    return estimated(_rate(longest, "prompt_eval"), f"{longest.where}: counts cached tokens too")


def _rate(block: RunBlock, name: str) -> float:
    """Tokens in a second: of the count where there is one, else as printed; nought where there is neither."""
    count, took = block.values.get(f"{name}_count", 0), block.values.get(f"{name}_s", 0)
    return count / took if count and took else block.values.get(f"{name}_rate", 0)


def _completion(block: RunBlock) -> Completion | None:
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


def parse_show_text(text: Text) -> Seen:
    """The model and its parameters, and the version of the server; that of the client counts where it is alone."""
    places = Places(text)
    if "version is" not in places.joined and "quantization" not in places.joined:
        return Seen()
    runtime = _version(places)
    model: dict[str, Any] = {}
    spans = []
    for found, where in places.find(_BOX):
        model = _shown_model(found[0], where)
        spans.append(places.span(found))
    if spans:
        for found, where in places.find(_SET):
            rows = found[1]
            pairs = dict(re.findall(r"(\w{2,30})[^\S\n]+(\S+)", rows))
            runtime |= option_facts(pairs, where)
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


def _shown_model(box: str, where: str) -> dict[str, Any]:
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


TEXT_DIALECTS: dict[str, TextDialect] = {
    "ollama_options": parse_options_text,
    "ollama_ps": parse_ps_text,
    "ollama_run": parse_run_text,
    "ollama_show": parse_show_text,
}
