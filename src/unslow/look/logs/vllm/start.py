"""vLLM starting: its version and settings, the kernels it chooses, whether graphs are used."""

import re

from unslow.look.logs.engine_settings import note_model, note_settings
from unslow.look.logs.serving_rules import NUMBER, Rule, whole
from unslow.look.logs.serving_state import Reading

_ATTENTION = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Za-z][\w-]{1,40}(?: (?:Attention|MLA|Attn|Unified))?)"
    r" (?:attention )?backend\b"
)
_ATTENTION_NEEDLES = (
    "attention backend",
    "backend on V1 engine",
    "backend out of potential",
    "Flash Attention backend",
    "FlashAttention",
    "FlashInfer backend",
    "FLASHINFER backend",
    "MLA backend",
    "XFormers backend",
    "_ATTN backend",
)


# SGLang borrows code of vLLM, and with it such lines
_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,80}\.py:\d{1,5}\] ?([^\n]{0,300})")


def _engine(reading: Reading, found: re.Match[str], where: str) -> None:
    """The one line that holds the whole configuration."""
    reading.start()
    if found[1]:
        reading.note("version", found[1], where)
    note_settings(reading, found[2], where)


def _arguments(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    _snippet(reading, found, where)


def _snippet(reading: Reading, found: re.Match[str], where: str) -> None:
    note_settings(reading, found[1], where)
    if "context_length" in reading.facts and re.search(r"max_model_len['\"]?\s?[=:]", found[1]):
        reading.note("context_set", reading.facts["context_length"].value, where)


def _version(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    reading.note("version", found[1].removeprefix("v").rstrip(".,"), where)


def _model(reading: Reading, found: re.Match[str], where: str) -> None:
    note_model(reading, found[1].removesuffix("..."), where)


def _length(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", whole(found[1]), where)


def _reduced(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("context_length", whole(found[2]), where)


def _chunk(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("max_batched_tokens", whole(found[1]), where)


def _platform(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("device_used", found[1].lower(), where)


def _threads(reading: Reading, found: re.Match[str], where: str) -> None:
    """On the CPU it binds one thread to each of these cores."""
    reading.note("threads", len(found[1].split(",")), where)


def _attention(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("attention", found[1], where)


def _line(reading: Reading, found: re.Match[str], where: str) -> None:
    """Any line of its log is no prose; one of a warning is kept."""
    if found[1] == "WARNING" and found[2]:
        reading.warn(found[2], where)


def _eager(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.note("eager", value=True, where=where)


def _graphs(reading: Reading, _found: re.Match[str], where: str) -> None:
    """Graphs were captured, so they are used."""
    reading.note("eager", value=False, where=where)


START_RULES = (
    Rule(
        ("LLM engine",),
        re.compile(r"Initializing an? (?:V\d )?LLM engine(?: \(v([^)\s]{1,40})\))? with config: ?(.{0,8000})"),
        _engine,
    ),
    Rule(("non-default args:",), re.compile(r"non-default args: ?(\{.{0,8000})"), _arguments),
    Rule(("args: Namespace(",), re.compile(r"args: Namespace\((.{0,8000})"), _arguments),
    Rule(("LLM(",), re.compile(r"\bLLM\((.{1,4000})"), _snippet, own=False),
    Rule(("vLLM API server version",), re.compile(r"vLLM API server version:? (v?\d[\w.+-]{0,40})"), _version),
    Rule(("\u2588  version ",), re.compile("\u2588  version (v?\\d[\\w.+-]{0,40})"), _version),
    Rule(("Starting to load model",), re.compile(r"Starting to load model (\S{1,300})"), _model),
    Rule(("Using max model len",), re.compile(rf"Using max model len {NUMBER}"), _length),
    Rule(("Auto-fit max_model_len",), re.compile(rf"reduced from {NUMBER} to {NUMBER}"), _reduced),
    Rule(("Chunked prefill is enabled",), re.compile(r"max_num_batched_tokens=(\d{1,9})"), _chunk),
    Rule(
        ("Automatically detected platform",),
        re.compile(r"Automatically detected platform (\w{1,20})"),
        _platform,
        own=False,
    ),
    Rule(("core ids=[",), re.compile(r"local_rank=0, core ids=\[([\d, ]{1,4000})\]"), _threads),
    Rule(_ATTENTION_NEEDLES, _ATTENTION, _attention),
    Rule((".py:",), _LINE, _line, own=False),
    Rule(("Cudagraph is disabled",), re.compile("Cudagraph is disabled under eager mode"), _eager),
    Rule(("Enforce eager set",), re.compile("Enforce eager set, disabling"), _eager),
    Rule(("raph capturing finished",), re.compile("raph capturing finished in"), _graphs),
)
