"""The whole program against replayed servers: what a user sees."""

import pytest
from lab.replay import serve

from unslow.__main__ import main

KEY = "sk-unslow-test-0123456789"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("mode", ["escapes", "echo_key"])
def test_server_text_cannot_control_the_terminal_or_reveal_the_key(mode, capsys):
    with serve("lm_studio", fail=mode, api_key=KEY) as url:
        assert main(["diagnose", url, "--api-key", KEY, "--passive"]) == 3
    shown = "".join(capsys.readouterr())
    assert "LM Studio" in shown
    assert KEY not in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


def test_a_useless_server_gives_one_line_and_a_hint(capsys):
    with serve("lm_studio", fail="rubbish") as url:
        assert main(["diagnose", url, "--passive"]) == 2
    shown = capsys.readouterr().err
    assert "hint:" in shown
    assert "Traceback" not in shown
