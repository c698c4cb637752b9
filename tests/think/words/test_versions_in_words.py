import pytest

from unslow.think.words import read_words


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
def test_the_runtime(line, name, version):
    assert told(line)[:2] == (name, version)


def test_a_label_goes_before_what_is_said_in_passing():
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
def test_the_border_between_well_and_slow(line, before, since):
    assert told(line)[2:] == (before, since)


def test_ten_is_after_nine():
    assert told("0.10.0 -> 0.9.6 makes it fast again")[2:] == ("0.9.6", "0.10.0")
