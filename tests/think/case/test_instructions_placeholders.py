import pytest

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact, told_fact
from unslow.think.case.view import CaseView

KNOWN = Case(
    runtime=Runtime().with_facts(
        url=reported_fact("http://10.0.0.2:9000", "x"),
        command=reported_fact(["/opt/llama-server", "-m", "C:\\models\\a b.gguf", "-c", "8192"], "x"),
    ),
    model=Model(name=reported_fact("qwen3:8b", "x")),
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("ollama run MODEL --verbose", "ollama run qwen3:8b --verbose"),
        ("ollama pull NAME:TAG", "ollama pull qwen3:TAG"),
        ("curl http://127.0.0.1:8000/metrics", "curl http://10.0.0.2:9000/metrics"),
        ("llama-bench -m MODEL.gguf", "llama-bench -m 'C:\\models\\a b.gguf'"),
        ("llama-server ARGUMENTS_AS_BEFORE -lv 4", "/opt/llama-server -m 'C:\\models\\a b.gguf' -c 8192 -lv 4"),
        ("docker logs CONTAINER", "docker logs CONTAINER"),
    ],
)
def test_known_facts_replace_placeholders(line, shown):
    assert CaseView(KNOWN).system.fill_placeholders(line) == shown
    assert CaseView(Case()).system.fill_placeholders(line) == line


@pytest.mark.parametrize(
    "name", [told_fact("Llama 3", "x"), told_fact("llama3", "x"), reported_fact("$(rm -rf ~)", "x")]
)
def test_untrusted_names_are_not_filled_in(name):
    assert CaseView(Case(model=Model(name=name))).system.fill_placeholders("ollama run MODEL") == "ollama run MODEL"
    bench = Case(runtime=Runtime().with_facts(command=reported_fact(["llama-bench", "-m", "x"], "x")))
    assert (
        CaseView(bench).system.fill_placeholders("llama-server ARGUMENTS_AS_BEFORE")
        == "llama-server ARGUMENTS_AS_BEFORE"
    )
