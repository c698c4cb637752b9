import pytest

from unslow.facts.values import Unknown
from unslow.look.openai_api.models import parse_models
from unslow.look.openai_api.stream import Streamed, parse_stream
from unslow.look.system import LookError
from unslow.look.system.door import Line

ROLE = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}'
WORD = 'data: {"choices":[{"delta":{"content":"a"}}]}'
THOUGHT = 'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}'
TEXT = 'data: {"choices":[{"text":"a"}]}'
USAGE = (
    'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}'
)


def test_a_chat_with_usage():
    lines = [Line(0.1, ROLE), Line(0.5, THOUGHT), Line(0.6, WORD), Line(0.6, ""), Line(0.8, WORD), Line(0.9, USAGE)]
    streamed = parse_stream([*lines, Line(0.9, "data: [DONE]")])
    assert streamed == Streamed(0.5, 0.8, 3, prompt_tokens=9, cached_tokens=4, generated_tokens=3)


def test_plain_text_without_usage():
    streamed = parse_stream([Line(0.2, TEXT), Line(0.4, TEXT)])
    assert (streamed.first_s, streamed.last_s, streamed.chunks, streamed.generated_tokens) == (0.2, 0.4, 2, None)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [ROLE],
        ["data: nonsense"],
        ["data: [1]"],
        ['data: {"error": {"message": "no"}}'],
        ["data: " + "[" * 100_000],
        ['data: {"choices": 3}', 'data: {"choices": [3]}', 'data: {"choices": [{"text": 5}]}'],
    ],
)
def test_garbage_is_an_error_and_no_crash(lines):
    with pytest.raises(LookError):
        parse_stream(Line(0.1, line) for line in lines)


def test_counts_that_are_none_are_not_counted():
    usage = 'data: {"usage": {"prompt_tokens": -1, "completion_tokens": true, "prompt_tokens_details": 3}}'
    streamed = parse_stream([Line(0.1, TEXT), Line(0.2, usage)])
    assert (streamed.prompt_tokens, streamed.generated_tokens, streamed.cached_tokens) == (None, None, 0)


def test_models_with_what_vllm_adds():
    [model] = parse_models({"data": [{"id": "m", "root": "/m", "max_model_len": 4096, "owned_by": "vllm"}, {}, 3]}, "x")
    assert (model.name, model.root.need(), model.context_length.need(), model.owner) == ("m", "/m", 4096, "vllm")


@pytest.mark.parametrize("data", [None, [], {}, {"data": {}}, "x"])
def test_no_list_of_models(data):
    assert parse_models(data, "x") is None


def test_a_model_that_says_nonsense_of_itself():
    [model] = parse_models({"data": [{"id": "m" * 9999, "max_model_len": -1, "root": 3}]}, "x")
    assert len(model.name) == 500
    assert isinstance(model.context_length, Unknown)
    assert isinstance(model.root, Unknown)
