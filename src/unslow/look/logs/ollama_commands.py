"""What `ollama ps`, `ollama run --verbose` and `ollama show` print, and the API that has the same."""

import re
import statistics
from itertools import islice
from typing import Any, NamedTuple

from unslow.facts.model import Model
from unslow.facts.run import Completion, Run
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.logs.dialect import LogFacts, Text, TextDialect
from unslow.look.logs.ollama.state import DURATION, parse_seconds, parse_size_bytes
from unslow.look.logs.ollama_options import option_facts
from unslow.look.logs.text_blocks import Places

LOADED_AGAIN_S = 1.0  # A model that is there already is found in milliseconds; whatever takes longer was a load
MOST_ROWS = 64
MOST_BLOCKS = 1000

# `ollama ps`, /api/ps
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
_ALL = 100

# `ollama run --verbose`, and the end of an answer of /api/generate or /api/chat
_VERBOSE = re.compile(
    rf"\b(?:(total|load|prompt eval|eval)[ _]duration\b[\"'`*]{{0,3}}\s?[:=|]\s{{0,40}}({DURATION})(?![\w.])"
    r"|((?:prompt )?eval)[ _]count\b[\"'`*]{0,3}\s?[:=|]\s{0,40}(\d{1,9}) ?token"
    r"|((?:prompt )?eval)[ _]rate\b[\"'`*]{0,3}\s?[:=|]?\s{0,40}(\d{1,9}(?:\.\d{1,6})?) ?tok(?:en)?s?/s)"
)
_JSON = re.compile(r"[\"'](?:(total|load|prompt_eval|eval)_duration|(prompt_eval|eval)_count)[\"']\s*:\s*(\d{1,19})\b")

# `ollama show`, `ollama --version`
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


class RunBlock(NamedTuple):
    """The figures of one answer: `total_s`, `load_s`, `eval_count`, `eval_rate` ...; and where they stand."""

    values: dict[str, float]
    where: str
    span: tuple[int, int]

    def rate(self, name: str) -> float:
        """Tokens in a second: of the count where there is one, else as printed; zero where there is neither."""
        count, took = self.values.get(f"{name}_count", 0), self.values.get(f"{name}_s", 0)
        return count / took if count and took else self.values.get(f"{name}_rate", 0)


def parse_ps_text(text: Text) -> LogFacts:
    """The table, the JSON of /api/ps or the phrase; of several models the one with least on the GPU, which is slowest.

    The column PROCESSOR compares planned bytes: it does not tell where anything is computed. Before 0.9.6 there was no
    column CONTEXT; it counts the tokens of one request, not of all that may run together.
    """
    places = Places(text)
    if rows := parse_ps_table(places) or parse_ps_json(places):
        slowest = min(rows, key=lambda row: row.runtime.memory.vram_share.value_or(1.0))
        spans = tuple(places.span(found) for found, _ in islice(places.find(_ROW), MOST_ROWS))
        return LogFacts(subject=slowest, lines=len(rows), spans=spans)
    return _parse_ps_phrase(places) if "%" in places.joined else LogFacts()


def parse_ps_table(places: Places) -> list[Subject]:
    """Every row, wrapped or not, with spaces, tabs or bars between its columns."""
    rows: list[Subject] = []
    for found, where in islice(places.find(_ROW), MOST_ROWS) if "%" in places.joined else ():
        name, _, size_text, _, side, cpu, gpu, _, context, until = found.groups()
        share, size = _gpu_share(side, cpu, gpu), parse_size_bytes(size_text)
        model = _loaded_model(
            reported_fact(name, where),
            failed_fact(f"{where} does not say"),
            vram_share=None if share is None else reported_fact(share, where),
            size_bytes=None if size is None else reported_fact(size, where),
            size_vram_bytes=None if size is None or share is None else estimated_fact(round(size * share), where),
            context_per_slot=reported_fact(int(context), where) if context else None,
            keep_alive_s=reported_fact(-1.0, where) if until in ("Forever", "Never") else None,
        )
        rows.append(model)
    return rows


def parse_ps_json(places: Places) -> list[Subject]:
    """The models of an answer of /api/ps, cut short or not."""
    if "size_vram" not in places.joined:
        return []
    models: list[dict[str, Known[str]]] = []
    for found, where in places.find(_FIELD):
        if found[1] == "name" or not models:
            models.append({})
        models[-1].setdefault(found[1], reported_fact(found[2] or found[3], where))
    rows = []
    for fields in [model for model in models[:MOST_ROWS] if "size_vram" in model]:
        counts = {n: reported_fact(int(f.value), f.source) for n, f in fields.items() if f.value.isdecimal()}
        size, vram = counts.get("size"), counts.get("size_vram")
        whole, part = size.value if size else 0, vram.value if vram else 0
        model = _loaded_model(
            fields.get("name") or failed_fact("/api/ps does not say its name"),
            fields.get("quantization_level") or failed_fact("/api/ps does not say its quantization_level"),
            vram_share=estimated_fact(part / whole, fields["size_vram"].source) if whole and part <= whole else None,
            size_bytes=size,
            size_vram_bytes=vram,
            context_per_slot=counts.get("context_length"),
        )
        rows.append(model)
    return rows


def _loaded_model(name: Fact[str], quant: Fact[str], **facts: Known[Any] | None) -> Subject:
    known: dict[str, Any] = {fact: value for fact, value in facts.items() if value is not None}
    source = next(fact.source for fact in (name, *known.values(), quant) if isinstance(fact, Known))
    if context := facts["context_per_slot"]:  # unless a log or a command says otherwise there is one slot
        known["context_length"] = estimated_fact(context.value, f"{context.source}: for one request")
    runtime = Runtime(name=reported_fact("Ollama", source), state=reported_fact("loaded", source)).with_facts(**known)
    return Subject(runtime=runtime, model=Model(name=name, quant=quant))


def _parse_ps_phrase(places: Places) -> LogFacts:
    """`68%/32% CPU/GPU` alone; "100% CPU" could be a load, unless the command is named nearby."""
    shares: list[tuple[float, int | None, str]] = []
    for found, where in islice(places.find(_PHRASE), 100):
        cpu, gpu, other_cpu, other_gpu, side = found.groups()
        share = _gpu_share(side, cpu or other_cpu, gpu or other_gpu)
        near = max(0, found.start() - _NEAR)
        if share is None or (not cpu and not _COMMAND.search(places.joined[near : found.end() + _NEAR])):
            continue
        # The column SIZE, where it stands right before the share: `52 GB 4%/96% CPU/GPU`
        before = _SIZE_BEFORE.search(places.joined[near : found.start()])
        shares.append((share, parse_size_bytes(before[1]) if before else None, where))
    if not shares:
        return LogFacts()
    share, size, where = min(shares, key=lambda each: each[0])
    sizes: dict[str, Any] = {}
    if size is not None:
        sizes = {
            "size_bytes": reported_fact(size, where),
            "size_vram_bytes": estimated_fact(round(size * share), where),
        }
    runtime = Runtime(name=reported_fact("Ollama", where)).with_facts(vram_share=reported_fact(share, where), **sizes)
    return LogFacts(subject=Subject(runtime=runtime), lines=1)


def _gpu_share(side: str | None, cpu: str | None, gpu: str | None) -> float | None:
    if side:
        return 1.0 if side == "GPU" else 0.0
    if cpu is None or gpu is None or int(cpu) + int(gpu) != _ALL:
        return None
    return int(gpu) / _ALL


def parse_run_text(text: Text) -> LogFacts:
    """Every block of counts and durations in a text: those of `--verbose`, or the end of an answer of the API.

    The count of the prompt holds the tokens that were cached and the duration does not: a rate made of the two is too
    high where a prompt was seen before. Of several prompts the one that took longest suffers least from it.
    """
    places = Places(text)
    timed = {"eval_s", "eval_rate", "prompt_eval_s", "prompt_eval_rate"}
    blocks = [block for pattern in (_VERBOSE, _JSON) for block in _blocks(places, pattern) if timed & set(block.values)]
    if not blocks:
        return LogFacts()
    facts: dict[str, Any] = {"name": reported_fact("Ollama", blocks[0].where)}
    loads = [
        PastLoad(seconds=reported_fact(block.values["load_s"], block.where), source=block.where)
        for block in blocks
        if block.values.get("load_s", 0) > LOADED_AGAIN_S
    ]
    if loads:
        facts["loads"] = reported_fact(loads, loads[0].source)
    return LogFacts(
        subject=Subject(runtime=Runtime().with_facts(**facts), run=_run(blocks)),
        lines=sum(len(block.values) for block in blocks),
        spans=tuple(block.span for block in blocks),
    )


def _blocks(places: Places, pattern: re.Pattern[str]) -> list[RunBlock]:
    """A block ends where one of its figures comes again."""
    if "eval" not in places.joined:
        return []
    blocks: list[RunBlock] = []
    for found, where in places.find(pattern):
        value: float | None
        if pattern is _JSON:
            timed, counted, number = found.groups()
            name, value = (f"{timed}_s", int(number) * 1e-9) if timed else (f"{counted}_count", float(number))
        else:
            timed, duration, counted, count, rated, rate = found.groups()
            kind = "s" if timed else "count" if counted else "rate"
            name = f"{(timed or counted or rated).replace(' ', '_')}_{kind}"
            value = parse_seconds(duration) if timed else float(count or rate)
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


def _run(blocks: list[RunBlock]) -> Run:
    first, last = blocks[0].where, blocks[-1].where
    completions = tuple(
        Completion(
            prompt_tokens=int(block.values.get("prompt_eval_count", 0)),
            generated_tokens=int(block.values["eval_count"]),
            prefill_s=block.values.get("prompt_eval_s", 0.0),
            decode_s=block.values["eval_s"],
            client_total_s=block.values.get("total_s"),
        )
        for block in blocks
        if block.values.get("eval_count") and block.values.get("eval_s")
    )
    decode = [rate for block in blocks if (rate := block.rate("eval"))]
    prefill: Fact[float] = not_found(f"{first} has no prefill rate")
    if rated := [block for block in blocks if block.rate("prompt_eval")]:
        longest = max(rated, key=lambda block: block.values.get("prompt_eval_s", 0))
        prefill = estimated_fact(longest.rate("prompt_eval"), f"{longest.where}: counts cached tokens too")
    no_decode = not_found(f"{first} has no decode rate")
    loads = [block.values["load_s"] for block in blocks if "load_s" in block.values]
    totals = tuple(block.values["total_s"] for block in blocks if "total_s" in block.values)
    return Run(
        completions=reported_fact(completions, last) if completions else not_found(f"{last} has no counts"),
        decode_tokens_per_s=reported_fact(statistics.median(decode), last) if decode else no_decode,
        prefill_tokens_per_s=prefill,
        load_s=reported_fact(max(loads), last) if loads else not_found(f"{last} has no load time"),
        request_s=reported_fact(totals, last) if totals else not_found(f"{first} has no totals"),
    )


def parse_show_text(text: Text) -> LogFacts:
    """The model and its parameters, and the version of the server; that of the client counts where it is alone."""
    places = Places(text)
    if "version is" not in places.joined and "quantization" not in places.joined:
        return LogFacts()
    version = next((place for pattern in (_VERSION, _CLIENT) for place in places.find(pattern)), None)
    runtime: dict[str, Any] = {"version": reported_fact(version[0][1].rstrip("."), version[1])} if version else {}
    model: dict[str, Any] = {}
    spans = []
    for found, where in places.find(_BOX):
        model = _shown_model(found[0], where)
        spans.append(places.span(found))
    for found, where in places.find(_SET) if spans else ():
        runtime |= option_facts(dict(re.findall(r"(\w{2,30})[^\S\n]+(\S+)", found[1])), where)
        spans.append(places.span(found))
    if not runtime and not model:
        return LogFacts()
    source = next(iter((*runtime.values(), *model.values()))).source
    subject = Subject(runtime=Runtime(name=reported_fact("Ollama", source)).with_facts(**runtime), model=Model(**model))
    return LogFacts(subject=subject, lines=len(runtime) + len(model), spans=tuple(spans))


def _shown_model(box: str, where: str) -> dict[str, Any]:
    entries: dict[str, str] = dict(_ENTRY.findall(box))
    facts: dict[str, Any] = {}
    if kind := entries.get("architecture", entries.get("arch")):
        facts["architecture"] = reported_fact(kind, where)
    if "quantization" in entries and entries["quantization"] != "unknown":
        facts["quant"] = reported_fact(entries["quantization"], where)
    if size := _PARAMETERS.fullmatch(entries.get("parameters", "")):
        facts["parameters"] = estimated_fact(round(float(size[1]) * _POWERS[size[2]]), where)
    for name, fact in (("context length", "context_trained"), ("embedding length", "width")):
        if re.fullmatch(r"\d{1,9}", entries.get(name, "")):
            facts[fact] = reported_fact(int(entries[name]), where)
    return facts


TEXT_DIALECTS: dict[str, TextDialect] = {
    "ollama_ps": parse_ps_text,
    "ollama_run": parse_run_text,
    "ollama_show": parse_show_text,
}
