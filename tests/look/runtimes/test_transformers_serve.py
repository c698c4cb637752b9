"""`transformers serve`, from a process table and the answers documented in its source."""

import json

import pytest
from doubles import FakeSystem
from proc_table import ProcTable
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import Unknown, reported_fact
from unslow.look.processes import read_processes
from unslow.look.runtimes import transformers
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:8000"
PATHS = ["/load_model", "/reset", "/v1/responses", "/v1/models", "/v1/chat/completions"]


def answers(*models: str, paths=PATHS, url: str = URL) -> dict[str, Answer | LookError]:
    return {
        f"GET {url}/openapi.json": Answer(200, json.dumps({"paths": {path: {} for path in paths}}).encode()),
        f"GET {url}/v1/models": Answer(200, json.dumps({"data": [{"id": name} for name in models]}).encode()),
    }


def at_url(**http):
    return transformers.read_url(FakeSystem(http=http), URL, "")


def test_transformers_serve_is_recognised_by_its_openapi_paths():
    (subject,) = at_url(**answers("org/model"))
    assert (subject.runtime.name.need(), subject.runtime.process.url.need()) == ("Transformers", URL)
    assert subject.model.name.need() == "org/model"
    assert "unslow.watch" in subject.runtime.placement.gpu_layers.how_to_get
    assert at_url(**answers("org/model", paths=["/v1/models", "/v1/chat/completions"])) is None


def test_several_cached_models_are_not_assumed_loaded():
    (subject,) = at_url(**answers("a/b", "c/d"))
    assert isinstance(subject.model.name, Unknown)


def test_a_transformers_server_without_a_model_list_has_no_model_name():
    (subject,) = at_url(**answers() | {f"GET {URL}/v1/models": LookError("500")})
    assert isinstance(subject.model.name, Unknown)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"paths": []}', b'{"paths": 7}', b"\xff", b"[" * 50_000])
def test_other_servers_are_not_transformers_serve(body):
    assert at_url(**{f"GET {URL}/openapi.json": Answer(200, body)}) is None
    assert at_url() is None


def processes(*command: str, name: str = "python3", **http):
    table = ProcTable(FakeSystem(http=http)).add(10, name, command)
    return transformers.find(read_processes(table.system))


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["transformers", "serve"], True),
        (["/venv/bin/python3", "/venv/bin/transformers", "serve", "--port", "9000"], True),
        (["python3", "-m", "transformers", "serve"], True),
        (["python3", "/venv/bin/transformers", "chat"], False),
        (["python3", "train.py", "--serve", "transformers"], False),
        (["python3", "-c", "import transformers; serve()"], False),
    ],
)
def test_transformers_serve_processes_are_recognised(command, found):
    assert len(processes(*command)) == found


def test_a_transformers_process_is_read_with_its_answers():
    words = "transformers serve --port 9000 --host 0.0.0.0 --attn-implementation sdpa --dtype bfloat16 --device cuda"
    command = ["/venv/bin/python3", *words.split(), "--compile"]
    (process,) = processes(*command, **answers("org/model", url="http://127.0.0.1:9000"))
    (subject,) = transformers.read(process, "")
    runtime = subject.runtime
    assert (runtime.process.url.need(), runtime.process.pid.need()) == ("http://127.0.0.1:9000", 10)
    assert (
        runtime.compute.attention.need(),
        runtime.compute.weights_type.need(),
        runtime.placement.device_set.need(),
    ) == (*("sdpa", "bfloat16", "cuda"),)
    assert runtime.compute.eager.need() is False
    assert subject.model.name.need() == "org/model"


def test_a_silent_transformers_server_is_read_from_its_process():
    (process,) = processes("transformers", "serve", "org/model", "--quantization=bnb-4bit")
    (subject,) = transformers.read(process, "")
    assert (subject.runtime.process.url.need(), subject.runtime.compute.quantization.need()) == (URL, "bnb-4bit")
    assert (subject.runtime.compute.eager.need(), subject.model.name.need()) == (True, "org/model")


def test_knobs_become_python_or_flags():
    runtime = Runtime()
    assert one_change(transformers, Knob.THREADS.to(4, "x"), runtime)[0] == "in Python: torch.set_num_threads(4)"
    assert any("static" in line for line in one_change(transformers, Knob.GRAPHS.to(True, "x"), runtime))
    assert one_change(transformers, Knob.CONTEXT_LENGTH.to(4096, "x"), runtime) == []
    packed = Runtime().with_facts(quantization=reported_fact("bitsandbytes", "x"))
    assert all("BitsAndBytes" not in line for line in one_change(transformers, Knob.QUANT.to(None, "x"), packed))
