import pytest

from unslow.facts.values import Unknown
from unslow.look.openai_api import StreamedWords, Usage, is_end, parse_event, parse_model_list, parse_usage, parse_words
from unslow.look.system import LookError


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"delta": {"content": "a"}}, StreamedWords("a")),
        ({"delta": {"content": "", "reasoning_content": "hm"}}, StreamedWords("hm", is_thought=True)),
        ({"delta": {"reasoning": "hm"}}, StreamedWords("hm", is_thought=True)),
        ({"text": "a"}, StreamedWords("a")),
        ({"message": {"role": "assistant", "content": "all of it"}}, StreamedWords("all of it")),
        ({"delta": {"role": "assistant", "content": ""}}, None),
        ({"delta": {}, "text": ""}, None),
        ({"delta": [3]}, None),
        ({"text": 5}, None),
    ],
)
def test_stream_events_are_parsed_as_text_and_reasoning(choice, words):
    assert parse_words({"choices": [choice]}) == words


@pytest.mark.parametrize("event", [{}, {"choices": 3}, {"choices": []}, {"choices": [3]}])
def test_an_event_without_a_choice_has_no_text(event):
    assert parse_words(event) is None


@pytest.mark.parametrize(
    "line", ["data: nonsense", "data: [1]", 'data: {"error": {"message": "no"}}', "data: " + "[" * 100_000]
)
def test_a_garbage_event_is_a_look_error(line):
    with pytest.raises(LookError):
        parse_event(line)


@pytest.mark.parametrize("line", ["data: [DONE]", "data:[DONE]", "data: ", ": a comment", "event: message", ""])
def test_comments_and_done_are_not_events(line):
    assert parse_event(line) is None
    assert is_end("data: [DONE]")
    assert not is_end('data: {"choices":[]}')


def test_usage_with_cached_and_reasoning_tokens_is_parsed():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert parse_usage({"usage": usage}) == Usage(9, 3, 4, 2)
    assert parse_usage({"usage": None}) is None


def test_invalid_usage_counts_are_ignored():
    usage = {"prompt_tokens": -1, "completion_tokens": True, "prompt_tokens_details": 3}
    assert parse_usage({"usage": usage}) == Usage(None, None, 0, None)


def test_vllm_fields_of_a_model_list_are_parsed():
    [model] = parse_model_list(
        {"data": [{"id": "m", "root": "/m", "max_model_len": 4096, "owned_by": "vllm"}, {}, 3]}, "x"
    )
    assert (model.name, model.root.need(), model.context_length.need(), model.owner) == ("m", "/m", 4096, "vllm")


@pytest.mark.parametrize("data", [None, [], {}, {"data": {}}, "x"])
def test_other_json_is_not_a_model_list(data):
    assert parse_model_list(data, "x") is None


def test_nonsense_fields_of_a_model_are_unknown():
    [model] = parse_model_list({"data": [{"id": "m" * 9999, "max_model_len": -1, "root": 3}]}, "x")
    assert len(model.name) == 500
    assert isinstance(model.context_length, Unknown)
    assert isinstance(model.root, Unknown)
