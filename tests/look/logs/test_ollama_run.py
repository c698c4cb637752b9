import msgspec
import pytest

from unslow.facts.run import Run
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.ollama_commands import parse_run_text

ONE = """>>> why is the sky blue

total duration:       1m2.301542s
load duration:        21.5682ms
prompt eval count:    210 token(s)
prompt eval duration: 812.7965ms
prompt eval rate:     258.37 tokens/s
eval count:           470 token(s)
eval duration:        1m1.2s
eval rate:            7.68 tokens/s
"""
TWO = (
    ONE
    + """>>> and the sea
total duration:       22.710211s
load duration:        9.2959s
prompt eval count:    1021 token(s)
prompt eval duration: 61.9460741ms
prompt eval rate:     16482.02 tokens/s
eval count:           90 token(s)
eval duration:        12.6723354s
eval rate:            7.10 tokens/s
"""
)
JSON = (
    '{"model":"llama3.2","done":true,"total_duration":4935886791,"load_duration":534986708,"prompt_eval_count":26,'
    '"prompt_eval_duration":107345000,"eval_count":237,"eval_duration":4289432000}'
)


def seen(text: str) -> LogFacts:
    return parse_run_text(Text(text.split("\n"), "paste"))


def run(text: str) -> Run:
    return seen(text).subject.run


def test_ollama_verbose_output_gives_speeds_and_a_completion():
    result = run(ONE)
    assert result.decode_tokens_per_s.need() == pytest.approx(470 / 61.2)
    assert result.load_s.need() == pytest.approx(0.0215682)
    (done,) = result.completions.need()
    assert (done.prompt_tokens, done.generated_tokens) == (210, 470)
    assert done.prefill_s == pytest.approx(0.8127965)
    assert done.client_total_s == pytest.approx(62.301542)
    assert seen(ONE).spans == ((2, 10),)
    assert not isinstance(seen(ONE).subject.runtime.history.loads, Known)


def test_a_cached_prompt_does_not_count_as_fast_prefill():
    rate = run(TWO).prefill_tokens_per_s
    assert rate.need() == pytest.approx(210 / 0.8127965)
    assert rate.origin is Origin.ESTIMATED
    assert "cached" in rate.source


def test_several_completions_give_the_median_speed_and_each_load():
    result = seen(TWO)
    assert len(result.subject.run.completions.need()) == 2
    assert result.subject.run.decode_tokens_per_s.need() == pytest.approx((470 / 61.2 + 90 / 12.6723354) / 2)
    (load,) = result.subject.runtime.history.loads.need()
    assert load.seconds == Known(9.2959, Origin.REPORTED, "paste:12")


def test_ollama_api_nanoseconds_are_converted():
    result = run(JSON)
    assert result.decode_tokens_per_s.need() == pytest.approx(55.25, rel=1e-3)
    assert result.load_s.need() == pytest.approx(0.535, rel=1e-2)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("eval rate: 14.6 tokens/s", 14.6),
        ("| eval rate | 9.31 tokens/s |", 9.31),
        ("eval duration: 843µs eval count: 2 token(s)", 2 / 843e-6),
        ("eval rate:            54.84 tok/s", 54.84),
    ],
)
def test_ollama_eval_rate_is_parsed_from_a_single_line(text: str, rate: float):
    assert run(text).decode_tokens_per_s.need() == pytest.approx(rate)


def test_prompt_eval_rate_is_prefill_and_not_decode():
    result = run("prompt eval rate:     1608.97 tokens/s")
    assert not isinstance(result.decode_tokens_per_s, Known)
    assert result.prefill_tokens_per_s.need() == 1608.97


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prompt eval rate 843 -> 97 tok/s",
        "the eval rate is low",
        "eval duration: -3s eval count: 4",
        '"eval_duration": -3, "eval_count": NaN',
        "llama_perf: eval time = 120.11 ms / 42 tokens",
    ],
)
def test_prose_about_eval_rates_is_not_a_speed(text: str):
    assert seen(text) == LogFacts()


@pytest.mark.parametrize(
    "text",
    [
        "eval duration: " + "9" * 15 + "h eval count: 1 token",
        "eval duration: 0s\neval count: 5 token(s)\neval rate: 0 tokens/s",
        '"eval_count":' + "9" * 19 + ', "eval_duration": 0',
        "eval rate: 1 tokens/s\n" * 3000,
        "eval duration:" + " " * 200_000,
    ],
)
def test_hostile_ollama_figures_give_facts_that_can_be_encoded(text: str):
    subject = seen(text).subject
    assert msgspec.json.decode(msgspec.json.encode(subject), type=Subject) == subject
