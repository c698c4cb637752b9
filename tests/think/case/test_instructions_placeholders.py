import pytest

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported, told
from unslow.think.case.instructions import fill_placeholders

KNOWN = Case(
    runtime=Runtime(
        url=reported("http://10.0.0.2:9000", "x"),
        command=reported(["/opt/llama-server", "-m", "C:\\models\\a b.gguf", "-c", "8192"], "x"),
    ),
    model=Model(name=reported("qwen3:8b", "x")),
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
def test_what_is_known_takes_the_place_of_a_word_for_it(line, shown):
    assert fill_placeholders(line, KNOWN) == shown
    assert fill_placeholders(line, Case()) == line


@pytest.mark.parametrize("name", [told("Llama 3", "x"), told("llama3", "x"), reported("$(rm -rf ~)", "x")])
def test_a_name_that_no_program_printed_or_that_a_shell_would_run_is_left_out(name):
    assert fill_placeholders("ollama run MODEL", Case(model=Model(name=name))) == "ollama run MODEL"
    bench = Case(runtime=Runtime(command=reported(["llama-bench", "-m", "x"], "x")))
    assert fill_placeholders("llama-server ARGUMENTS_AS_BEFORE", bench) == "llama-server ARGUMENTS_AS_BEFORE"
