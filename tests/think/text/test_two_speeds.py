"""Of two speeds: which is current, what differs, and what is not a speed."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.prose import read_words


def told(*lines):
    return read_words(lines, "report")


@pytest.mark.parametrize(
    ("line", "speed"),
    [
        ("went from 8 tok/s to 90 tok/s. great!", 90.0),
        ("was 31 tok/s, now 7 tok/s", 7.0),
        ("48 t/s plugged in, 11 t/s on battery", 11.0),
        ("runs 20 tokens/sec first, 9 after a few minutes", 9.0),
        ("GTX 1070, llama3.1 8b with num_ctx 32768, 6.5 tok/s", 6.5),
        ("Loading llama 3.1 8B, beach ball everywhere, 0.8 tok/s", 0.8),
        ("100 tokens in 200 s", 0.5),
        ("It takes 4 minutes for 120 tokens", 0.5),
        ("Reddit guy has 75 t/s, me 33", 33.0),
    ],
)
def test_current_speed_is_chosen(line, speed):
    assert told(line).subject.run.decode_tokens_per_s.need() == pytest.approx(speed)


def test_gain_is_not_a_comparison():
    assert not told("went from 8 tok/s to 90 tok/s. great!").subject.account.comparisons.value_or(())


@pytest.mark.parametrize(
    ("lines", "topic"),
    [
        (["layer 31.0 tok/s, row 9.6 tok/s"], Topic.SPLIT_MODE),
        (["1.95: 52 T/s , 1.96: 21 T/s"], Topic.VERSION),
        (["2.40 tokens/s with streaming", "37.93 tokens/s without streaming"], Topic.CLIENT),
        (["json schema turned on", "410 tok/s off, 190 tok/s on"], Topic.GRAMMAR),
        (["with grammar param 21 ms per token becomes 47 ms"], Topic.GRAMMAR),
        (["-t 16: 3.1 t/s", "-t 8: 7.9 t/s"], Topic.THREADS),
    ],
)
def test_difference_between_speeds_gives_its_topic(lines, topic):
    found = told(*lines).subject.account.comparisons.value_or(())
    assert any(topic in comparison.differs for comparison in found)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("Windows 11 RTX 4070", 1),
        ("Ubuntu 24 RTX 3090", 1),
        ("2x RTX 3090", 2),
        ("2x3090 inside", 2),
        ("dual RTX 3090", 2),
        ("Ryzen 7 7700, 64GB DDR5 6000", 0),
        ("server on port 4090", 0),
        ("localhost:8000", 0),
    ],
)
def test_gpus_are_counted(line, count):
    assert len(told(line).machine.gpus.value_or(())) == count


def test_unknown_names_are_kept_as_written():
    assert told("one L40S").machine.gpus.need()[0].name.need() == "L40S"
    assert told("Qwen2-7B is slow").subject.model.name.need() == "Qwen2-7B"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("since updating ollama from 0.12.3 to 0.12.6", "0.12.6"),
        ("llama.cpp Build b4000", "b4000"),
        ("llama-server on my card (build 3500)", "b3500"),
        ("b10586, ubuntu 24.04, llama-server", "b10586"),
    ],
)
def test_current_version_is_chosen(line, version):
    assert told(line).subject.runtime.version.need().replace("build ", "b") == version


def test_package_version_is_not_the_runtime_version():
    assert told("transformers with torch==2.4.0").subject.runtime.version.value_or("") == ""
