"""Servers known only by URL: alone, locked, loading, children of a router, behind llama-swap."""

import json
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.commands.diagnose.permission import refusal
from unslow.facts.values import Known, Unknown
from unslow.look.runtimes.llama_cpp import read_url
from unslow.look.runtimes.llama_cpp.swap import parse_swap_log
from unslow.look.system import Answer, LookError

FOLDER = Path(__file__).parents[2] / "machines" / "h200_llama_server_healthy_full_gpu"
URL, CHILD, FAR, KEY = "http://127.0.0.1:8080", "http://127.0.0.1:39699", "http://gpu.example:8080", "canary-key-123"
OK = Answer(200, b'{"status":"ok"}')
ARGS = ["llama-server", "--port", "39699", "--ctx-size", "4096", "--api-key", KEY, "--model", "/m/llama8b.gguf"]


def recorded(name: str) -> Answer:
    return Answer(200, (FOLDER / name).read_bytes())


def answers(url: str, query: str = "") -> dict[str, Answer | LookError]:
    return {
        f"GET {url}/health": OK,
        f"GET {url}/props{query}": recorded("props.json"),
        f"GET {url}/v1/models": recorded("models.json"),
        f"GET {url}/slots{query}": recorded("slots.json"),
        f"GET {url}/metrics{query}": recorded("metrics.txt"),
    }


def router(url: str, *models: dict) -> dict[str, Answer | LookError]:
    props = {"role": "router", "model_path": "none", "build_info": "b9999-a"}
    return {
        f"GET {url}/health": OK,
        f"GET {url}/props": Answer(200, json.dumps(props).encode()),
        f"GET {url}/models": Answer(200, json.dumps({"data": list(models)}).encode()),
    }


def model(name: str, status: str = "loaded") -> dict:
    meta = json.loads((FOLDER / "models.json").read_text())["data"][0]["meta"]
    return {"id": name, "status": {"value": status, "args": ARGS}, "meta": meta}


def test_a_single_server_is_read_by_url():
    [subject] = read_url(FakeSystem(http=answers(URL)), f"{URL}/", "")
    assert (subject.runtime.process.url.need(), subject.runtime.state.need()) == (URL, "loaded")


def test_a_loading_server_has_state_loading():
    loading = Answer(503, b'{"error":{"message":"Loading model"}}')
    paths = ("/health", "/props", "/v1/models", "/slots", "/metrics")
    [subject] = read_url(FakeSystem(http={f"GET {URL}{path}": loading for path in paths}), URL, "")
    assert subject.runtime.state.need() == "loading"


def test_a_server_that_needs_a_key_says_so():
    locked = {name: Answer(401, b"{}") for name in answers(URL)} | {f"GET {URL}/health": OK}
    [subject] = read_url(FakeSystem(http=locked), URL, "")
    assert subject.runtime.state.need() == "loaded"
    assert "API key" in subject.runtime.scheduling.busy_slots.why


def test_an_unreachable_url_is_a_look_error():
    with pytest.raises(LookError):
        read_url(FakeSystem(), URL, "")


@pytest.mark.parametrize("props", [Answer(404, b""), Answer(200, b"{}"), Answer(200, b"x"), Answer(401, b"")])
def test_a_server_that_is_not_llama_cpp_is_not_claimed(props):
    http = {f"GET {URL}/health": Answer(200, b""), f"GET {URL}/props": props}
    assert read_url(FakeSystem(http=http), URL, "") is None


def test_loaded_children_of_a_local_router_are_asked_directly():
    http = router(URL, model("a"), model("b", "unloaded"), model("c", "failed")) | answers(CHILD)
    system = FakeSystem(http=http)
    [subject] = read_url(system, URL, KEY)
    runtime = subject.runtime
    assert (runtime.process.url.need(), runtime.process.front.need()) == (CHILD, f"router at {URL}")
    assert runtime.context.requested.need() == 4096
    assert runtime.process.command.need()[5:7] == ["--api-key", "KEY"]
    assert subject.model.weights_bytes.need() > 0
    assert KEY not in repr(subject)
    assert {sent.split()[0] for sent, _ in system.sent} == {"GET"}


def test_a_remote_router_is_asked_with_autoload_false():
    query = "?model=org%2Fa&autoload=false"
    [subject] = read_url(FakeSystem(http=router(FAR, model("org/a")) | answers(FAR, query)), FAR, "")
    assert subject.runtime.process.url.need() == FAR
    assert subject.runtime.scheduling.slots.need() == 4


def test_a_router_with_nothing_loaded_has_no_subjects():
    assert read_url(FakeSystem(http=router(URL, model("a", "unloaded"))), URL, "") == ()


@pytest.mark.parametrize("body", [{}, {"data": 3}, {"data": [3, {}, {"id": 3}, {"id": "a", "status": "loaded"}]}])
def test_a_router_with_garbage_models_has_no_subjects(body):
    http = router(URL) | {f"GET {URL}/models": Answer(200, json.dumps(body).encode())}
    assert read_url(FakeSystem(http=http), URL, "") == ()


def swap(url: str, *running: dict) -> dict[str, Answer | LookError]:
    listed = json.dumps({"running": list(running)}).encode()
    return {f"GET {url}/health": Answer(200, b"OK"), f"GET {url}/running": Answer(200, listed)}


SWAPPED = {"model": "eight", "state": "ready", "cmd": "/bin/llama-server -ngl 20 --api-key " + KEY, "proxy": CHILD}


def test_a_server_behind_llama_swap_is_read():
    [subject] = read_url(FakeSystem(http=swap(URL, SWAPPED) | answers(CHILD)), URL, KEY)
    runtime = subject.runtime
    assert (runtime.process.url.need(), runtime.process.front.need()) == (CHILD, f"llama-swap at {URL}")
    assert runtime.placement.gpu_layers_set.need() == 20
    assert isinstance(runtime.scheduling.slots, Known)
    assert KEY not in repr(subject)


SWAP_LOG = """[INFO] llama-swap listening on http://127.0.0.1:8689
[INFO] Request 127.0.0.1 "GET /running HTTP/1.1" 200 15 "" 118.677µs
[INFO] <eight> Health check passed on http://localhost:8690/health
[INFO] Request 127.0.0.1 "POST /v1/completions HTTP/1.1" 200 617 "curl/7.88.1" 1m2.5s
[INFO] Request 127.0.0.1 "POST /v1/completions HTTP/1.1" 200 617 "curl/7.88.1" 500ms
[INFO] <eight> Unloading model, TTL of 2s reached
[INFO] <eight> Health check passed on http://localhost:8690/health
[INFO] Request 127.0.0.1 "POST /v1/completions HTTP/1.1" 200 616 "curl/7.88.1" 3.3s
"""


def test_the_log_of_llama_swap_tells_loads_their_time_and_what_unloaded_them():
    first, second = parse_swap_log(SWAP_LOG, "log")
    assert (first.model.need(), first.expired, first.requests.need()) == ("eight", True, 2)
    assert (first.seconds.need(), second.seconds.need(), second.expired) == (62.0, pytest.approx(2.8), False)


def test_a_server_behind_llama_swap_has_its_loads_and_its_ttl():
    log = {f"GET {URL}/logs": Answer(200, SWAP_LOG.encode())}
    [subject] = read_url(FakeSystem(http=swap(URL, SWAPPED | {"ttl": 2}) | answers(CHILD) | log), URL, KEY)
    assert subject.runtime.scheduling.keep_alive_s.need() == 2
    assert len(subject.runtime.history.loads.need()) == 2
    [kept] = read_url(FakeSystem(http=swap(URL, SWAPPED | {"ttl": 0}) | answers(CHILD)), URL, KEY)
    assert kept.runtime.scheduling.keep_alive_s.need() < 0, "0 is for ever"


def test_a_model_that_llama_swap_unloaded_is_a_subject_that_nothing_is_sent_to():
    unloaded = f"{SWAP_LOG}[INFO] <eight> Unloading model, TTL of 2s reached\n"
    [subject] = read_url(FakeSystem(http=swap(URL) | {f"GET {URL}/logs": Answer(200, unloaded.encode())}), URL, "")
    assert (subject.runtime.state.need(), subject.model.name.need()) == ("asleep", "eight")
    assert refusal(subject) is not None
    assert subject.runtime.scheduling.keep_alive_s.need() == 2
    still = {f"GET {URL}/logs": Answer(200, SWAP_LOG.encode())}
    assert read_url(FakeSystem(http=swap(URL) | still), URL, "") == (), "it did not say that it unloaded it"


def test_an_old_remote_llama_swap_is_read_through_upstream():
    old = {"model": "org/eight", "state": "ready"}
    [subject] = read_url(FakeSystem(http=swap(FAR, old) | answers(f"{FAR}/upstream/org%2Feight")), FAR, "")
    assert subject.runtime.process.url.need() == f"{FAR}/upstream/org%2Feight"


def test_llama_swap_ignores_children_that_are_not_llama_servers():
    vllm = {"model": "v", "state": "ready", "cmd": "vllm serve v", "proxy": CHILD}
    unclosed = {"model": "q", "state": "ready", "cmd": "llama-server 'x", "proxy": CHILD}
    assert len(read_url(FakeSystem(http=swap(URL, vllm, unclosed, {}) | answers(CHILD)), URL, "")) == 1
    assert read_url(FakeSystem(http=swap(URL)), URL, "") == ()


@pytest.mark.parametrize("body", [b"[]", b"{}", b"x", b'{"running": 3}'])
def test_a_server_with_only_a_health_endpoint_is_not_claimed(body):
    http = {f"GET {URL}/health": Answer(200, b"OK"), f"GET {URL}/running": Answer(200, body)}
    assert read_url(FakeSystem(http=http), URL, "") is None


def test_a_silent_child_of_llama_swap_keeps_its_command_line():
    [subject] = read_url(FakeSystem(http=swap(URL, SWAPPED)), URL, "")
    assert subject.runtime.placement.gpu_layers_set.need() == 20
    assert isinstance(subject.runtime.state, Unknown)
    assert subject.model.name.need() == "eight"
