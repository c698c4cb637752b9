"""One line of words, for each kind of shell."""

import shlex

import pytest

from unslow.facts.commands import powershell_word, shell_joined, shell_quoted

FILE = r"C:\Program Files\llama\llama-server.exe"


def test_a_shell_of_unix_gets_its_own_quotes():
    assert shell_joined(["llama-server", "-m", "my model.gguf"]) == shlex.join(["llama-server", "-m", "my model.gguf"])
    assert shell_quoted(r"C:\m.gguf") == shlex.quote(r"C:\m.gguf")


def test_paths_of_windows_stay_as_they_are_where_no_shell_minds_them():
    assert shell_joined([r"C:\llama\llama-server.exe", "-m", r"D:\m.gguf"], "Windows") == (
        r"C:\llama\llama-server.exe -m D:\m.gguf"
    )


def test_a_program_in_quotes_is_called():
    assert shell_joined([FILE, "-ngl", "99"], "Windows") == f'& "{FILE}" -ngl 99'


@pytest.mark.parametrize(("word", "said"), [("a b", "'a b'"), ("it's", "'it''s'"), ("$x", "'$x'"), ("a", "a")])
def test_powershell_takes_it_literally(word: str, said: str):
    assert powershell_word(word) == said


def test_a_word_with_double_quotes_is_left_to_powershell():
    assert shell_quoted('{"a": 1}', "Windows") == """'{"a": 1}'"""
