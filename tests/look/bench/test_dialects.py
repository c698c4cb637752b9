"""Timed requests in each runtime's API; none of them loads or unloads a model."""

import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import Unknown
from unslow.look.bench.completions import MOST_ENDED, measure
from unslow.look.bench.timing import dialect_of
from unslow.look.requests import Plan, Target
from unslow.look.runtimes import openai_compatible
from unslow.look.runtimes.llama_cpp import bench
from unslow.look.runtimes.ollama import bench as ollama
from unslow.look.system import Answer, Line, LookError

URL = "http://127.0.0.1:9"
FINAL = {
    "done": True,
    "eval_count": 65,
    "eval_duration": 1_000_000_000,
    "prompt_eval_count": 40,
    "prompt_eval_duration": 100_000_000,
    "load_duration": 30_000_000,
}
CHUNK = 'data: {"choices":[{"text":"a"}]}'
USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":65}}'
STREAM = [Line(0.5, CHUNK), Line(1.5, CHUNK), Line(1.5, USAGE)]


def generated(**changes) -> list[Line]:
    return [Line(0.2, '{"response": "a", "done": false}'), Line(1.2, json.dumps(FINAL | changes))]


def ollama_machine(stream, loaded=("m:latest",)) -> FakeSystem:
    listed = Answer(200, json.dumps({"models": [{"name": name} for name in loaded]}).encode())
    return FakeSystem(http={f"GET {URL}/api/ps": listed}, streams={f"{URL}/api/generate": stream})


def measured(system: FakeSystem, runtime: str, **target):
    return measure(system, Target(URL, runtime=runtime, model="m:latest", **target), Plan(), lambda *_: None)


def bodies(system: FakeSystem) -> list[dict]:
    return [body for path, body in system.sent if path.startswith("STREAM")]


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("llama.cpp", bench),
        ("embedded llama.cpp", bench),
        ("Ollama", ollama),
        ("vLLM", openai_compatible),
        ("LM Studio", openai_compatible),
        ("", openai_compatible),
    ],
)
def test_each_runtime_name_selects_its_request_dialect(name, dialect):
    assert dialect_of(name) is dialect.ask


def test_ollama_speeds_come_from_its_own_timings_at_the_loaded_context():
    system = ollama_machine(generated())
    run = measured(system, "Ollama", context=8192)
    assert run.decode_tokens_per_s.need() == pytest.approx(64)
    assert run.prefill_tokens_per_s.need() == pytest.approx(400)
    for body in bodies(system):
        assert set(body) == {"model", "prompt", "raw", "stream", "options"}, "no keep_alive"
        assert set(body["options"]) == {"num_predict", "num_ctx"}
        assert body["options"]["num_ctx"] == 8192


def test_ollama_requests_omit_num_ctx_when_the_context_is_unknown():
    system = ollama_machine(generated())
    measured(system, "Ollama")
    assert {tuple(body["options"]) for body in bodies(system)} == {("num_predict",)}


def test_a_model_that_ollama_unloaded_is_not_loaded_again():
    system = ollama_machine(generated(), loaded=("other",))
    run = measured(system, "Ollama")
    assert "no longer loaded" in run.decode_tokens_per_s.why
    assert bodies(system) == []


def test_measuring_stops_after_a_request_that_made_ollama_load():
    system = ollama_machine(generated(load_duration=9_000_000_000))
    assert "reloaded" in measured(system, "Ollama").decode_tokens_per_s.why
    assert len(bodies(system)) == 1


@pytest.mark.parametrize(
    "stream",
    [
        [],
        [Line(0.1, "nonsense")],
        [Line(0.1, '{"error": "model not found"}')],
        [Line(0.1, "[" * 100_000)],
        generated(eval_count=-1),
        generated(eval_count="many"),
        generated(eval_count=0),
        generated(eval_duration=float("nan")),
        LookError("broke off"),
    ],
)
def test_garbage_from_ollama_makes_decode_speed_unknown(stream):
    assert isinstance(measured(ollama_machine(stream), "Ollama").decode_tokens_per_s, Unknown)


def openai_machine(**streams) -> FakeSystem:
    return FakeSystem(streams={f"{URL}/v1/{path.replace('_', '/')}": lines for path, lines in streams.items()})


def test_openai_servers_without_timings_are_timed_by_the_client_clock(wording):
    system = openai_machine(completions=STREAM)
    run = measured(system, "vLLM")
    assert run.decode_tokens_per_s.need() == pytest.approx(64)
    assert run.decode_tokens_per_s.source.endswith("client clock")
    assert run.time_to_first_token_s.need() == pytest.approx(0.5)
    wording(run.prefill_tokens_per_s.why)
    assert all(b["ignore_eos"] and b["stream_options"] == {"include_usage": True} for b in bodies(system))


@pytest.mark.parametrize(("runtime", "first"), [("LM Studio", "chat"), ("MLX-LM", "text")])
def test_a_404_falls_back_to_the_other_completions_endpoint(runtime, first):
    here, there = ("completions", "chat_completions") if first == "chat" else ("chat_completions", "completions")
    system = openai_machine(**{here: STREAM, there: LookError(f"{URL} answered 404: not found")})
    assert measured(system, runtime).decode_tokens_per_s.need() == pytest.approx(64)
    assert not any("ignore_eos" in body for body in bodies(system))


def test_a_500_does_not_fall_back_to_the_other_endpoint():
    system = openai_machine(completions=LookError("answered 500: boom"), chat_completions=STREAM)
    assert "500" in measured(system, "vLLM").decode_tokens_per_s.why


def test_without_usage_each_stream_chunk_counts_as_a_token():
    stream = [*(Line(0.5 + i / 10, CHUNK) for i in range(11)), Line(1.6, "data: [DONE]")]
    run = measured(openai_machine(completions=stream), "vLLM")
    assert run.decode_tokens_per_s.need() == pytest.approx(10)
    assert "piece" in run.decode_tokens_per_s.source


def test_a_completion_in_one_chunk_has_no_decode_speed():
    run = measured(openai_machine(completions=[Line(0.5, CHUNK), Line(0.5, USAGE)]), "vLLM")
    assert "one piece" in run.decode_tokens_per_s.why


def repeating(pieces: int, *last: Line) -> list[Line]:
    """Ollama gives an answer up after thirty equal tokens in a row: its stream ends as if it were whole."""
    return [*(Line(0.2 + n / 10, '{"response": "a", "done": false}') for n in range(pieces)), *last]


def test_an_ollama_stream_without_a_final_line_is_timed_by_its_chunks():
    run = measured(ollama_machine(repeating(31)), "Ollama")
    assert run.decode_tokens_per_s.need() == pytest.approx(10.0)
    assert all(done.generated_tokens == 31 for done in run.completions.need())


def test_a_stream_cut_after_three_chunks_or_by_an_error_has_no_speed():
    assert isinstance(measured(ollama_machine(repeating(3)), "Ollama").decode_tokens_per_s, Unknown)
    why = measured(ollama_machine(repeating(31, Line(4.0, '{"error": "out of room"}'))), "Ollama").decode_tokens_per_s
    assert "out of room" in why.why


def test_a_model_that_ollama_loaded_with_another_context_is_not_loaded_again():
    listed = Answer(200, b'{"models": [{"name": "m:latest", "context_length": 2048}]}')
    system = FakeSystem(http={f"GET {URL}/api/ps": listed}, streams={f"{URL}/api/generate": generated()})
    assert "another context" in measured(system, "Ollama", context=8192).decode_tokens_per_s.why
    assert bodies(system) == []


def test_an_answer_that_the_model_ends_at_once_is_no_speed():
    system = ollama_machine(generated(eval_count=1, eval_duration=1000))
    run = measured(system, "Ollama")
    assert "ends its answers" in run.decode_tokens_per_s.why
    prompts = [body["prompt"] for body in bodies(system)]
    assert len(set(prompts)) == len(prompts) == 1 + MOST_ENDED
    assert all(prompt.endswith("1.") for prompt in prompts[1:])
