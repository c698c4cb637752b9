"""The log of Hugging Face's text-generation-inference: its launcher's arguments and one line for every request."""

import re

from unslow.look.logs.dialect import Rules
from unslow.look.logs.serving_rules import note_model, serving_dialect
from unslow.look.logs.serving_state import Moment, Reading, parse_whole_number

RULES = Rules[Reading]()
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
_LONGEST_TOKEN_S = 3600.0
_RUST_PAIR = re.compile(r'\b([a-z][a-z_]{2,40}): (?:Some\( ?)?(?:"([^"]{0,300})"|([\w./-]{1,100}))')
_COUNTS = {
    "max_total_tokens": "context_set",
    "max_batch_total_tokens": "kv_capacity_tokens",
    "max_batch_prefill_tokens": "max_batched_tokens",
    "max_concurrent_requests": "max_sequences",
    "num_shard": "tensor_parallel",
}


@RULES('time_per_token="', r'time_per_token="(\d{1,9}(?:\.\d{1,12})?)(s|ms|µs|us|ns)"')
def _request(reading: Reading, found: re.Match[str], where: str) -> None:
    seconds = float(found[1]) * _SECONDS[found[2]]
    if 0 < seconds < _LONGEST_TOKEN_S:
        reading.works(Moment(where=where, tokens_per_s=1 / seconds))


@RULES("text_generation_launcher: Args", r"text_generation_launcher: Args \{(.{1,4000})")
def _arguments(reading: Reading, found: re.Match[str], where: str) -> None:
    """`Args { model_id: "…", quantize: Some(Awq), max_total_tokens: Some(4096) }`, as Rust prints it."""
    reading.start()
    pairs = {name: quoted or bare for name, quoted, bare in _RUST_PAIR.findall(found[1])}
    if "model_id" in pairs:
        note_model(reading, pairs["model_id"], where)
    for name, fact in (("quantize", "quantization"), ("dtype", "weights_type"), ("kv_cache_dtype", "kv_type_k")):
        if pairs.get(name, "None") != "None":
            reading.note(fact, pairs[name].lower(), where)
    for name, fact in _COUNTS.items():
        if pairs.get(name, "").isdecimal():
            reading.note(fact, parse_whole_number(pairs[name][:16]), where)
    if pairs.get("cuda_graphs") == "0" or pairs.get("disable_custom_kernels") == "true":
        reading.note("eager", value=True, where=where)


RULES.note(
    "kv_capacity_tokens",
    "max batch total tokens to",
    r"[Ss]etting max batch total tokens to (\d{1,12})",
    parse_whole_number,
)
RULES.note("attention", "Using Attention = ", r"Using Attention = (\w{1,30})", str.lower)
RULES.note("attention", "Using attention ", r"text_generation_launcher: .{0,60}Using attention (\w{1,30})", str.lower)
RULES.note_value("eager", "Cuda Graphs are disabled", r"Cuda Graphs are disabled \(CUDA_GRAPHS=", value=True)
RULES.note_value("eager", "Cuda Graphs are enabled for", "Cuda Graphs are enabled for sizes", value=False)
DIALECT = serving_dialect("TGI", RULES, 'time_per_token="')
