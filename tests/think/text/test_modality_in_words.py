"""Questions, rumours and guesses are not observations; remarks about other machines are not about this one."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.lines import is_claimed
from unslow.think.text.prose import read_words


def topics(*lines):
    remarks = read_words(lines, "report").subject.account.remarks
    return {remark.topic for remark in remarks.value_or(()) if not remark.denied}


@pytest.mark.parametrize(
    "line",
    [
        "Is it thermal throttling?",
        "I heard it thermal throttles.",
        "maybe the GPU thermal throttles",
        "Supposedly this card thermal throttles a lot.",
        "My web scraper throttles requests to 10 per second",
        "Cook it at low heat. Temperature 90 C.",
    ],
)
def test_questions_and_guesses_are_not_observations(line):
    assert Topic.THROTTLED not in topics(line)


@pytest.mark.parametrize("line", ["the GPU is thermal throttling", "Why is my GPU throttling at 95 C?"])
def test_stated_observations_count(line):
    assert Topic.THROTTLED in topics(line)


def test_guess_does_not_extend_to_the_next_sentence():
    text = "maybe it is the driver. the gpu is not used"
    assert is_claimed(text, text.index("the gpu"))
    assert not is_claimed(text, text.index("the driver"))


def test_going_back_helps_needs_a_version():
    assert Topic.GOING_BACK_HELPS not in topics("I went back to school and now it works")
    assert Topic.GOING_BACK_HELPS in topics("went back to the old build and it is fast again")


def test_prompt_again_needs_processing():
    assert Topic.PROMPT_AGAIN not in topics("I saw the full prompt each time in the log, takes a while")
    assert Topic.PROMPT_AGAIN in topics("it processes the entire prompt on every turn")


def test_numbers_of_other_machines_are_ignored():
    told = read_words(["readme: 8 tokens/s with 32 cores", "this box has 16 cores"], "report")
    assert told.machine.cpu.physical_cores.need() == 16
    told = read_words(["my friend has 32 cores", "this box has 16 cores"], "report")
    assert told.machine.cpu.physical_cores.need() == 16


def test_settings_after_than_belong_to_the_other_side():
    assert not read_words(["worse than -ngl 0"], "report").subject.runtime.placement.gpu_layers_set.value_or(0)
