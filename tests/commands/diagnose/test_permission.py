import pytest

from unslow.commands.diagnose.permission import caution, pushes_out, refusal, version_of
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, reported


def runtime(name: str, **facts) -> Runtime:
    known = {"name": name, "url": "http://h", "state": "loaded"} | facts
    return Runtime(**{k: v if isinstance(v, Unknown) else reported(v, "x") for k, v in known.items()})


def test_a_busy_vllm_is_only_observed(wording):
    busy = refusal(Subject(runtime=runtime("vLLM", running_requests=2)))
    assert busy
    wording(busy.why, tells="2")


def test_a_server_that_can_not_say_whether_it_is_busy_is_measured_with_a_word_of_care():
    silent = runtime("LM Studio", busy_slots=Unknown("not told"))
    assert refusal(Subject(runtime=silent)) is None
    assert "busy" in caution(silent)
    assert caution(runtime("vLLM", running_requests=0)) == ""


@pytest.mark.parametrize(
    ("known", "allowed"),
    [
        (runtime("vLLM"), True),
        (runtime("llama.cpp"), True),  # its slots tell
        (runtime("Ollama", version="0.33.0"), True),
        (runtime("Ollama", version="0.33.0-rc2"), True),
        (runtime("Ollama", version="0.12.6"), False),
        (runtime("Ollama"), False),
        (runtime("LM Studio"), False),
        (runtime("LM Studio", longest_sequence=0), True),
        (runtime("LM Studio", longest_sequence=900), False),
    ],
)
def test_a_conversation_is_not_pushed_out_unasked(known, allowed):
    assert (pushes_out(known) is None) is allowed


@pytest.mark.parametrize(("text", "numbers"), [("0.33.0", (0, 33, 0)), ("b9999-x", ()), ("", ()), ("1.9999999", ())])
def test_versions(text, numbers):
    assert version_of(runtime("x", version=text)) == numbers
