"""SGLang answers written after its source; not recorded."""

import pytest
from doubles import FakeSystem
from lab.replay import serve
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, Unknown, reported_fact
from unslow.look.processes import read_processes
from unslow.look.runtimes import sglang
from unslow.look.system import Answer, LookError
from unslow.look.system.live import LiveSystem

LOG = "[2026-03-08 12:30:14] Decode batch. #running-req: 1, token usage: 0.10, cuda graph: True, #queue-req: 0,\n"


COMMAND = "python3 -m sglang.launch_server --model-path /models/m --tp 2 --api-key sk-secret-1"


def machine(**http: Answer) -> FakeSystem:
    files = {
        "/proc/10/comm": "python3\n",
        "/proc/10/cmdline": "\0".join([*COMMAND.split(), ""]),
        "/proc/10/environ": "",
        "/proc/10/status": "PPid:\t1\n",
        "/proc/11/comm": "sglang::schedul\n",
        "/proc/11/cmdline": "sglang::scheduler\0",
        "/proc/11/status": "PPid:\t10\n",
        "/proc/10/root/sglang.log": LOG,
    }
    return FakeSystem(
        files=files, folders={"/proc": ["10", "11"]}, links={"/proc/10/fd/1": "/sglang.log"}, http=dict(http)
    )


def test_sglang_answers_are_read_over_http():
    with serve("sglang") as url:
        (subject,) = sglang.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (runtime.name.need(), runtime.version.need(), runtime.context.length.need()) == ("SGLang", "0.5.9", 32768)
    assert (runtime.compute.eager.need(), runtime.cache.prompt_cache.need(), runtime.compute.attention.need()) == (
        True,
        True,
        "fa3",
    )
    assert (runtime.placement.tensor_parallel.need(), runtime.cache.type_k.need()) == (2, "fp8_e5m2")
    assert (runtime.sampling.speculative.need(), runtime.sampling.draft_tokens.need()) == ("EAGLE3", 4)
    assert runtime.cache.capacity_tokens.need() == 144870
    assert [(b.kind, b.bytes) for b in runtime.memory.buffers.need()] == [
        ("model", round(15.28 * GIB)),
        ("kv", int(10.5 * GIB)),
    ]
    assert isinstance(runtime.compute.quantization, Unknown)
    assert subject.model.name.need() == "Qwen/Qwen3-8B"


def test_sglang_ranks_do_not_multiply_request_counts():
    with serve("sglang") as url:
        (subject,) = sglang.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (
        runtime.scheduling.running_requests.need(),
        runtime.scheduling.busy_slots.need(),
        runtime.scheduling.deferred_requests.need(),
    ) == (2, 2, 1)
    assert (
        runtime.cache.usage.need(),
        runtime.scheduling.preemptions.need(),
        runtime.cache.prefix_hit_rate.need(),
    ) == (0.97, 3, 0.25)
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(38.5 / 2)


def test_without_metrics_sglang_says_how_to_enable_them():
    info = Answer(200, b'{"tp_size": 1, "max_total_num_tokens": 5}')
    (subject,) = sglang.read_url(
        FakeSystem(http={"GET http://h/get_server_info": info, **absent("/server_info")}), "http://h", ""
    )
    assert "--enable-metrics" in subject.runtime.cache.usage.how_to_get
    assert subject.runtime.cache.capacity_tokens.need() == 5


def absent(*paths: str) -> dict[str, Answer]:
    return {f"GET http://h{path}": Answer(404, b"") for path in (*paths, "/v1/models", "/metrics")}


@pytest.mark.parametrize("other", ["llama_cpp", "mlx_lm", "koboldcpp", "lm_studio", "vllm", "vllm_dev", "tgi"])
def test_other_servers_are_not_sglang(other):
    with serve(other) as url:
        assert sglang.read_url(LiveSystem(), url, "") is None


def test_a_locked_sglang_server_asks_for_the_api_key(wording):
    with pytest.raises(LookError) as locked:
        sglang.read_url(FakeSystem(http={"GET http://h/server_info": Answer(401, b"")}), "http://h", "")
    wording(locked.value.why, tells="API key")


@pytest.mark.parametrize(
    "body",
    [
        b'{"tp_size": -3, "max_total_num_tokens": 1e400, "mem_fraction_static": 7, "internal_states": 3}',
        b'{"tp_size": true, "max_total_num_tokens": "x", "internal_states": [{"memory_usage": [1]}], "version": {}}',
        b'{"tp_size": 1e30, "internal_states": [], "model_path": 5, "disable_cuda_graph": "yes"}',
    ],
)
def test_sglang_settings_of_wrong_types_are_unknown(body):
    http = {"GET http://h/server_info": Answer(200, body.replace(b"1e400", b"-1")), **absent()}
    (subject,) = sglang.read_url(FakeSystem(http=http), "http://h", "")
    for name in ("tensor_parallel", "kv_capacity_tokens", "gpu_memory_fraction", "buffers", "eager", "version"):
        assert isinstance(subject.runtime.fact(name), Unknown), name


def test_an_sglang_process_is_read_with_its_log():
    system = machine()
    (process,) = sglang.find(read_processes(system))
    (subject,) = sglang.read(process, "")
    runtime = subject.runtime
    assert (process.pid, runtime.placement.tensor_parallel.need(), runtime.compute.eager.need()) == (10, 2, False)
    assert runtime.compute.eager.source == "sglang.log:1"
    assert runtime.process.url.need() == "http://127.0.0.1:30000"
    assert subject.model.path.need() == "/models/m"
    assert "secret-1" not in str(subject)


def test_each_knob_has_its_sglang_flag():
    started = Runtime().with_facts(
        command=reported_fact(["sglang", "serve", "--model-path", "m", "--disable-cuda-graph"], "x")
    )
    assert one_change(sglang, Knob.GRAPHS.to(value=True), started) == [
        "remove --disable-cuda-graph",
        "sglang serve --model-path m",
    ]
    assert one_change(sglang, Knob.CONTEXT_LENGTH.to(4096), Runtime()) == ["--context-length 4096"]
    for knob in Knob:
        for value in (None, True, 4, "x"):
            assert all(one_change(sglang, knob.to(value), started)), knob
