"""vLLM from recorded answers of version 0.32 on a CPU, and from processes in /proc."""

import json

import pytest
from doubles import FakeSystem
from lab.replay import serve
from lab.replay.answers import FOLDER
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, Known, Origin, Unknown, reported_fact
from unslow.look.processes import Process, read_processes
from unslow.look.runtimes import vllm
from unslow.look.runtimes.vllm import commands
from unslow.look.server_answers import Metrics
from unslow.look.system import Answer, LookError
from unslow.look.system.live import LiveSystem

LOG = (FOLDER.parent / "look" / "logs" / "vllm_logs" / "server.log").read_text()
COMMAND = (
    "/venv/bin/python3\0/venv/bin/vllm\0serve\0/models/tiny-llama\0--port\08000\0--max-num-seqs\08\0--enforce-eager\0"
    "--served-model-name\0tiny-llama\0--api-key\0sk-very-secret-0123456789\0"
)


def recorded(scene: str = "vllm", url: str = "http://127.0.0.1:8000") -> dict[str, Answer]:
    found = {}
    for path in (FOLDER / scene).glob("*.json"):
        data = json.loads(path.read_text())
        if data["request"].startswith("GET"):
            body = data["text"] if "text" in data else json.dumps(data["body"])
            found[data["request"].replace("GET ", f"GET {url}")] = Answer(data.get("status", 200), body.encode())
    return found


def machine(*, environment: str = "", http: dict[str, Answer] | None = None) -> FakeSystem:
    files = {
        "/proc/10/comm": "vllm\n",
        "/proc/10/cmdline": COMMAND,
        "/proc/10/environ": f"HOME=/home/someone\0VLLM_API_KEY=no\0{environment}",
        "/proc/10/status": "PPid:\t1\n",
        "/proc/11/comm": "VLLM::EngineCor\n",
        "/proc/11/cmdline": "VLLM::EngineCore\0",
        "/proc/11/status": "PPid:\t10\n",
        "/proc/12/comm": "VLLM::Worker\n",
        "/proc/12/cmdline": "VLLM::Worker\0",
        "/proc/12/status": "PPid:\t11\n",
        "/proc/10/root/var/log/vllm.log": LOG,
    }
    links = {"/proc/10/fd/1": "/var/log/vllm.log", "/proc/10/fd/2": "/var/log/vllm.log"}
    return FakeSystem(files=files, folders={"/proc": ["10", "11", "12"]}, links=links, http=http or {})


def only(system: FakeSystem) -> Process:
    (found,) = vllm.find(read_processes(system))
    return found


def test_the_vllm_server_is_found_instead_of_its_engine_and_workers():
    assert only(machine()).pid == 10


@pytest.mark.parametrize("script", ["/srv/vllm_cli.py", "/srv/run.py"])
def test_a_script_that_runs_vllm_is_the_server(script: str):
    system = machine()
    system.files |= {"/proc/10/comm": "python3\n", "/proc/10/cmdline": COMMAND.replace("/venv/bin/vllm", script)}
    assert only(system).pid == 10
    (subject,) = vllm.read(only(system), "")
    assert subject.runtime.compute.eager.need() is True
    assert subject.runtime.scheduling.max_sequences.need() == 8


def test_a_vllm_engine_without_a_server_is_found(wording):
    system = machine()
    system.files["/proc/10/cmdline"] = "python3\0batch.py\0"
    process = only(system)
    (subject,) = vllm.read(process, "")
    assert (process.pid, subject.runtime.name.need()) == (11, "vLLM")
    wording(subject.runtime.process.url.why)


@pytest.mark.parametrize(
    "words",
    [
        "python3\0-m\0vllm.entrypoints.openai.api_server\0--model\0org/m\0",
        "/usr/bin/python3\0/usr/local/bin/vllm\0serve\0org/m\0",
    ],
)
def test_every_way_to_start_vllm_is_recognised(words):
    system = machine()
    system.files["/proc/10/cmdline"] = words
    system.files["/proc/10/comm"] = "python3\n"
    assert only(system).pid == 10


def test_a_vllm_command_that_serves_nothing_is_ignored():
    system = machine()
    system.files |= {
        "/proc/10/cmdline": "python3\0/venv/bin/vllm\0collect-env\0",
        "/proc/11/comm": "x",
        "/proc/12/comm": "x",
    }
    assert vllm.find(read_processes(system)) == []


def test_vllm_process_answers_and_log_are_merged():
    (subject,) = vllm.read(only(machine(http=recorded())), "")
    runtime = subject.runtime
    assert runtime.version == Known("0.32.0", Origin.REPORTED, "http://127.0.0.1:8000/version")
    assert runtime.compute.eager.need() is True
    assert (runtime.context.length.need(), runtime.scheduling.max_sequences.need()) == (1024, 8)
    assert (
        runtime.scheduling.busy_slots.need(),
        runtime.scheduling.running_requests.need(),
        runtime.scheduling.deferred_requests.need(),
    ) == (0, 0, 0)
    assert (runtime.cache.capacity_tokens.need(), runtime.cache.bytes.need()) == (524288, GIB)
    assert runtime.memory.gpu_memory_fraction.need() == 0.92
    assert (runtime.placement.device_used.need(), runtime.compute.threads.need()) == ("cpu", 1)
    assert runtime.state.need() == "loaded"
    assert runtime.process.log_path.need() == "/var/log/vllm.log"
    assert isinstance(runtime.compute.kernel, Unknown)
    assert "vllm.log" in runtime.compute.kernel.how_to_get
    assert subject.model.name.need() == "tiny-llama"
    assert subject.model.path.need() == "/models/tiny-llama"
    assert "very-secret" not in str(subject)
    assert "/home/someone" not in str(subject)


def test_a_silent_vllm_server_is_read_from_its_log():
    (subject,) = vllm.read(only(machine()), "")
    assert subject.runtime.version.need() == "0.32.0"
    assert isinstance(subject.runtime.scheduling.busy_slots, Unknown)
    assert subject.runtime.cache.capacity_tokens.source == "vllm.log:50"


def test_another_model_on_the_port_is_another_server(wording):
    http = recorded()
    listed = json.loads(http["GET http://127.0.0.1:8000/v1/models"].body)
    listed["data"][0] |= {"id": "other", "root": "/models/other"}
    http["GET http://127.0.0.1:8000/v1/models"] = Answer(200, json.dumps(listed).encode())
    (subject,) = vllm.read(only(machine(http=http)), "")
    wording(subject.runtime.scheduling.busy_slots.why)
    assert subject.model.name.need() == "tiny-llama"


def test_the_attention_variable_is_ignored_since_its_removal(wording):
    system = machine(environment="VLLM_ATTENTION_BACKEND=XFORMERS\0", http=recorded())
    (subject,) = vllm.read(only(system), "")
    wording(subject.runtime.compute.attention.why, tells="0.15")
    older = {**recorded(), "GET http://127.0.0.1:8000/version": Answer(200, b'{"version": "0.9.2"}')}
    system = machine(environment="VLLM_ATTENTION_BACKEND=XFORMERS\0", http=older)
    (subject,) = vllm.read(only(system), "")
    assert subject.runtime.compute.attention.need() == "XFORMERS"


def test_vllm_is_read_by_its_url_over_http():
    with serve("vllm") as url:
        (subject,) = vllm.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (runtime.name.need(), runtime.process.url.need(), runtime.context.length.need()) == ("vLLM", url, 1024)
    assert runtime.scheduling.preemptions.need() == 0
    assert "VLLM_SERVER_DEV_MODE" in runtime.compute.eager.how_to_get
    assert isinstance(runtime.history.decode_tokens_per_s, Unknown)


def test_a_busy_vllm_gives_running_waiting_and_kv_usage():
    with serve("vllm_busy") as url:
        (subject,) = vllm.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (runtime.scheduling.running_requests.need(), runtime.scheduling.deferred_requests.need()) == (8, 4)
    assert runtime.cache.usage.need() == pytest.approx(0.842, abs=0.001)
    assert runtime.history.decode_tokens_per_s.origin is Origin.ESTIMATED
    assert 1 < runtime.history.decode_tokens_per_s.need() < 1000


def test_vllm_preemptions_are_read_from_metrics():
    with serve("vllm_after") as url:
        (subject,) = vllm.read_url(LiveSystem(), url, "")
    assert subject.runtime.scheduling.preemptions.need() == 34
    assert subject.run.queue_s.need() > 1
    assert subject.runtime.history.prefill_tokens_per_s.need() > 1


def test_vllm_development_mode_gives_its_configuration():
    with serve("vllm_dev") as url:
        (subject,) = vllm.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (
        runtime.compute.eager.need(),
        runtime.scheduling.max_sequences.need(),
        runtime.placement.tensor_parallel.need(),
    ) == (True, 8, 1)
    assert (runtime.placement.device_used.need(), runtime.placement.cpu_offload_bytes.need()) == ("cpu", 0)
    assert runtime.compute.eager.source.endswith("/server_info: model_config.enforce_eager")


@pytest.mark.parametrize(("mode", "is_off"), [("NONE", True), (0, True), ([2, 1], False), ("PIECEWISE", False)])
def test_vllm_development_mode_tells_a_mode_without_graphs(mode, is_off):
    told = {"vllm_config": {"model_config": {"enforce_eager": False}, "compilation_config": {"cudagraph_mode": mode}}}
    answers = vllm.Answers("http://h", reported_fact("0.26.0", "x"), [], Metrics((), "http://h/metrics"), told)
    assert vllm.subject_of(answers).runtime.compute.eager.need() is is_off


@pytest.mark.parametrize(
    ("given", "short", "left"),
    [
        ('{"cudagraph_mode":"PIECEWISE"}', 'remove --compilation-config \'{"cudagraph_mode":"PIECEWISE"}\'', ()),
        ('{"cudagraph_mode":"NONE"}', 'remove --compilation-config \'{"cudagraph_mode":"NONE"}\'', ()),
        (
            '{"mode": 3, "cudagraph_mode": "NONE"}',
            "--compilation-config '{\"mode\": 3}'",
            ("--compilation-config", '{"mode": 3}'),
        ),
    ],
)
def test_graphs_come_back_without_the_rest_of_a_compilation_config(given, short, left):
    command = reported_fact(["vllm", "serve", "m", "--compilation-config", given], "x")
    made = vllm.commands.commands_for([Knob.GRAPHS.to(value=True)], Runtime().with_facts(command=command))
    assert made.argv == ("vllm", "serve", "m", *left)
    assert made.short == (short,)


def test_a_key_needed_only_for_models_leaves_other_facts(wording):
    url = "http://h"
    http = {**recorded(url=url), f"GET {url}/v1/models": Answer(401, b"{}")}
    (subject,) = vllm.read_url(FakeSystem(http=http), url, "")
    wording(subject.runtime.state.why, tells="API key")
    assert subject.runtime.scheduling.busy_slots.need() == 0


def test_an_unreachable_vllm_is_a_look_error():
    with pytest.raises(LookError):
        vllm.read_url(FakeSystem(), "http://h", "")


@pytest.mark.parametrize("other", ["llama_cpp", "mlx_lm", "koboldcpp", "lm_studio", "sglang", "tgi"])
def test_other_servers_are_not_vllm(other):
    with serve(other) as url:
        assert vllm.read_url(LiveSystem(), url, "") is None


@pytest.mark.parametrize(
    "body", [b"[]", b'{"version": 5}', b'{"version": ""}', b"{", b'{"version": "1"}', b"[" * 100_000]
)
def test_a_malformed_version_is_not_vllm(body):
    system = FakeSystem(http={"GET http://h/version": Answer(200, body)})
    assert vllm.read_url(system, "http://h", "") is None


@pytest.mark.parametrize(
    "labels",
    [
        'num_gpu_blocks="-1",block_size="16"',
        'num_gpu_blocks="' + "9" * 100 + '",block_size="16"',
        'gpu_memory_utilization="nan",kv_cache_memory_bytes="1e99"',
        'gpu_memory_utilization="17"',
    ],
)
def test_impossible_cache_config_labels_are_unknown(labels):
    url = "http://h"
    metrics = f"vllm:num_requests_running 1\nvllm:cache_config_info{{{labels}}} 1\nvllm:kv_cache_usage_perc 7\n"
    http = {**recorded(url=url), f"GET {url}/metrics": Answer(200, metrics.encode())}
    (subject,) = vllm.read_url(FakeSystem(http=http), url, "")
    for name in ("kv_capacity_tokens", "kv_bytes", "kv_usage"):
        assert isinstance(subject.runtime.fact(name), Unknown)
    assert subject.runtime.memory.gpu_memory_fraction.value_or(0.92) == 0.92


def test_old_vllm_metric_names_are_read():
    url = "http://h"
    metrics = (
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\nvllm:time_per_output_token_seconds_sum 10\n'
        'vllm:time_per_output_token_seconds_count 500\nvllm:cache_config_info{num_gpu_blocks="100",block_size="16"} 1\n'
    )
    http = {**recorded(url=url), f"GET {url}/metrics": Answer(200, metrics.encode())}
    (subject,) = vllm.read_url(FakeSystem(http=http), url, "")
    runtime = subject.runtime
    assert (runtime.cache.usage.need(), runtime.cache.capacity_tokens.need()) == (0.5, 1600)
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(50)


STARTED = Runtime().with_facts(
    version=reported_fact("0.32.0", "x"),
    command=reported_fact(["vllm", "serve", "m", "--enforce-eager", "--quantization", "awq", "--api-key", "sk-1"], "x"),
)


@pytest.mark.parametrize(
    ("change", "first", "whole"),
    [
        (Knob.GRAPHS.to(value=True), "remove --enforce-eager", "vllm serve m --quantization awq --api-key KEY"),
        (Knob.QUANT_KERNEL.to("awq_marlin"), "remove --quantization awq", "vllm serve m --enforce-eager --api-key KEY"),
        (
            Knob.CONTEXT_LENGTH.to(8192),
            "--max-model-len 8192",
            "vllm serve m --enforce-eager --quantization awq --api-key KEY --max-model-len 8192",
        ),
        (
            Knob.KV_CACHE_TYPE.to("q8_0"),
            "--kv-cache-dtype fp8",
            "vllm serve m --enforce-eager --quantization awq --api-key KEY --kv-cache-dtype fp8",
        ),
        (
            Knob.FLASH_ATTENTION.to(value=True),
            "--attention-backend FLASH_ATTN",
            "vllm serve m --enforce-eager --quantization awq --api-key KEY --attention-backend FLASH_ATTN",
        ),
    ],
)
def test_each_knob_has_its_vllm_flag(change, first, whole):
    secret = "by hand: KEY stands for a secret that is not shown: fill it in"
    assert one_change(vllm, change, STARTED) == [first, secret, whole]


def test_vllm_changes_without_known_facts_are_generic(wording):
    wording(one_change(vllm, Knob.GRAPHS.to(value=True), Runtime()), tells="--enforce-eager")
    assert one_change(vllm, Knob.CONTEXT_LENGTH.to(None), Runtime()) == ["--max-model-len N"]
    assert one_change(vllm, Knob.EXPERTS_ON_CPU.to(4), Runtime()) == []
    assert one_change(vllm, Knob.THREADS.to(4), Runtime()) == []


def test_vllm_threads_need_nobind_on_a_cpu():
    cpu = Runtime().with_facts(device_used=reported_fact("cpu", "x"), version=reported_fact("0.32.0", "x"))
    unbound = "VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=4"
    assert one_change(vllm, Knob.THREADS.to(4), cpu) == [unbound]
    assert one_change(vllm, Knob.THREADS.to(None), cpu) == ["VLLM_CPU_OMP_THREADS_BIND=auto"]
    before = Runtime().with_facts(device_used=reported_fact("cpu", "x"), version=reported_fact("0.11.0", "x"))
    assert one_change(vllm, Knob.THREADS.to(4), before) == ["VLLM_CPU_OMP_THREADS_BIND=0-3"]
    assert one_change(vllm, Knob.THREADS.to(1), before) == ["VLLM_CPU_OMP_THREADS_BIND=0"]
    assert commands.commands_for([Knob.THREADS.to(4)], cpu).environment == {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "4",
    }


def test_old_vllm_sets_attention_by_variable():
    old = Runtime(version=reported_fact("0.9.2", "x"))
    assert one_change(vllm, Knob.FLASH_ATTENTION.to(value=True), old) == ["VLLM_ATTENTION_BACKEND=FLASH_ATTN"]


def test_every_knob_is_spelled_for_vllm():
    for knob in Knob:
        for value in (None, True, 4, "x"):
            assert all(isinstance(words, str) and words for words in one_change(vllm, knob.to(value), STARTED))


def test_quantized_weights_are_not_quantized_again():
    packed = Runtime().with_facts(quantization=reported_fact("gguf", "log"))
    assert all("--quantization" not in word for word in one_change(vllm, Knob.QUANT.to(None), packed))
    assert "--quantization fp8" in one_change(vllm, Knob.QUANT.to(None), Runtime())


def test_layer_split_uses_as_many_gpus_as_tensor_parallel():
    command = reported_fact(["vllm", "serve", "m", "-tp", "4"], "cmdline")
    words = one_change(
        vllm, Knob.SPLIT_MODE.to("layer"), Runtime().with_facts(command=command, tensor_parallel=reported_fact(4, "x"))
    )
    assert words == ["--pipeline-parallel-size 4", "vllm serve m --pipeline-parallel-size 4"]
    assert one_change(vllm, Knob.SPLIT_MODE.to("layer"), Runtime()) == ["--pipeline-parallel-size N"]


def test_more_capacity_raises_gpu_memory_utilization():
    for share, larger in ((0.4, "0.90"), (0.9, "0.93")):
        words = one_change(
            vllm, Knob.CAPACITY.to(None), Runtime().with_facts(gpu_memory_fraction=reported_fact(share, "x"))
        )
        assert words[0] == f"--gpu-memory-utilization {larger}"
