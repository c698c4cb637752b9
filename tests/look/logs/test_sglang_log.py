"""SGLang logs in the wording of its source and documentation, old and new; not recorded."""

import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, Known, Origin, Unknown
from unslow.look.logs import vllm
from unslow.look.logs.dialect import LineDialect, LogFacts
from unslow.look.logs.sglang import DIALECT
from unslow.look.logs.stream import LogStream, whole_line_blocks

LOG = """\
INFO 11-11 20:29:05 [__init__.py:216] Automatically detected platform cuda.
[2026-03-08 12:29:00] server_args=ServerArgs(model_path='Qwen/Qwen2.5-32B-Instruct', tokenizer_path='x', dtype='auto', \
kv_cache_dtype='auto', quantization=None, context_length=16384, mem_fraction_static=0.88, max_running_requests=None, \
chunked_prefill_size=8192, tp_size=2, disable_radix_cache=False, disable_cuda_graph=False, attention_backend=None)
[2026-03-08 12:29:05] WARNING server_args.py:1183: Attention backend not explicitly specified. \
Use flashinfer backend by default.
[2026-03-08 12:29:21 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, \
mem usage=15.50 GB.
[2026-03-08 12:29:21 TP1] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, \
mem usage=15.50 GB.
[2026-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.50 GB, V size: 1.50 GB
[2026-03-08 12:29:21 TP1] KV Cache is allocated. #tokens: 46611, K size: 1.50 GB, V size: 1.50 GB
[2026-03-08 12:29:30 TP0] Capture cuda graph end. Time elapsed: 8.10 s. avail mem=1.45 GB.
[2026-03-08 12:29:30 TP0] max_total_num_tokens=46611, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=512, context_len=16384
[2026-03-08 12:30:08 TP0] Prefill batch. #new-seq: 1, #new-token: 300, #cached-token: 100, token usage: 0.00, \
#running-req: 0, #queue-req: 0,
[2026-03-08 12:30:14 TP0] Decode batch. #running-req: 4, #token: 45000, token usage: 0.97, cuda graph: True, \
gen throughput (token/s): 120.00, #queue-req: 9,
[2026-03-08 12:30:17 TP0] Decode batch. #running-req: 2, #token: 900, token usage: 0.02, cuda graph: True, \
gen throughput (token/s): 84.00, #queue-req: 0,
[2026-03-08 12:30:18 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.09 -> 0.27
"""


def read(text: str, dialect: LineDialect = DIALECT) -> LogFacts:
    stream = LogStream({"it": dialect}, "log")
    for block in whole_line_blocks([text.encode()]):
        stream.feed(block)
    return stream.readers["it"].log_facts("log")


def runtime_of(text: str) -> Runtime:
    return read(text).subject.runtime


def test_a_complete_sglang_log_is_parsed():
    seen = read(LOG)
    runtime = seen.subject.runtime
    assert runtime.name == Known("SGLang", Origin.REPORTED, "log:2")
    assert seen.subject.model.name.need() == "Qwen/Qwen2.5-32B-Instruct"
    assert (runtime.context.requested.need(), runtime.context.length.need()) == (16384, 16384)
    assert (runtime.placement.tensor_parallel.need(), runtime.scheduling.max_batched_tokens.need()) == (2, 8192)
    assert (runtime.memory.gpu_memory_fraction.need(), runtime.scheduling.max_sequences.need()) == (0.88, 512)
    assert (runtime.compute.eager.need(), runtime.cache.prompt_cache.need()) == (False, True)
    assert (runtime.compute.attention.need(), runtime.compute.weights_type.need()) == ("flashinfer", "bfloat16")
    assert runtime.cache.capacity_tokens.need() == 46611
    assert runtime.cache.bytes.need() == 6 * GIB
    assert [(b.device, b.kind) for b in runtime.memory.buffers.need()] == [
        ("GPU0", "model"),
        ("GPU1", "model"),
        ("GPU0", "kv"),
        ("GPU1", "kv"),
    ]
    assert (runtime.scheduling.running_requests.need(), runtime.scheduling.deferred_requests.need()) == (4, 9)
    assert runtime.cache.usage == Known(0.97, Origin.REPORTED, "log:11")
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(
        30
    )  # two requests ended within the second line's time
    assert runtime.cache.prefix_hit_rate.need() == pytest.approx(0.25)
    assert runtime.scheduling.preemptions.need() == 3


def test_the_new_sglang_decode_line_with_two_pools_and_draft_is_parsed():
    line = (
        "[2026-09-17 11:37:01 TP0 EP0] Decode batch, #running-req: 1, #full token: 7936, full token usage: 0.10, "
        "#swa token: 512, swa token usage: 0.42, accept len: 3.5, accept rate: 0.50, cuda graph: False, "
        "gen throughput (token/s): 110.00, #queue-req: 0"
    )
    runtime = runtime_of(line)
    assert runtime.cache.usage.need() == 0.42
    assert (runtime.sampling.draft_acceptance.need(), runtime.compute.eager.need()) == (0.5, True)
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(110)


def test_the_draft_kv_cache_does_not_replace_the_models():
    text = (
        "KV Cache is allocated. #tokens: 171008, K size: 5.22 GB, V size: 5.22 GB\n"
        "KV Cache is allocated. #tokens: 171008, K size: 0.33 GB, V size: 0.33 GB"
    )
    assert runtime_of(text).cache.bytes.need() == pytest.approx(10.44 * GIB, rel=1e-6)


@pytest.mark.parametrize(
    ("line", "name", "wanted"),
    [
        ("Cuda graph is disabled because of using torch native attention backend", "eager", True),
        ("Using KV cache dtype: torch.float8_e5m2", "kv_type_k", "float8_e5m2"),
        ("Decode out of memory happened. #retracted_reqs: 2, #new_token_ratio: 0.5", "preemptions", 2),
        ("KV cache pool is full. Retract requests.", "preemptions", 1),
    ],
)
def test_single_sglang_lines_give_their_fact(line, name, wanted):
    assert runtime_of(line).fact(name).need() == wanted


def test_vllm_lines_are_not_claimed_by_sglang():
    assert read("INFO 11-11 20:29:05 [__init__.py:216] Automatically detected platform cuda.") == LogFacts()
    assert read("CUDA out of memory. Tried to allocate 1.00 GiB") == LogFacts()


def test_the_vllm_dialect_does_not_claim_an_sglang_log():
    assert isinstance(read(LOG, vllm.DIALECT).subject.runtime.name, Unknown)


@pytest.mark.parametrize(
    "line",
    [
        "Decode batch. #running-req: -1, token usage: nan, gen throughput (token/s): inf, #queue-req: -3",
        "max_total_num_tokens=" + "9" * 500 + ", x",
        "KV Cache is allocated. #tokens: 5, K size: 1e999 GB, V size: nan GB",
    ],
)
def test_impossible_sglang_numbers_are_unknown(line):
    runtime = runtime_of(line)
    for name in ("running_requests", "kv_usage", "decode_tokens_per_s", "deferred_requests", "kv_bytes"):
        assert isinstance(runtime.fact(name), Unknown), name
