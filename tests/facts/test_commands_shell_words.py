"""Command lines quoted for each kind of shell."""

import shlex

import pytest

from unslow.facts.commands import powershell_word, shell_joined, shell_quoted

FILE = r"C:\Program Files\llama\llama-server.exe"


def test_unix_words_are_quoted_like_shlex():
    assert shell_joined(["llama-server", "-m", "my model.gguf"]) == shlex.join(["llama-server", "-m", "my model.gguf"])
    assert shell_quoted(r"C:\m.gguf") == shlex.quote(r"C:\m.gguf")


def test_plain_windows_paths_are_not_quoted():
    assert shell_joined([r"C:\llama\llama-server.exe", "-m", r"D:\m.gguf"], "Windows") == (
        r"C:\llama\llama-server.exe -m D:\m.gguf"
    )


def test_a_quoted_program_gets_the_powershell_call_operator():
    assert shell_joined([FILE, "-ngl", "99"], "Windows") == f'& "{FILE}" -ngl 99'


@pytest.mark.parametrize(("word", "said"), [("a b", "'a b'"), ("it's", "'it''s'"), ("$x", "'$x'"), ("a", "a")])
def test_powershell_words_are_quoted_literally(word: str, said: str):
    assert powershell_word(word) == said


def test_a_word_with_double_quotes_uses_powershell_quoting():
    assert shell_quoted('{"a": 1}', "Windows") == """'{"a": 1}'"""
