"""Where there is no browser: tests are skipped and say why, or fail where one must be there."""

import pytest
import real_browser


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("UNSLOW_CHROMIUM", raising=False)
    monkeypatch.delenv("UNSLOW_NEEDS_BROWSER", raising=False)


def test_it_is_skipped_with_the_reason():
    with pytest.raises(pytest.skip.Exception, match="there is no Chromium; UNSLOW_CHROMIUM names one"):
        real_browser.program("/nowhere/chrome")


def test_it_fails_where_a_browser_is_needed(monkeypatch):
    monkeypatch.setenv("UNSLOW_NEEDS_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no Chromium"):
        real_browser.program("/nowhere/chrome")


def test_the_one_that_is_named_comes_first_and_playwrights_own_last(monkeypatch, tmp_path):
    own = tmp_path / "chrome"
    own.touch()
    assert real_browser.program(str(own)) == str(own)
    monkeypatch.setenv("UNSLOW_CHROMIUM", "/somewhere/chrome")
    assert real_browser.program(str(own)) == "/somewhere/chrome"
