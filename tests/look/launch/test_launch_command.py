"""A command line is split into words without a shell."""

import os

import pytest

from unslow.facts.errors import UserError
from unslow.look.launch.command import found_file, parse_command
from unslow.look.launch.server import parse_last_words


def test_variables_before_the_command_are_parsed():
    command = parse_command("CUDA_VISIBLE_DEVICES=0 A='b c' llama-server -m 'my model.gguf' \\\n -c 64")
    assert command.words == ("llama-server", "-m", "my model.gguf", "-c", "64")
    assert command.variables == {"CUDA_VISIBLE_DEVICES": "0", "A": "b c"}


def test_only_a_leading_tilde_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    words = parse_command("llama-server -m ~/m.gguf --log-file=~/l $(reboot) `x` $HOME *").words
    expected = ("-m", "/home/somebody/m.gguf", "--log-file=/home/somebody/l", "$(reboot)", "`x`", "$HOME", "*")
    assert words[1:] == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("A=1", ""),
        ("llama-server -m 'm", ""),
        ("llama-server -m m > log", "'>'"),
        ("llama-server -m m &", "'&'"),
        ("docker run ghcr.io/ggml-org/llama.cpp:server -m m", "docker"),
        ("ollama serve", "'ollama serve'"),
        pytest.param("x" * 40_000, "", id="endless"),
        ("llama-server \0", ""),
    ],
)
def test_a_command_with_shell_syntax_is_a_user_error(text, told, wording):
    with pytest.raises(UserError) as caught:
        parse_command(text)
    wording(caught.value.message, tells=told)
    assert caught.value.hint


def test_a_missing_or_not_executable_program_is_a_user_error(tmp_path):
    program = tmp_path / "llama-server"
    with pytest.raises(UserError, match="does not exist"):
        found_file(parse_command(f"{program} -m m"))
    program.write_text("#!/bin/sh\n")
    with pytest.raises(UserError, match="cannot be run"):
        found_file(parse_command(f"{program} -m m"))
    program.chmod(0o755)
    assert found_file(parse_command(f"{program} -m m")) == str(program)
    assert found_file(parse_command(f"PATH={tmp_path}{os.pathsep}/bin llama-server -m m")) == str(program)
    with pytest.raises(UserError, match="not on the PATH"):
        found_file(parse_command("PATH=/nowhere llama-server -m m"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.00.1 I fine\n0.00.4 E gguf_init: no magic\n0.00.5 E srv: exiting\nlast", "gguf_init: no magic"),
        ("Traceback\nValueError: no such model\nresource_tracker: leaked error\n", "ValueError: no such model"),
        ("one\n\ntwo\n\n", "two"),
        ("", "its log is empty"),
    ],
)
def test_the_failure_reason_is_the_first_error_or_the_last_line(text, words):
    assert parse_last_words(text) == words


def test_the_failure_reason_is_at_most_300_characters():
    assert len(parse_last_words("x" * 100_000)) == 300
