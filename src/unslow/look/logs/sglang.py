"""SGLang's log: `[2026-08-22 10:00:00 TP0] Decode batch, #running-req: 1, ...`, in its older and newer spelling."""

import re
from functools import partial

from unslow.look.logs.dialect import Rules
from unslow.look.logs.serving_rules import fail_to_allocate, gpu_of_worker, note_settings, serving_dialect
from unslow.look.logs.serving_state import Moment, Reading, parse_fraction, parse_size, parse_whole_number

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_RUNNING = re.compile(r"#running-req: (\d{1,9})")
_WAITING = re.compile(r"#queue-req(?: p\+d)?: (\d{1,9})")
_USAGE = re.compile(r"token usage: (\d(?:\.\d{1,6})?)")
_RATE = re.compile(rf"gen throughput \(token/s\): {_NUMBER}")
_GRAPH = re.compile(r"cuda graph: (True|False)")
_ACCEPTED = re.compile(r"accept[ -]rat(?:e|io): (\d(?:\.\d{1,6})?)")
_NEW = re.compile(r"#new-token: (\d{1,9})")
_CACHED = re.compile(r"#cached-token: (\d{1,9})")
_SIZES = r"max_total_num_tokens=(\d{1,12}), .{0,300}"
_NO_GRAPHS = r"Cuda graph is disabled because[^\n]{0,120}"
_RANK = re.compile(r"\bTP(\d{1,3})\b")
_device = partial(gpu_of_worker, rank=_RANK)

RULES = Rules[Reading]()


def _moment(line: str, where: str) -> Moment:
    running, waiting, rate = _RUNNING.search(line), _WAITING.search(line), _RATE.search(line)
    shares = [parse_fraction(text) for text in _USAGE.findall(line)]  # models with windows have two pools
    return Moment(
        where=where,
        running=int(running[1]) if running else None,
        waiting=int(waiting[1]) if waiting else None,
        usage=max(shares, default=None),
        tokens_per_s=float(rate[1]) if rate else None,
    )


@RULES(("Decode batch", "gen throughput (token/s)"), r"Decode batch|#running-req: \d")
def _decode(reading: Reading, found: re.Match[str], where: str) -> None:
    """A number of decode steps; the tokens are those of all requests together."""
    reading.works(_moment(found.string, where))
    if graph := _GRAPH.search(found.string):
        reading.note("eager", graph[1] == "False", where)
    if accepted := _ACCEPTED.search(found.string):
        reading.note("draft_acceptance", parse_fraction(accepted[1]), where)


@RULES("Prefill batch", r"Prefill batch[.,] ")
def _prefill(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.works(_moment(found.string, where)._replace(tokens_per_s=None))
    new, cached = _NEW.search(found.string), _CACHED.search(found.string)
    if new and cached and (tokens := int(new[1]) + int(cached[1])):
        reading.count("prompt_tokens", tokens, where)
        reading.count("cached_tokens", int(cached[1]), where)


@RULES("server_args=", r"server_args=(?:ServerArgs\()?(.{1,8000})")
def _arguments(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start()
    note_settings(reading, found[1], where)
    if "context_length" in reading.facts:
        reading.note("context_set", reading.facts["context_length"].value, where)


RULES.note("kv_capacity_tokens", "max_total_num_tokens=", _SIZES, parse_whole_number)
RULES("max_total_num_tokens=", _SIZES)(
    lambda reading, found, where: note_settings(reading, found[0].replace("context_len=", "context_length="), where)
)


@RULES(
    "Load weight end.", rf"Load weight end\..{{0,200}}?dtype=torch\.(\w{{1,20}})(?:.{{0,80}}?mem usage={_NUMBER} GB)?"
)
def _weights(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("weights_type", found[1], where)
    if found[2]:
        reading.add_buffer("model", _device(found), parse_size(found[2]), where)


@RULES(
    ("KV Cache is allocated", "KV cache is allocated"),
    rf"KV [Cc]ache is allocated\..{{0,40}}?#tokens: (\d{{1,12}}), (?:K|KV|Cache) size: {_NUMBER} ?GB"
    rf"(?:, V size: {_NUMBER} ?GB)?",
)
def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    """The cache of the model; that of a draft, which is named later, is smaller."""
    device, both = _device(found), parse_size(found[2]) + (parse_size(found[3]) if found[3] else 0)
    known = reading.buffers.get((device, "kv"))
    if known is None or known[0].bytes < both:
        reading.add_buffer("kv", device, both, where)
        reading.note("kv_capacity_tokens", parse_whole_number(found[1]), where)


RULES.note("kv_type_k kv_type_v", ("Using KV cache dtype", "sing KV cache with dtype"), r"dtype:? torch\.(\w{1,20})")


@RULES(
    ("Retract requests", "ecode out of memory happened"),
    r"(?:Retract requests|ecode out of memory happened)\.?(?: #retracted_reqs: (\d{1,9}))?",
)
def _retractions(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.count("preemptions", parse_whole_number(found[1]) if found[1] else 1, where)
    reading.warn(found[0], where)


RULES.note(
    "attention",
    ("backend by default", "as attention backend"),
    r"(?:Use|Using) (\w{1,40}) (?:backend by default|as attention backend)",
)
RULES.note_value("eager", "Cuda graph is disabled", _NO_GRAPHS, value=True)
RULES("Cuda graph is disabled", _NO_GRAPHS)(lambda reading, found, where: reading.warn(found[0], where))
RULES.note_value("eager", "apture cuda graph end", "apture cuda graph end", value=False)
RULES("Not enough memory. Please try", r"Not enough memory\. Please try to increase --mem-fraction-static")(
    partial(fail_to_allocate, "kv_cache")
)
DIALECT = serving_dialect("SGLang", RULES, "Decode batch", "Prefill batch", "gen throughput (token/s)")
