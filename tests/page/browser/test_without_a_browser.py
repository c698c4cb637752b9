"""Where there is no browser: tests are skipped and say why, or fail where one must be there."""

import pytest
import real_browser


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("UNSLOW_CHROMIUM", raising=False)
    monkeypatch.delenv("UNSLOW_NEEDS_BROWSER", raising=False)


def test_missing_browser_skips_with_a_reason():
    with pytest.raises(pytest.skip.Exception, match="there is no Chromium; UNSLOW_CHROMIUM names one"):
        real_browser.program("/nowhere/chrome")


def test_missing_browser_fails_if_one_is_required(monkeypatch):
    monkeypatch.setenv("UNSLOW_NEEDS_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="there is no Chromium"):
        real_browser.program("/nowhere/chrome")


def test_named_browser_comes_before_the_system_and_playwrights(monkeypatch, tmp_path):
    own = tmp_path / "chrome"
    own.touch()
    assert real_browser.program(str(own)) == str(own)
    monkeypatch.setenv("UNSLOW_CHROMIUM", "/somewhere/chrome")
    assert real_browser.program(str(own)) == "/somewhere/chrome"
