import pytest

from unslow.think.text.rates import changes, metric_of, middle, slowdown, speeds


def rates(text: str) -> list[tuple[float, str]]:
    return [(round(speed.value, 3), speed.metric) for speed in speeds(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i get 7 tok/s", [(7, "unknown")]),
        ("i get 7.5 tokens per second", [(7.5, "unknown")]),
        ("i get 7,5 t/s", [(7.5, "unknown")]),
        ("1,250 tokens/s in the prompt", [(1250, "prefill")]),
        ("generation is 12-18 tps", [(15, "decode")]),
        ("prompt eval 120 t/s, generation 8.3 t/s", [(120, "prefill"), (8.3, "decode")]),
        ("pp512 900 t/s and tg128 31 t/s", [(900, "prefill"), (31, "decode")]),
        ("it takes 0.5 s/token", [(2, "unknown")]),
        ("200 ms per token", [(5, "unknown")]),
        ("30 s per token", [(0.033, "unknown")]),
    ],
)
def test_speeds_are_parsed_with_their_phase(text, expected):
    assert rates(text) == expected


@pytest.mark.parametrize(
    "text",
    ["0 tok/s", "a 7b model", "7 tokens", "q4_0 weights", "llama-3.1 t/s", "v0.5.8 tok/s", "8 seconds", "16 gb/s"],
)
def test_other_numbers_are_not_speeds(text):
    assert rates(text) == []


@pytest.mark.parametrize(
    ("text", "slow", "fast"),
    [
        ("about 7 tok/s, was 31", 7, 31),
        ("60-70 > 12-18 tok/s after the update", 15, 65),
        ("31 -> 7 tok/s", 7, 31),
        ("it went from 31 tok/s down to 7 tok/s", 7, 31),
        ("12 tokens per second instead of 45 tokens/s", 12, 45),
        ("7 t/s compared to 31 t/s on linux", 7, 31),
        ("45 t/s (previously 20)", 20, 45),
        ("bf16 eval 5.62 tps, fp16 191.95", 5.62, 191.95),
    ],
)
def test_two_speeds_give_slow_and_fast(text, slow, fast):
    found = list(changes(text))
    assert [(change.slow, change.fast) for change in found] == [(slow, fast)]


@pytest.mark.parametrize(
    "text",
    [
        "prompt 120 t/s, generation 8 t/s",
        "7 tok/s with 31 layers on the gpu",
        "7 tok/s, was using 24 gb before",
        "7 tok/s, was using 24.5 gb before",
        "7 tok/s instead of 20 layers i now set 30 layers",
        "7 tok/s",
    ],
)
def test_unrelated_numbers_are_not_a_comparison(text):
    assert list(changes(text)) == []


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("3x slower than before", 3),
        ("2-4 times slower", 3),
        ("slowed down by about 10x", 10),
        ("it is 50% slower", 2),
        ("a drop of 75 %", 4),
        ("runs at 25% of the previous speed", 4),
        ("five times slower", 5),
        ("only a third of the speed", 3),
        ("speed halved", 2),
        ("an order of magnitude slower", 10),
    ],
)
def test_slowdown_factors_are_parsed(text, factor):
    assert slowdown(text) == pytest.approx(factor)


@pytest.mark.parametrize("text", ["it is slow", "3x 3090", "slower on 2 gpus", "50% of the layers", "0.5x slower"])
def test_other_text_has_no_slowdown_factor(text):
    assert slowdown(text) is None


def test_nearest_word_names_the_phase():
    assert metric_of("prompt processing is fine, but generation ", "") == "decode"
    assert metric_of("generation is fine, but the prompt ", "") == "prefill"
    assert metric_of("", "the first token takes long") == "first_token"
    assert metric_of("", "loading takes long") == "load"
    assert metric_of("", "it is slow") == "unknown"


def test_range_gives_its_middle():
    assert middle("12-18") == 15
    assert middle("12 to 18") == 15
    assert middle("1,250") == 1250
    assert middle("7,5") == 7.5
