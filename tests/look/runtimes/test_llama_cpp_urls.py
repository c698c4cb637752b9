"""A server known by its URL alone: alone, locked, loading, a router's children, behind llama-swap."""

import json
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.facts.values import Known, Unknown
from unslow.look.runtimes.llama_cpp.urls import read_url
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


def test_a_server_alone():
    [subject] = read_url(FakeSystem(http=answers(URL)), f"{URL}/", "")
    assert (subject.runtime.url.need(), subject.runtime.state.need()) == (URL, "loaded")


def test_a_server_that_still_loads():
    loading = Answer(503, b'{"error":{"message":"Loading model"}}')
    paths = ("/health", "/props", "/v1/models", "/slots", "/metrics")
    [subject] = read_url(FakeSystem(http={f"GET {URL}{path}": loading for path in paths}), URL, "")
    assert subject.runtime.state.need() == "loading"


def test_a_server_that_wants_a_key():
    locked = {name: Answer(401, b"{}") for name in answers(URL)} | {f"GET {URL}/health": OK}
    [subject] = read_url(FakeSystem(http=locked), URL, "")
    assert subject.runtime.state.need() == "loaded"
    assert "API key" in subject.runtime.busy_slots.why


def test_nobody_there():
    with pytest.raises(LookError):
        read_url(FakeSystem(), URL, "")


@pytest.mark.parametrize("props", [Answer(404, b""), Answer(200, b"{}"), Answer(200, b"x"), Answer(401, b"")])
def test_something_else_is_left_to_others(props):
    http = {f"GET {URL}/health": Answer(200, b""), f"GET {URL}/props": props}
    assert read_url(FakeSystem(http=http), URL, "") is None


def test_the_loaded_children_of_a_router_here_are_asked_themselves():
    http = router(URL, model("a"), model("b", "unloaded"), model("c", "failed")) | answers(CHILD)
    system = FakeSystem(http=http)
    [subject] = read_url(system, URL, KEY)
    runtime = subject.runtime
    assert (runtime.url.need(), runtime.front.need()) == (CHILD, f"router at {URL}")
    assert runtime.context_set.need() == 4096
    assert runtime.command.need()[5:7] == ["--api-key", "KEY"]
    assert subject.model.weights_bytes.need() > 0
    assert KEY not in repr(subject)
    assert {sent.split()[0] for sent, _ in system.sent} == {"GET"}


def test_a_router_elsewhere_is_asked_for_its_children_and_told_not_to_load():
    query = "?model=org%2Fa&autoload=false"
    [subject] = read_url(FakeSystem(http=router(FAR, model("org/a")) | answers(FAR, query)), FAR, "")
    assert subject.runtime.url.need() == FAR
    assert subject.runtime.slots.need() == 4


def test_a_router_with_nothing_loaded():
    assert read_url(FakeSystem(http=router(URL, model("a", "unloaded"))), URL, "") == ()


@pytest.mark.parametrize("body", [{}, {"data": 3}, {"data": [3, {}, {"id": 3}, {"id": "a", "status": "loaded"}]}])
def test_a_router_that_talks_nonsense_has_nothing_loaded(body):
    http = router(URL) | {f"GET {URL}/models": Answer(200, json.dumps(body).encode())}
    assert read_url(FakeSystem(http=http), URL, "") == ()


def swap(url: str, *running: dict) -> dict[str, Answer | LookError]:
    listed = json.dumps({"running": list(running)}).encode()
    return {f"GET {url}/health": Answer(200, b"OK"), f"GET {url}/running": Answer(200, listed)}


SWAPPED = {"model": "eight", "state": "ready", "cmd": "/bin/llama-server -ngl 20 --api-key " + KEY, "proxy": CHILD}


def test_what_runs_behind_llama_swap():
    [subject] = read_url(FakeSystem(http=swap(URL, SWAPPED) | answers(CHILD)), URL, KEY)
    runtime = subject.runtime
    assert (runtime.url.need(), runtime.front.need()) == (CHILD, f"llama-swap at {URL}")
    assert runtime.gpu_layers_set.need() == 20
    assert isinstance(runtime.slots, Known)
    assert KEY not in repr(subject)


def test_an_older_llama_swap_elsewhere_is_gone_through():
    old = {"model": "org/eight", "state": "ready"}
    [subject] = read_url(FakeSystem(http=swap(FAR, old) | answers(f"{FAR}/upstream/org%2Feight")), FAR, "")
    assert subject.runtime.url.need() == f"{FAR}/upstream/org%2Feight"


def test_other_servers_behind_llama_swap_are_not_its_business():
    vllm = {"model": "v", "state": "ready", "cmd": "vllm serve v", "proxy": CHILD}
    unclosed = {"model": "q", "state": "ready", "cmd": "llama-server 'x", "proxy": CHILD}
    assert len(read_url(FakeSystem(http=swap(URL, vllm, unclosed, {}) | answers(CHILD)), URL, "")) == 1
    assert read_url(FakeSystem(http=swap(URL)), URL, "") == ()


@pytest.mark.parametrize("body", [b"[]", b"{}", b"x", b'{"running": 3}'])
def test_a_server_that_only_says_ok(body):
    http = {f"GET {URL}/health": Answer(200, b"OK"), f"GET {URL}/running": Answer(200, body)}
    assert read_url(FakeSystem(http=http), URL, "") is None


def test_a_child_that_does_not_answer_leaves_its_command_line():
    [subject] = read_url(FakeSystem(http=swap(URL, SWAPPED)), URL, "")
    assert subject.runtime.gpu_layers_set.need() == 20
    assert isinstance(subject.runtime.state, Unknown)
    assert subject.model.name.need() == "eight"
