"""LM Studio: processes, REST v1 and v0, output of `lms`, and its llama-server child."""

import json

import pytest
from doubles import FakeSystem
from lab.built_machines.shapes import LLAMA_8B
from lab.replay import serve
from proc_table import ProcTable
from stored import checkpoint
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import Absence, Origin, Unknown, reported_fact
from unslow.look.models.stores.lm_studio import downloads
from unslow.look.processes import read_processes
from unslow.look.runtimes import lm_studio
from unslow.look.runtimes._gguf_server import with_file
from unslow.look.runtimes.lm_studio import with_folder
from unslow.look.runtimes.lm_studio.api import backends_of, parse_ps, parse_v0, parse_v1, read_lms
from unslow.look.system import Answer, FinishedCommand, LookError
from unslow.look.system.live import LiveSystem

HOME = "/home/ann/.lmstudio"
URL = "http://127.0.0.1:1234"
APP = ["/opt/LM Studio/lm-studio"]
MODEL = "lmstudio-community/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"
V1 = {
    "models": [
        {
            "type": "llm",
            "key": "qwen/qwen3-8b",
            "architecture": "qwen3",
            "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
            "size_bytes": 5027783488,
            "params_string": "8B",
            "max_context_length": 40960,
            "format": "gguf",
            "loaded_instances": [{"id": "qwen/qwen3-8b", "config": {"context_length": 8192, "parallel": 2}}],
        }
    ]
}
PS = [
    {
        "type": "llm",
        "identifier": "qwen/qwen3-8b",
        "modelKey": "qwen/qwen3-8b",
        "path": MODEL,
        "contextLength": 8192,
        "status": "idle",
        "queued": 0,
        "parallel": 2,
        "ttlMs": 3600000,
    }
]
ENGINES = """LLM ENGINE                                          SELECTED    MODEL FORMAT
llama.cpp-linux-x86_64-avx2@1.52.0                              GGUF
llama.cpp-linux-x86_64-nvidia-cuda12-avx2@1.52.0       ✓        GGUF
"""


def answered(data) -> Answer:
    return Answer(200, json.dumps(data).encode(), "application/json")


def a_system(table: ProcTable | None = None, lms: bool = True) -> FakeSystem:
    system = (table or ProcTable()).system
    system.http |= {
        f"GET {URL}/lmstudio-greeting": answered({"lmstudio": True}),
        f"GET {URL}/api/v1/models": answered(V1),
    }
    system.asks["surroundings of model stores"] = {"home": "/home/ann", "variables": {}}
    if lms:
        system.commands["lms ps --json --port 1234"] = FinishedCommand(0, json.dumps(PS), "")
        system.commands["lms runtime ls --port 1234"] = FinishedCommand(0, ENGINES, "")
    return system


def test_lm_studio_is_found_once_and_its_children_belong_to_it():
    table = ProcTable()
    table.add(10, "lm-studio", APP).add(11, "lm-studio", [*APP, "--type=renderer"], parent=10)
    table.add(12, "node", [f"{HOME}/.internal/utils/node", "x.js"], parent=10)
    table.add(13, "node", ["/usr/bin/node", "app.js"])
    table.add(14, "llmster", [f"{HOME}/llmster/0.0.12/llmster"])
    table.add(15, "llama-server", [f"{HOME}/extensions/backends/x/llama-server", "-m", "x.gguf"], parent=14)
    assert [p.pid for p in lm_studio.find(read_processes(table.system))] == [10, 14]


def test_an_lm_studio_worker_without_a_visible_parent_is_found():
    table = ProcTable().add(12, "node", [f"{HOME}/.internal/utils/node", "x.js"])
    assert [p.pid for p in lm_studio.find(read_processes(table.system))] == [12]


def test_lm_studio_api_facts_are_read_and_others_say_how_to_get_them():
    (subject,) = lm_studio.read_url(a_system(lms=False), URL, "")
    runtime = subject.runtime
    assert (runtime.context.length.value, runtime.scheduling.slots.value, runtime.state.value) == (8192, 2, "loaded")
    assert (subject.model.quant.value, subject.model.context_trained.value) == ("Q4_K_M", 40960)
    assert subject.model.weights_bytes.origin is Origin.ESTIMATED  # files may hold more than weights
    for fact in (runtime.placement.gpu_layers, runtime.placement.devices, runtime.cache.type_k, runtime.build.backends):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED
        assert "lms log stream --source runtime" in fact.how_to_get


def test_lms_adds_model_file_engine_and_queue():
    system = a_system()
    (subject,) = lm_studio.read_url(system, URL, "")
    assert subject.model.path.value == f"{HOME}/models/{MODEL}"
    assert subject.runtime.build.backends.value == ["CUDA", "CPU"]
    assert subject.runtime.build.backends.source == "lms runtime ls: llama.cpp-linux-x86_64-nvidia-cuda12-avx2@1.52.0"
    assert (subject.runtime.scheduling.deferred_requests.value, subject.runtime.scheduling.keep_alive_s.value) == (
        0,
        3600,
    )


def test_lms_is_run_only_with_the_port_of_an_answering_server():
    """Most `lms` commands start the daemon; those with `--port` do not."""
    system = a_system()
    ran = []
    system.run = lambda command, timeout_s=0: ran.append(command) or FinishedCommand(0, "[]", "")
    lm_studio.read_url(system, URL, "")
    assert ran
    assert all(command[-2:] == ["--port", "1234"] for command in ran)
    ran.clear()
    system.http[f"GET {URL}/lmstudio-greeting"] = LookError("nothing listens there", Absence.NOT_FOUND)
    with pytest.raises(LookError):
        lm_studio.read_url(system, URL, "")
    assert not ran


def test_lms_is_not_run_for_a_remote_server(wording):
    system = a_system()
    far = "http://192.168.0.7:1234"
    system.http |= {key.replace(URL, far): answer for key, answer in system.http.items()}
    (subject,) = lm_studio.read_url(system, f"{far}/v1", "")
    assert isinstance(subject.runtime.build.backends, Unknown)
    assert isinstance(subject.model.path, Unknown)
    wording(subject.model.path.why)


def test_lm_studio_rest_v0_is_read_where_v1_is_missing():
    with serve("lm_studio_v0") as url:
        (subject,) = lm_studio.read_url(LiveSystem(), url, "")
    assert (subject.model.name.value, subject.runtime.context.length.value) == ("meta-llama-3.1-8b-instruct", 4096)


def test_lm_studio_without_a_loaded_model_says_so(wording):
    system = a_system()
    system.http[f"GET {URL}/api/v1/models"] = answered({"models": [{**V1["models"][0], "loaded_instances": []}]})
    (subject,) = lm_studio.read_url(system, URL, "")
    assert subject.runtime.name.value == "LM Studio"
    wording(subject.model.name.why)


def test_a_non_lm_studio_server_gives_none_and_a_locked_one_an_error(wording):
    system = a_system()
    system.http[f"GET {URL}/lmstudio-greeting"] = Answer(404, b"no")
    assert lm_studio.read_url(system, URL, "") is None
    system = a_system()
    system.http[f"GET {URL}/api/v1/models"] = Answer(401, b'{"error": "no"}')
    with pytest.raises(LookError) as locked:
        lm_studio.read_url(system, URL, "")
    wording(locked.value.why, tells="API key")


def test_the_lm_studio_port_comes_from_its_http_server_config():
    table = ProcTable().add(10, "lm-studio", APP)
    system = a_system(table, lms=False)
    system.files[f"{HOME}/.internal/http-server-config.json"] = '{"port": 4321, "networkInterface": "127.0.0.1"}'
    system.http |= {key.replace("1234", "4321"): answer for key, answer in system.http.items()}
    (process,) = lm_studio.find(read_processes(system))
    (subject,) = lm_studio.read(process, "")
    assert subject.runtime.process.url.value == "http://127.0.0.1:4321"
    assert (subject.runtime.process.pid.value, subject.runtime.process.command.value) == (10, APP)


def test_a_stopped_lm_studio_server_says_how_to_start_it(wording):
    table = ProcTable().add(10, "lm-studio", APP)
    system = a_system(table)
    system.http.clear()
    (process,) = lm_studio.find(read_processes(system))
    (subject,) = lm_studio.read(process, "")
    assert subject.runtime.name.value == "LM Studio"
    assert "lms server start" in subject.runtime.state.how_to_get
    system.http[f"GET {URL}/lmstudio-greeting"] = Answer(404, b"no")
    wording(lm_studio.read(process, "")[0].runtime.state.why, tells="1234")
    system.http |= {
        f"GET {URL}/lmstudio-greeting": answered({"lmstudio": True}),
        f"GET {URL}/api/v1/models": Answer(401, b""),
    }
    wording(lm_studio.read(process, "")[0].runtime.state.how_to_get, tells="--api-key")


def test_the_llama_server_child_of_lm_studio_adds_its_facts():
    path = f"{HOME}/models/{MODEL}"
    line = [f"{HOME}/extensions/backends/x/llama-server", "-m", path, "--port", "41999", "-ngl", "20", "-ctk", "q8_0"]
    table = ProcTable().add(10, "llmster", [f"{HOME}/llmster/x/llmster"]).add(20, "llama-server", line, parent=10)
    system = a_system(table)
    (process,) = lm_studio.find(read_processes(system))
    (subject,) = lm_studio.read(process, "")
    runtime = subject.runtime
    assert (runtime.name.value, runtime.process.url.value, runtime.process.pid.value) == ("LM Studio", URL, 20)
    assert subject.model.name.value == "qwen/qwen3-8b"  # what a request must name
    assert (runtime.placement.gpu_layers_set.value, runtime.cache.type_k.value, runtime.context.length.value) == (
        20,
        "q8_0",
        8192,
    )


def test_an_lm_studio_log_counts_only_for_the_loaded_model():
    start = "llama_model_loader: loaded meta data with 30 key-value pairs and 399 tensors from"
    log = (
        f"[DEBUG] {start} /m/{MODEL} (version GGUF V3 (latest))\n[DEBUG] load_tensors: offloaded 20/37 layers to GPU\n"
    )
    for name, layers in ((MODEL, 20), ("a/b/other.gguf", None)):
        system = a_system()
        system.folders |= {
            f"{HOME}/server-logs": ["2026-07", "2026-08"],
            f"{HOME}/server-logs/2026-08": ["2026-08-13.1.log"],
        }
        system.files[f"{HOME}/server-logs/2026-08/2026-08-13.1.log"] = log.replace(MODEL, name)
        (subject,) = lm_studio.read_url(system, URL, "")
        assert subject.runtime.process.log_path.value.endswith("2026-08-13.1.log")
        assert subject.runtime.placement.gpu_layers.value_or(None) == layers


def test_an_echoed_lm_studio_key_is_not_stored():
    key = "sk-secret-0123456789"
    system = a_system(lms=False)
    spoiled = json.loads(json.dumps(V1).replace("qwen3", f"qwen3 {key}"))
    system.http[f"GET {URL}/api/v1/models"] = answered(spoiled)
    subjects = lm_studio.read_url(system, URL, key)
    assert key.encode() not in dump_snapshot(Snapshot(unslow_version="0", subjects=subjects))


@pytest.mark.parametrize("data", [None, [], {"models": {}}, {"models": [1, None, {"loaded_instances": 3}]}, "x"])
def test_malformed_lm_studio_model_lists_give_no_models(data):
    assert not parse_v1(data, "s")
    assert not parse_v0(data, "s")


def test_malformed_lms_output_is_ignored():
    assert parse_ps("no json", "lms ps") == {}
    assert list(parse_ps('[{"identifier": 3}, 4, {"identifier": "a", "ttlMs": -5, "queued": "x"}]', "lms ps")) == ["a"]
    _, forever = parse_ps('[{"identifier": "a", "ttlMs": null}]', "lms ps")["a"]
    assert forever.scheduling.keep_alive_s.value == -1
    assert read_lms(a_system(), 1234, []).engines == {"gguf": "llama.cpp-linux-x86_64-nvidia-cuda12-avx2@1.52.0"}
    assert backends_of("llama.cpp-linux-x86_64-avx2@1.52.0", "s").value == ["CPU"]
    assert isinstance(backends_of("", "s"), Unknown)


@pytest.mark.parametrize(("written", "value"), [("8B", 8e9), ("26B-A4B", 26e9), ("0.5B", 5e8), ("270M", 27e7)])
def test_lm_studio_parameter_counts_are_parsed(written, value):
    for words, count in ((written, value), ("many", None)):
        (found,) = parse_v1({"models": [{"params_string": words, "loaded_instances": [{}]}]}, "s")
        assert found.model.parameters.value_or(None) == count


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Knob.CONTEXT_LENGTH.to(8192), "lms load MODEL --context-length 8192"),
        (Knob.PARALLEL.to(1), "lms load MODEL --parallel 1"),
        (Knob.GPU_LAYERS.to(None), "lms load MODEL --gpu max"),
        (Knob.GPU_LAYERS.to(18), "lms load MODEL --gpu 0.48"),
        (Knob.GPU_LAYERS.to(99), "lms load MODEL --gpu max"),
        (Knob.GPU_LAYERS.to(0), "lms load MODEL --gpu off"),
        (Knob.FLASH_ATTENTION.to(True), '"flash_attention": true'),
        (Knob.KV_OFFLOAD.to(True), '"offload_kv_cache_to_gpu": true'),
        (Knob.KV_CACHE_TYPE.to("q8_0"), "K Cache Quantization Type = q8_0"),
        (Knob.SPECULATIVE.to("DRAFT_MODEL"), "--speculative-draft-simple --speculative-draft-model DRAFT_MODEL"),
        (Knob.QUANT.to("Q4_K_S"), "lms get MODEL@q4_k_s"),
        (Knob.GPU_BACKEND.to(None), "lms runtime ls"),
    ],
)
def test_each_knob_has_its_lm_studio_instruction(change, words):
    runtime = Runtime().with_facts(layers=reported_fact(37, "log"), url=reported_fact(URL, "given"))
    assert words in one_change(lm_studio, change, runtime)[0]


def test_a_knob_without_an_lm_studio_setting_gives_no_lines():
    assert one_change(lm_studio, Knob.POWER.to(300), Runtime()) == []


def test_of_several_lm_studio_homes_the_one_with_the_file_is_used():
    system = a_system()
    older = f"/home/ann/.cache/lm-studio/models/{MODEL}"
    system.files[older] = b"GGUF, cut short"
    (subject,) = lm_studio.read_url(system, URL, "")
    assert subject.model.path.value == older


def test_a_model_path_with_parent_references_is_not_followed():
    system = a_system()
    system.commands["lms ps --json --port 1234"] = FinishedCommand(
        0, json.dumps([{**PS[0], "path": "../../../etc/passwd"}]), ""
    )
    (subject,) = lm_studio.read_url(system, URL, "")
    assert isinstance(subject.model.path, Unknown)


def test_an_mlx_model_is_read_from_its_folder(tmp_path):
    folder = checkpoint("mlx_4bit", tmp_path / "mlx_4bit")
    told = Subject(model=Model(name=reported_fact("qwen-mlx", "x"), path=reported_fact(str(folder), "lms ps")))
    read = with_folder(LiveSystem(), told).model
    assert (read.layers.need(), read.quant.need()) == (2, "MLX 4-bit")
    assert (read.name.need(), read.path.need()) == ("qwen-mlx", str(folder))
    nowhere = Subject(model=Model(path=reported_fact("/not/there", "x")))
    assert with_folder(LiveSystem(), nowhere) == nowhere


def test_models_on_a_windows_drive_are_read():
    path = "D:\\models\\m.gguf"
    system = FakeSystem(asks={f"gguf {path}": LLAMA_8B.gguf(path)})
    subject = with_file(system, Subject(model=Model(path=reported_fact(path, "x"))), [""])
    assert subject.model.layers.need() == 32
    settings = {"C:\\Users\\ann/.lmstudio/settings.json": json.dumps({"downloadsFolder": "D:\\models"})}
    assert downloads(FakeSystem(files=settings), "C:\\Users\\ann/.lmstudio") == "D:\\models"
