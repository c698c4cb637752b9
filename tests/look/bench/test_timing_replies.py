"""Token counts and times of each runtime, normalized: computed tokens, and steps after the first token."""

import json

import pytest
from doubles import FakeSystem

from unslow.look.bench.timing import ask
from unslow.look.requests import AskError, Question, Reply, Target
from unslow.look.system import Answer, Line, LookError

URL = "http://127.0.0.1:9"
TIMINGS = {"prompt_n": 40, "prompt_ms": 100.0, "predicted_n": 9, "predicted_ms": 800.0, "cache_n": 3}
LOADED = {f"GET {URL}/api/ps": Answer(200, b'{"models": [{"name": "m"}]}')}


def data(**event) -> str:
    return f"data: {json.dumps(event)}"


def streamed(runtime: str, path: str, lines: list[str], **question) -> Reply:
    machine = FakeSystem(http=LOADED, streams={URL + path: [Line(0.5 + i / 10, line) for i, line in enumerate(lines)]})
    return ask(machine, Target(URL, runtime=runtime, model="m"), Question(**({"prompt": "x", "tokens": 9} | question)))


def sent(runtime: str, path: str, **question) -> dict:
    machine = FakeSystem(http=LOADED, streams={URL + path: []})
    asked = Question(**({"prompt": "x", "tokens": 9} | question))
    with pytest.raises(AskError):
        ask(machine, Target(URL, runtime=runtime, model="m", context=4096), asked)
    return machine.sent[-1][1]


def llama(*contents: str, **question) -> Reply:
    pieces = [data(content=content, stop=False) for content in contents]
    return streamed("llama.cpp", "/completion", [*pieces, data(content="", stop=True, timings=TIMINGS)], **question)


def test_llama_server_decode_time_excludes_the_first_token():
    reply = llama(*"abcdefghi")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens) == (40, 3, 9)
    assert (reply.server_prefill_s, reply.server_decode_s) == (0.1, 0.8)
    assert len(reply.arrivals_s) == 9
    assert reply.arrivals_s[0] == 0.5
    assert reply.text == "abcdefghi"
    assert reply.thinking_tokens == 0


def test_llama_server_token_counts_win_over_chunk_counts():
    reply = llama("abc", "def", "ghi")
    assert (reply.generated_tokens, len(reply.arrivals_s), reply.server_decode_s) == (9, 3, 0.8)


def test_fewer_tokens_than_requested_is_ended_early():
    assert llama("a", tokens=512).ended_early
    assert not llama("a", tokens=9).ended_early


@pytest.mark.parametrize(("keep", "greedy", "stream"), [(False, False, True), (True, True, False)])
def test_llama_server_request_body_has_slot_cache_and_sampling_options(keep, greedy, stream):
    machine = FakeSystem()
    with pytest.raises(AskError):
        ask(machine, Target(URL), Question("x", 9, slot=1, keep=keep, greedy=greedy, stream=stream))
    body = machine.sent[-1][1]
    assert (body["cache_prompt"], body["stream"], body["id_slot"], body["ignore_eos"]) == (keep, stream, 1, True)
    assert body.get("samplers") == (["top_k"] if greedy else None)
    assert body.get("top_k") == (1 if greedy else None)


def ollama(final: dict, *pieces: dict, **question) -> Reply:
    lines = [json.dumps({"done": False} | piece) for piece in pieces]
    done = {"done": True, "eval_count": 9, "eval_duration": 8e8, "prompt_eval_count": 43, "prompt_eval_duration": 1e8}
    whole = {name: int(value) for name, value in (done | final).items()} | {"done": True}
    return streamed("Ollama", "/api/generate", [*lines, json.dumps(whole)], **question)


def test_ollama_prompt_count_includes_cached_tokens():
    reply = ollama({"prompt_eval_cached_count": 3, "load_duration": 2e7}, {"response": "a"})
    assert (reply.prompt_tokens, reply.cached_tokens) == (40, 3)
    assert (reply.server_prefill_s, reply.server_decode_s) == (pytest.approx(0.1), pytest.approx(0.8))
    assert reply.server_load_s == pytest.approx(0.02)


def test_ollama_without_cached_count_has_no_prefill_time_when_cache_is_kept():
    assert ollama({}, {"response": "a"}).server_prefill_s == pytest.approx(0.1)
    assert ollama({}, {"response": "a"}, keep=True).server_prefill_s is None
    assert ollama({"prompt_eval_cached_count": 43}, {"response": "a"}, keep=True).prompt_tokens == 0


def test_ollama_thinking_tokens_are_chunks_if_each_chunk_is_a_token():
    thoughts, words = [{"thinking": "hm"}] * 4, [{"response": "a"}] * 5
    reply = ollama({}, *thoughts, *words)
    assert (reply.thinking_tokens, len(reply.arrivals_s), reply.text) == (4, 9, "aaaaa")
    assert ollama({}, *thoughts, *words[:3]).thinking_tokens is None


def test_ollama_request_body_has_options_and_no_keep_alive():
    body = sent("Ollama", "/api/generate", greedy=True)
    assert body["options"] == {"num_predict": 9, "num_ctx": 4096, "temperature": 0.0, "top_k": 1}
    assert "keep_alive" not in body


def words(*texts: str, **delta) -> list[str]:
    return [data(choices=[{"delta": {"content": text} | delta}]) for text in texts]


def usage(**counts) -> str:
    return data(choices=[], usage={"prompt_tokens": 43, "completion_tokens": 9} | counts)


def chat(*lines: str, runtime: str = "LM Studio", **question) -> Reply:
    return streamed(runtime, "/v1/chat/completions", [*lines, "data: [DONE]"], **question)


def test_cached_tokens_are_subtracted_from_openai_usage():
    reply = chat(*words("a", "b"), usage(prompt_tokens_details={"cached_tokens": 3}))
    assert (reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens) == (40, 3, 9)
    assert (reply.clock, reply.server_prefill_s, reply.server_decode_s) == ("client clock", None, None)


def test_reasoning_tokens_from_usage_win_over_counted_chunks():
    thoughts = [data(choices=[{"delta": {"reasoning_content": "hm"}}])] * 2
    counted = usage(completion_tokens_details={"reasoning_tokens": 7})
    assert chat(*thoughts, *words("a"), counted).thinking_tokens == 7
    assert chat(*thoughts, *words("a"), usage(completion_tokens=3)).thinking_tokens == 2
    assert chat(*thoughts, *words("a"), usage(completion_tokens=30)).thinking_tokens is None
    assert len(chat(*thoughts, *words("a"), usage()).arrivals_s) == 3


def test_llama_cpp_timings_in_an_openai_stream_are_used():
    reply = chat(*words("a", "b"), data(choices=[], timings=TIMINGS, usage={"completion_tokens": 9}))
    assert (reply.prompt_tokens, reply.cached_tokens, reply.clock) == (40, 3, "server timings")
    assert (reply.server_prefill_s, reply.server_decode_s) == (0.1, 0.8)


def test_vllm_stream_metrics_give_prefill_decode_and_queue_times():
    times = {"time_to_first_token_ms": 100.0, "generation_time_ms": 800.0, "queue_time_ms": 50.0}
    last = data(choices=[], usage={"prompt_tokens": 40, "completion_tokens": 9}, metrics=times)
    reply = streamed("vLLM", "/v1/completions", [data(choices=[{"text": "a"}]), last])
    assert (reply.server_prefill_s, reply.server_decode_s, reply.server_queue_s) == (0.1, 0.8, 0.05)


@pytest.mark.parametrize("extra", [{"timings": 3}, {"timings": {}}, {"metrics": {"generation_time_ms": -1}}])
def test_invalid_server_timings_fall_back_to_the_client_clock(extra):
    reply = chat(*words("a", "b"), data(choices=[], usage={"completion_tokens": 9}, **extra))
    assert (reply.server_decode_s, reply.clock) == (None, "client clock")


@pytest.mark.parametrize("end", ["data: [DONE]", data(choices=[{"delta": {}, "finish_reason": "length"}]), usage()])
def test_done_finish_reason_and_usage_each_end_a_stream(end):
    assert streamed("LM Studio", "/v1/chat/completions", [*words("a"), end]).generated_tokens


def test_a_stream_without_an_end_is_broke_off():
    with pytest.raises(AskError) as caught:
        streamed("LM Studio", "/v1/chat/completions", words("a", "b"))
    assert (caught.value.kind, caught.value.pieces) == ("broke_off", 2)


def test_an_error_in_mid_stream_does_not_fall_back_to_another_endpoint():
    machine = FakeSystem(streams={f"{URL}/v1/completions": LookError("answered 404"), f"{URL}/v1/chat/completions": []})
    with pytest.raises(AskError, match="returned an empty answer"):
        ask(machine, Target(URL, runtime="vLLM", model="m"), Question("x", 9))
    assert len(machine.sent) == 2
    with pytest.raises(AskError):
        streamed("vLLM", "/v1/completions", [data(choices=[{"text": "a"}]), data(error="answered 404 somewhere")])


@pytest.mark.parametrize(("runtime", "runs_on"), [("vLLM", True), ("SGLang", True), ("MLX-LM", False)])
def test_openai_request_body_has_ignore_eos_only_where_supported(runtime, runs_on):
    body = sent(runtime, "/v1/completions", greedy=True)
    assert (body.get("ignore_eos", False), body["temperature"], body["max_tokens"]) == (runs_on, 0.0, 9)
    assert "temperature" not in sent(runtime, "/v1/completions")


def test_an_unstreamed_openai_reply_has_total_time_and_no_arrivals():
    answer = {"choices": [{"message": {"content": "all"}}], "usage": {"prompt_tokens": 40, "completion_tokens": 9}}
    machine = FakeSystem(http={f"POST {URL}/v1/chat/completions": Answer(200, json.dumps(answer).encode())})
    reply = ask(machine, Target(URL, runtime="LM Studio", model="m"), Question("x", 9, stream=False))
    assert (reply.generated_tokens, reply.arrivals_s, reply.text) == (9, (), "all")
    assert reply.total_s == pytest.approx(0.1)
    assert "stream_options" not in machine.sent[-1][1]


@pytest.mark.parametrize("body", [b"[]", b"nonsense", b'{"error": "no"}', b'{"choices": []}'])
def test_garbage_in_an_unstreamed_reply_is_an_ask_error(body):
    machine = FakeSystem(http={f"POST {URL}/v1/chat/completions": Answer(200, body)})
    with pytest.raises(AskError) as caught:
        ask(machine, Target(URL, runtime="LM Studio", model="m"), Question("x", 9, stream=False))
    assert caught.value.kind == "error"


@pytest.mark.parametrize(
    ("runtime", "path"), [("llama.cpp", "/completion"), ("Ollama", "/api/generate"), ("vLLM", "/v1/completions")]
)
def test_a_stream_with_an_error_is_closed_while_the_error_is_still_held(runtime, path):
    closed = []

    class Streaming(FakeSystem):
        def stream(self, url, *_given, **_named):
            try:
                yield Line(0.5, '{"error": "no"}' if runtime == "Ollama" else data(error={"message": "no"}))
                yield Line(0.6, "")
            finally:
                closed.append(url)

    with pytest.raises(AskError) as caught:
        ask(Streaming(http=LOADED), Target(URL, runtime=runtime, model="m"), Question("x", 9))
    assert closed
    assert caught.value
