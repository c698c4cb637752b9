import json
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown, reported_fact
from unslow.look.runtimes._gguf_answers import (
    Answers,
    http_subject,
    parse_metrics,
    parse_models,
    parse_props,
    parse_slots,
    read_answers,
    subject_of,
)
from unslow.look.system import Answer, LookError

FOLDER = Path(__file__).parents[2] / "machines" / "h200_llama_server_gpu_layers_set_too_low"
URL = "http://127.0.0.1:8080"
PATHS = ("/health", "/props", "/v1/models", "/slots", "/metrics")
GARBAGE = [None, 3, "text", [], {}, [1], {"data": [{"meta": {"size": -1, "n_params": True}}]}, {"role": []}]


def recorded(name: str):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_llama_server_props_are_parsed():
    subject = parse_props(recorded("props.json"), "props")
    assert subject.runtime.version.need() == "b9999-b21e4de"
    assert (subject.runtime.scheduling.slots.need(), subject.runtime.context.per_slot.need()) == (4, 8192)
    assert subject.runtime.state.need() == "loaded"
    assert (subject.model.name.need(), subject.model.quant.need()) == ("llama8b.gguf", "Q4_K_M")


def test_llama_server_models_give_exact_sizes():
    model = parse_models(recorded("models.json"), "models")
    assert (model.weights_bytes.need(), model.parameters.need()) == (4912898048, 8030261248)
    assert model.weights_bytes.origin is Origin.REPORTED
    assert (model.width.need(), model.vocabulary.need(), model.context_trained.need()) == (4096, 128256, 131072)


def test_llama_server_slots_are_parsed():
    runtime = parse_slots(recorded("slots.json"), "slots")
    assert (
        runtime.scheduling.slots.need(),
        runtime.scheduling.busy_slots.need(),
        runtime.history.longest_sequence.need(),
    ) == (4, 0, 99)


def test_busy_slots_are_counted():
    assert (
        parse_slots([{"is_processing": True}, {"is_processing": False}, {}], "slots").scheduling.busy_slots.need() == 1
    )


def test_llama_server_speeds_come_from_counters():
    runtime = parse_metrics((FOLDER / "metrics.txt").read_text(encoding="utf-8"), "metrics")
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(136 / 8.2266)
    assert runtime.history.prefill_tokens_per_s.need() == pytest.approx(108 / 0.86184)
    assert (runtime.history.longest_sequence.need(), runtime.scheduling.deferred_requests.need()) == (99, 0)


def test_prefix_hit_rate_and_draft_acceptance_come_from_counters():
    text = (
        "llamacpp:prompt_tokens_total 100\nllamacpp:prompt_tokens_cached_total 300\n"
        "llamacpp:spec_decode_num_draft_tokens_total 200\nllamacpp:spec_decode_num_accepted_tokens_total 50\n"
    )
    runtime = parse_metrics(text, "metrics")
    assert (runtime.cache.prefix_hit_rate.need(), runtime.sampling.draft_acceptance.need()) == (0.75, 0.25)
    lying = parse_metrics(text.replace("accepted_tokens_total 50", "accepted_tokens_total 500"), "metrics")
    assert isinstance(lying.sampling.draft_acceptance, Unknown)


def test_metrics_of_an_idle_server_have_no_rate():
    text = "llamacpp:tokens_predicted_total 0\nllamacpp:tokens_predicted_seconds_total 0\n"
    assert parse_metrics(text, "metrics").history.decode_tokens_per_s.absence is Absence.NOT_FOUND


@pytest.mark.parametrize("answer", GARBAGE)
def test_garbage_answers_give_unknown_facts(answer):
    assert isinstance(parse_props(answer, "x").runtime.scheduling.slots, Unknown)
    assert isinstance(parse_models(answer, "x").weights_bytes, Unknown)
    assert isinstance(subject_of(Answers(*[answer] * 5), dict.fromkeys(Answers._fields, "x")).runtime.state, Unknown)
    assert parse_slots(answer, "x").scheduling.busy_slots.value_or(0) == 0
    assert isinstance(parse_metrics(answer, "x").history.decode_tokens_per_s, Unknown)


def test_a_router_has_no_model_of_its_own():
    subject = parse_props({"role": "router", "model_path": "none"}, "props")
    assert subject.model.path.absence is Absence.NOT_SUPPORTED
    assert subject.runtime.scheduling.slots.absence is Absence.NOT_SUPPORTED


def server(**bodies) -> FakeSystem:
    answers = {"/health": {"status": "ok"}, "/props": {}, "/v1/models": {}, "/slots": [], "/metrics": ""} | bodies
    encoded = {
        path: v if isinstance(v, Answer | LookError) else Answer(200, json.dumps(v).encode())
        for path, v in answers.items()
    }
    return FakeSystem(http={f"GET {URL}{path}": v for path, v in encoded.items()})


@pytest.mark.parametrize(
    ("status", "absence"),
    [
        (401, Absence.FAILED),
        (404, Absence.NOT_FOUND),
        (500, Absence.FAILED),
        (501, Absence.NOT_SUPPORTED),
        (503, Absence.FAILED),
    ],
)
def test_each_http_status_has_its_absence(status, absence):
    answers = read_answers(server(**{"/metrics": Answer(status, b"{}")}), URL)
    assert answers.metrics.absence is absence


def test_a_loading_server_is_still_asked_for_the_rest():
    answers = read_answers(server(**{"/health": Answer(503, b'{"error":{"message":"Loading model"}}')}), URL)
    assert http_subject(answers, reported_fact(URL, "given")).runtime.state.need() == "loading"
    assert answers.slots == []


def test_an_unreachable_server_is_asked_once():
    system = server(**{"/health": LookError("nothing listens there", Absence.NOT_FOUND)})
    answers = read_answers(system, URL)
    assert answers.props.absence is Absence.NOT_FOUND
    assert len(system.sent) == 1


@pytest.mark.parametrize("props", [{"is_sleeping": True}, {"role": "router"}])
def test_a_sleeping_server_is_not_woken_and_a_router_not_asked_for_slots(props):
    system = server(**{"/props": props})
    answers = read_answers(system, URL)
    assert isinstance(answers.slots, Unknown)
    assert f"GET {URL}/metrics" not in [sent for sent, _ in system.sent]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100000])
def test_a_body_that_is_not_json_is_unknown(body):
    answers = read_answers(server(**{path: Answer(200, body) for path in PATHS[1:4]}), URL)
    assert isinstance(answers.props, Unknown)
    assert isinstance(answers.slots, Unknown)


def test_a_refused_key_is_distinguished_from_a_missing_one(wording):
    url = "http://127.0.0.1:8080"
    locked = {f"GET {url}{path}": Answer(401, b"{}") for path in ("/props", "/v1/models", "/slots", "/metrics")}
    system = FakeSystem(http=locked | {f"GET {url}/health": Answer(200, b"{}")})
    wording(read_answers(system, url).slots.why, tells="API key")
    refused = read_answers(system, url, "wrong").slots
    wording(refused.why)
    assert "--api-key" in refused.how_to_get
