import pytest

from unslow.facts.account import Topic
from unslow.think.text.prose import read_words


def told(*lines: str) -> tuple[str, str, str, str]:
    subject = read_words(lines, "r").subject
    facts = (subject.runtime.name, subject.runtime.version, subject.account.version_before)
    return (*(fact.value_or("") for fact in facts), subject.account.version_since.value_or(""))


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("Ollama: 0.6.2", "Ollama", "0.6.2"),
        ("ollama version is 0.6.2", "Ollama", "0.6.2"),
        ("llama.cpp b5432 from the release page", "llama.cpp", "b5432"),
        ("I run llama-server", "llama.cpp", ""),
        ("vLLM 0.8.5.post1 in Docker", "vLLM", "0.8.5.post1"),
        ("LM Studio 0.3.15", "LM Studio", "0.3.15"),
        ("text-generation-webui with exllamav2", "text-generation-webui", ""),
        ("KoboldCpp 1.93", "KoboldCpp", "1.93"),
        ("nothing of that kind", "", ""),
    ],
)
def test_runtime_and_version_are_found_in_prose(line, name, version):
    assert told(line)[:2] == (name, version)


def test_label_wins_over_mentions():
    assert told("With vLLM it is fast.", "Runtime: ollama 0.5.7")[:2] == ("Ollama", "0.5.7")


@pytest.mark.parametrize(
    ("line", "before", "since"),
    [
        ("I upgraded from 0.5.7 to 0.5.8", "0.5.7", "0.5.8"),
        ("0.5.8 vs 0.5.7", "0.5.7", "0.5.8"),
        ("works fine in b4500, slow since b4600", "b4500", "b4600"),
        ("after updating to 0.5.8 it is slow", "", "0.5.8"),
        ("downgrading to 0.11.4 fixes it", "0.11.4", ""),
        ("0.11.4 works fine", "0.11.4", ""),
        ("b4600 and later are affected", "", "b4600"),
        ("CUDA 12.4 is installed", "", ""),
        ("it got slow since yesterday", "", ""),
        ("9 tok/s to 12 tok/s", "", ""),
    ],
)
def test_last_good_and_first_slow_version_are_found(line, before, since):
    assert told(line)[2:] == (before, since)


def test_versions_are_compared_numerically():
    assert told("0.10.0 -> 0.9.6 makes it fast again")[2:] == ("0.9.6", "0.10.0")


@pytest.mark.parametrize(
    ("line", "before", "since"),
    [
        ("0.3.28 much slower than 0.3.26", "0.3.26", "0.3.28"),
        ("0.4.2 generates at half the speed of 0.3.14", "0.3.14", "0.4.2"),
        ("b3600 is faster than b3650", "b3600", "b3650"),
        ("0.3.28 is slow, 0.3.26 was normal", "0.3.26", "0.3.28"),
        ("version 1.52.0 is slow", "", "1.52.0"),
        ("slower than 1.43", "1.43", ""),
        ("12.5 t/s, slower than 1.5x of before", "", ""),
    ],
)
def test_compared_versions_give_before_and_since(line, before, since):
    assert told(line)[2:] == (before, since)


def test_speeds_labelled_with_versions_give_before_and_since():
    account = read_words(["runtime 1.7.0: 106.99 tok/s", "runtime 1.8.1: 73.35 tok/s"], "r").subject.account
    assert (account.version_before.need(), account.version_since.need()) == ("1.7.0", "1.8.1")
    assert account.comparisons.need()[0].differs == (Topic.VERSION,)
