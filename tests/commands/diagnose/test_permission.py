import pytest

from unslow.commands.diagnose.permission import caution, pushes_out, refusal, version_of
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, reported_fact


def runtime(name: str, **facts) -> Runtime:
    known = {"name": name, "url": "http://h", "state": "loaded"} | facts
    return Runtime().with_facts(**{k: v if isinstance(v, Unknown) else reported_fact(v, "x") for k, v in known.items()})


def test_busy_vllm_is_not_measured_actively(wording):
    busy = refusal(Subject(runtime=runtime("vLLM", running_requests=2)))
    assert busy
    wording(busy.why, tells="2")


def test_server_that_does_not_report_load_is_measured_with_a_caution():
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
def test_cached_conversation_is_evicted_only_where_the_runtime_keeps_it(known, allowed):
    assert (pushes_out(known) is None) is allowed


@pytest.mark.parametrize(("text", "numbers"), [("0.33.0", (0, 33, 0)), ("b9999-x", ()), ("", ()), ("1.9999999", ())])
def test_versions_are_parsed_into_numbers(text, numbers):
    assert version_of(runtime("x", version=text)) == numbers
