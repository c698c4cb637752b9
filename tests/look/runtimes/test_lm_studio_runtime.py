"""LM Studio: its processes, REST v1 and v0, what `lms` adds, and the llama-server that it starts."""

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
from unslow.facts.values import Absence, Origin, Unknown, reported
from unslow.look.models.stores.lm_studio import downloads
from unslow.look.processes import read_processes
from unslow.look.runtimes import lm_studio
from unslow.look.runtimes._gguf_server import with_file
from unslow.look.runtimes.lm_studio import server
from unslow.look.runtimes.lm_studio.api import (
    backends_of,
    parse_engines,
    parse_parameters,
    parse_ps,
    parse_v0,
    parse_v1,
)
from unslow.look.runtimes.lm_studio.server import with_folder
from unslow.look.system import Answer, Finished, LookError
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
        system.commands["lms ps --json --port 1234"] = Finished(0, json.dumps(PS), "")
        system.commands["lms runtime ls --port 1234"] = Finished(0, ENGINES, "")
    return system


def test_the_app_is_found_once_and_its_children_are_its_own():
    table = ProcTable()
    table.add(10, "lm-studio", APP).add(11, "lm-studio", [*APP, "--type=renderer"], parent=10)
    table.add(12, "node", [f"{HOME}/.internal/utils/node", "x.js"], parent=10)
    table.add(13, "node", ["/usr/bin/node", "app.js"])
    table.add(14, "llmster", [f"{HOME}/llmster/0.0.12/llmster"])
    table.add(15, "llama-server", [f"{HOME}/extensions/backends/x/llama-server", "-m", "x.gguf"], parent=14)
    assert [p.pid for p in server.find(read_processes(table.system))] == [10, 14]


def test_a_worker_whose_parent_is_not_to_be_seen_is_found():
    table = ProcTable().add(12, "node", [f"{HOME}/.internal/utils/node", "x.js"])
    assert [p.pid for p in server.find(read_processes(table.system))] == [12]


def test_the_api_tells_what_is_loaded_and_what_it_does_not_tell_is_unknown_with_a_way_to_learn_it():
    (subject,) = server.read_url(a_system(lms=False), URL, "")
    runtime = subject.runtime
    assert (runtime.context_length.value, runtime.slots.value, runtime.state.value) == (8192, 2, "loaded")
    assert (subject.model.quant.value, subject.model.context_trained.value) == ("Q4_K_M", 40960)
    assert subject.model.weights_bytes.origin is Origin.ESTIMATED  # files may hold more than weights
    for fact in (runtime.gpu_layers, runtime.devices, runtime.kv_type_k, runtime.backends):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED
        assert "lms log stream --source runtime" in fact.how_to_get


def test_lms_adds_the_file_the_engine_and_what_waits():
    system = a_system()
    (subject,) = server.read_url(system, URL, "")
    assert subject.model.path.value == f"{HOME}/models/{MODEL}"
    assert subject.runtime.backends.value == ["CUDA", "CPU"]
    assert subject.runtime.backends.source == "lms runtime ls: llama.cpp-linux-x86_64-nvidia-cuda12-avx2@1.52.0"
    assert (subject.runtime.deferred_requests.value, subject.runtime.keep_alive_s.value) == (0, 3600)


def test_lms_is_never_run_without_the_port_of_a_server_that_answers():
    """Most of its commands start the daemon; those with a port of their own don't."""
    system = a_system()
    ran = []
    system.run = lambda command, timeout_s=0: ran.append(command) or Finished(0, "[]", "")
    server.read_url(system, URL, "")
    assert ran
    assert all(command[-2:] == ["--port", "1234"] for command in ran)
    ran.clear()
    system.http[f"GET {URL}/lmstudio-greeting"] = LookError("nothing listens there", Absence.NOT_FOUND)
    with pytest.raises(LookError):
        server.read_url(system, URL, "")
    assert not ran


def test_nothing_is_run_for_a_server_elsewhere(wording):
    system = a_system()
    far = "http://192.168.0.7:1234"
    system.http |= {key.replace(URL, far): answer for key, answer in system.http.items()}
    (subject,) = server.read_url(system, f"{far}/v1", "")
    assert isinstance(subject.runtime.backends, Unknown)
    assert isinstance(subject.model.path, Unknown)
    wording(subject.model.path.why)


def test_the_older_api_is_read_where_the_newer_is_not_known():
    with serve("lm_studio_v0") as url:
        (subject,) = server.read_url(LiveSystem(), url, "")
    assert (subject.model.name.value, subject.runtime.context_length.value) == ("meta-llama-3.1-8b-instruct", 4096)


def test_nothing_loaded_is_said(wording):
    system = a_system()
    system.http[f"GET {URL}/api/v1/models"] = answered({"models": [{**V1["models"][0], "loaded_instances": []}]})
    (subject,) = server.read_url(system, URL, "")
    assert subject.runtime.name.value == "LM Studio"
    wording(subject.model.name.why)


def test_something_else_is_none_and_a_locked_server_an_error(wording):
    system = a_system()
    system.http[f"GET {URL}/lmstudio-greeting"] = Answer(404, b"no")
    assert server.read_url(system, URL, "") is None
    system = a_system()
    system.http[f"GET {URL}/api/v1/models"] = Answer(401, b'{"error": "no"}')
    with pytest.raises(LookError) as locked:
        server.read_url(system, URL, "")
    wording(locked.value.why, tells="API key")


def test_a_process_is_read_by_its_server_at_the_port_of_its_settings():
    table = ProcTable().add(10, "lm-studio", APP)
    system = a_system(table, lms=False)
    system.files[f"{HOME}/.internal/http-server-config.json"] = '{"port": 4321, "networkInterface": "127.0.0.1"}'
    system.http |= {key.replace("1234", "4321"): answer for key, answer in system.http.items()}
    (process,) = server.find(read_processes(system))
    (subject,) = server.read(process, "")
    assert subject.runtime.url.value == "http://127.0.0.1:4321"
    assert (subject.runtime.pid.value, subject.runtime.command.value) == (10, APP)


def test_a_server_that_is_off_is_said_with_what_to_do(wording):
    table = ProcTable().add(10, "lm-studio", APP)
    system = a_system(table)
    system.http.clear()
    (process,) = server.find(read_processes(system))
    (subject,) = server.read(process, "")
    assert subject.runtime.name.value == "LM Studio"
    assert "lms server start" in subject.runtime.state.how_to_get
    system.http[f"GET {URL}/lmstudio-greeting"] = Answer(404, b"no")
    wording(server.read(process, "")[0].runtime.state.why, tells="1234")
    system.http |= {
        f"GET {URL}/lmstudio-greeting": answered({"lmstudio": True}),
        f"GET {URL}/api/v1/models": Answer(401, b""),
    }
    wording(server.read(process, "")[0].runtime.state.how_to_get, tells="--api-key")


def test_the_llama_server_behind_it_tells_the_rest():
    path = f"{HOME}/models/{MODEL}"
    line = [f"{HOME}/extensions/backends/x/llama-server", "-m", path, "--port", "41999", "-ngl", "20", "-ctk", "q8_0"]
    table = ProcTable().add(10, "llmster", [f"{HOME}/llmster/x/llmster"]).add(20, "llama-server", line, parent=10)
    system = a_system(table)
    (process,) = server.find(read_processes(system))
    (subject,) = server.read(process, "")
    runtime = subject.runtime
    assert (runtime.name.value, runtime.url.value, runtime.pid.value) == ("LM Studio", URL, 20)
    assert subject.model.name.value == "qwen/qwen3-8b"  # what a request must name
    assert (runtime.gpu_layers_set.value, runtime.kv_type_k.value, runtime.context_length.value) == (20, "q8_0", 8192)


def test_a_log_of_the_loaded_model_is_believed_and_one_of_another_is_not():
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
        (subject,) = server.read_url(system, URL, "")
        assert subject.runtime.log_path.value.endswith("2026-08-13.1.log")
        assert subject.runtime.gpu_layers.value_or(None) == layers


def test_a_key_that_comes_back_is_kept_nowhere():
    key = "sk-secret-0123456789"
    system = a_system(lms=False)
    spoiled = json.loads(json.dumps(V1).replace("qwen3", f"qwen3 {key}"))
    system.http[f"GET {URL}/api/v1/models"] = answered(spoiled)
    subjects = server.read_url(system, URL, key)
    assert key.encode() not in dump_snapshot(Snapshot(unslow_version="0", subjects=subjects))


@pytest.mark.parametrize("data", [None, [], {"models": {}}, {"models": [1, None, {"loaded_instances": 3}]}, "x"])
def test_other_shapes_hold_nothing(data):
    assert not parse_v1(data, "s")
    assert not parse_v0(data, "s")


def test_what_lms_prints_is_read_with_care():
    assert parse_ps("no json", "lms ps") == {}
    assert list(parse_ps('[{"identifier": 3}, 4, {"identifier": "a", "ttlMs": -5, "queued": "x"}]', "lms ps")) == ["a"]
    _, forever = parse_ps('[{"identifier": "a", "ttlMs": null}]', "lms ps")["a"]
    assert forever.keep_alive_s.value == -1
    assert parse_engines(ENGINES) == {"gguf": "llama.cpp-linux-x86_64-nvidia-cuda12-avx2@1.52.0"}
    assert backends_of("llama.cpp-linux-x86_64-avx2@1.52.0", "s").value == ["CPU"]
    assert isinstance(backends_of("", "s"), Unknown)


@pytest.mark.parametrize(("written", "value"), [("8B", 8e9), ("26B-A4B", 26e9), ("0.5B", 5e8), ("270M", 27e7)])
def test_parameters_in_words(written, value):
    assert parse_parameters(written, "s").value == value
    assert isinstance(parse_parameters("many", "s"), Unknown)


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
def test_each_knob_has_its_words(change, words):
    runtime = Runtime(layers=reported(37, "log"), url=reported(URL, "given"))
    assert words in one_change(lm_studio, change, runtime)[0]


def test_what_it_has_no_words_for_is_empty():
    assert one_change(lm_studio, Knob.POWER.to(300), Runtime()) == []


def test_of_several_homes_the_one_with_the_file_counts():
    system = a_system()
    older = f"/home/ann/.cache/lm-studio/models/{MODEL}"
    system.files[older] = b"GGUF, cut short"
    (subject,) = server.read_url(system, URL, "")
    assert subject.model.path.value == older


def test_a_path_that_climbs_is_not_followed():
    system = a_system()
    system.commands["lms ps --json --port 1234"] = Finished(
        0, json.dumps([{**PS[0], "path": "../../../etc/passwd"}]), ""
    )
    (subject,) = server.read_url(system, URL, "")
    assert isinstance(subject.model.path, Unknown)


def test_a_model_for_mlx_is_a_folder(tmp_path):
    folder = checkpoint("mlx_4bit", tmp_path / "mlx_4bit")
    told = Subject(model=Model(name=reported("qwen-mlx", "x"), path=reported(str(folder), "lms ps")))
    read = with_folder(LiveSystem(), told).model
    assert (read.layers.need(), read.quant.need()) == (2, "MLX 4-bit")
    assert (read.name.need(), read.path.need()) == ("qwen-mlx", str(folder))
    nowhere = Subject(model=Model(path=reported("/not/there", "x")))
    assert with_folder(LiveSystem(), nowhere) == nowhere


def test_models_on_a_drive_of_windows_are_read_too():
    path = "D:\\models\\m.gguf"
    system = FakeSystem(asks={f"gguf {path}": LLAMA_8B.gguf(path)})
    subject = with_file(system, Subject(model=Model(path=reported(path, "x"))), [""])
    assert subject.model.layers.need() == 32
    settings = {"C:\\Users\\ann/.lmstudio/settings.json": json.dumps({"downloadsFolder": "D:\\models"})}
    assert downloads(FakeSystem(files=settings), "C:\\Users\\ann/.lmstudio") == "D:\\models"
