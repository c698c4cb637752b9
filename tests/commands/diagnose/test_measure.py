"""Measuring a live server without disturbing its user."""

import json
from itertools import count

import msgspec
import pytest
from doubles import FakeSystem, Quiet
from measured_alone import measured_subject

from unslow.commands._formats import Looking
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown, reported_fact
from unslow.look.system import Answer, Line

URL = "http://127.0.0.1:8080"
LAST = {"timings": {"prompt_n": 40, "prompt_ms": 100.0, "predicted_n": 65, "predicted_ms": 1000.0}}
STREAM = [Line(0.1, 'data: {"content": "a"}'), Line(1.1, f"data: {json.dumps(LAST)}")]


def subject(**changes) -> Subject:
    facts = {"url": URL, "state": "loaded", "busy_slots": 0} | changes
    return Subject(
        runtime=Runtime().with_facts(
            **{k: v if isinstance(v, Unknown) else reported_fact(v, "test") for k, v in facts.items()}
        )
    )


def system(slots=({"id": 0, "id_task": 5}, {"id": 1})) -> FakeSystem:
    answer = Answer(200, msgspec.json.encode(list(slots)))
    return FakeSystem(http={f"GET {URL}/slots": answer}, streams={f"{URL}/completion": STREAM})


def test_idle_server_is_measured_on_an_unused_slot_after_an_announcement():
    door, progress = system(), Quiet()
    run = measured_subject(door, subject(), Looking(), progress).run
    assert isinstance(run.decode_tokens_per_s, Known)
    assert "sending" in progress.said[0]
    assert all(body["id_slot"] == 1 for path, body in door.sent if path.startswith("STREAM"))


@pytest.mark.parametrize(
    ("changes", "manners", "why"),
    [
        ({}, Looking(passive=True), "passive"),
        ({"busy_slots": 2}, Looking(), "busy with 2 requests"),
        ({"state": "loading"}, Looking(), "loading"),
        ({"url": Unknown("none")}, Looking(), "address"),
        ({"busy_slots": Unknown("no /slots")}, Looking(), "whether it is busy"),
    ],
)
def test_nothing_is_sent_when_passive_busy_loading_or_unknown(changes, manners, why):
    door, progress = system(), Quiet()
    run = measured_subject(door, subject(**changes), manners, progress).run
    assert isinstance(run.decode_tokens_per_s, Unknown)
    assert why in run.decode_tokens_per_s.why
    assert not [path for path, _ in door.sent if path.startswith("STREAM")]
    assert "observing only" in progress.said[0]


def test_cached_conversation_is_evicted_only_with_evict():
    full = system(slots=[{"id": 0, "id_task": 5}])
    assert isinstance(measured_subject(full, subject(), Looking(), Quiet()).run.decode_tokens_per_s, Unknown)
    assert isinstance(measured_subject(full, subject(), Looking(evict=True), Quiet()).run.decode_tokens_per_s, Known)


def test_runtime_that_may_lose_its_cache_is_not_measured_without_evict():
    door, progress = system(), Quiet()
    studio = subject(name="LM Studio", busy_slots=Unknown("not told"))
    run = measured_subject(door, studio, Looking(), progress).run
    assert "--evict" in run.decode_tokens_per_s.how_to_get
    assert door.sent == []


def test_ollama_is_measured_with_the_loaded_model_and_context():
    final = {
        "done": True,
        "eval_count": 65,
        "eval_duration": 10**9,
        "prompt_eval_count": 9,
        "prompt_eval_duration": 10**7,
    }
    door = FakeSystem(
        http={f"GET {URL}/api/ps": Answer(200, b'{"models": [{"name": "m:8b"}]}')},
        streams={f"{URL}/api/generate": [Line(0.2, '{"response": "a"}'), Line(1.0, json.dumps(final))]},
    )
    loaded = subject(name="Ollama", version="0.33.0", context_per_slot=8192)
    loaded = msgspec.structs.replace(loaded, model=Model(name=reported_fact("m:8b", "x")))
    progress = Quiet()
    run = measured_subject(door, loaded, Looking(), progress).run
    assert run.decode_tokens_per_s.need() == pytest.approx(64)
    body = next(body for path, body in door.sent if path.startswith("STREAM"))
    assert (body["model"], body["options"]["num_ctx"]) == ("m:8b", 8192)


def test_busy_vllm_is_measured_by_its_counters():
    answers = (f"vllm:num_requests_running 1\nvllm:generation_tokens_total {n}\n" for n in count(100, 60))

    class Counting(FakeSystem):
        def request(self, method, url, body=None, headers=None, timeout_s=0):
            return Answer(200, next(answers).encode())

    busy = subject(name="vLLM", busy_slots=Unknown("none"), running_requests=1)
    run = measured_subject(Counting(), busy, Looking(), Quiet()).run
    assert run.decode_tokens_per_s.need() == pytest.approx(
        300
    )  # the stand-in's clock goes a tenth each time: for the look, and for the progress
