"""text-generation-inference logs in the wording of its source; not recorded."""

import pytest

from unslow.facts.values import Unknown
from unslow.look.logs.dialect import LogFacts
from unslow.look.logs.stream import LogStream, whole_line_blocks
from unslow.look.logs.tgi import DIALECT

LOG = """\
2026-01-05T21:49:20.1Z  INFO text_generation_launcher: Args { model_id: "TheBloke/Llama-2-7B-AWQ", revision: None, \
sharded: None, num_shard: Some(2), quantize: Some(Awq), dtype: None, max_concurrent_requests: 128, \
max_total_tokens: Some(4096), max_batch_prefill_tokens: Some(4096), max_batch_total_tokens: None, port: 80 }
2026-01-05T21:49:31.5Z  INFO text_generation_launcher: Using Attention = paged
2026-01-05T21:49:45.5Z  INFO text_generation_launcher: Cuda Graphs are enabled for sizes [1, 2, 4]
2026-01-05T21:49:50.3Z  INFO text_generation_router: router/src/main.rs:370: Setting max batch total tokens to 16000
2026-01-05T21:50:03.4Z  INFO chat_completions{total_time="735.200735ms" validation_time="955.594µs" \
queue_time="73.176µs" inference_time="734.172108ms" time_per_token="50.0ms" seed="Some(1)"}: \
text_generation_router::server: router/src/server.rs:622: Success
"""


def read(text: str) -> LogFacts:
    stream = LogStream({"tgi": DIALECT}, "log")
    for block in whole_line_blocks([text.encode()]):
        stream.feed(block)
    return stream.readers["tgi"].log_facts("log")


def test_a_complete_tgi_log_is_parsed():
    seen = read(LOG)
    runtime = seen.subject.runtime
    assert runtime.name.need() == "TGI"
    assert seen.subject.model.name.need() == "TheBloke/Llama-2-7B-AWQ"
    assert (runtime.compute.quantization.need(), runtime.placement.tensor_parallel.need()) == ("awq", 2)
    assert (runtime.context.requested.need(), runtime.scheduling.max_sequences.need()) == (4096, 128)
    assert (runtime.compute.attention.need(), runtime.compute.eager.need()) == ("paged", False)
    assert runtime.cache.capacity_tokens.need() == 16000
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(20)
    assert runtime.history.decode_tokens_per_s.source.startswith("log:5")


@pytest.mark.parametrize("time", ["0ms", "-5ms", "nans", "99999999s"])
def test_impossible_tgi_times_are_unknown(time):
    assert isinstance(read(f'time_per_token="{time}"').subject.runtime.history.decode_tokens_per_s, Unknown)


def test_disabled_cuda_graphs_in_tgi_are_parsed():
    assert read("Cuda Graphs are disabled (CUDA_GRAPHS=[0]).").subject.runtime.compute.eager.need() is True
