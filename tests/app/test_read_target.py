import pytest

from unslow.app.read_target import check_url, is_live, read_stored
from unslow.facts.errors import UserError


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://localhost:8080/v1", "http://localhost:8080"),
        ("https://host/prefix/v1/", "https://host/prefix"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("http://h:1234/api/v1", "http://h:1234"),
        ("http://h:8000/v1/chat/completions", "http://h:8000"),
        ("http://h:11434/api/generate", "http://h:11434"),
        ("http://h:8080/llm/props", "http://h:8080/llm"),
        ("http://h:8080/api", "http://h:8080/api"),
        ("http://h/upstream/model", "http://h/upstream/model"),
    ],
)
def test_the_base_of_a_url(url, base):
    assert check_url(url) == base


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://[", "http://x:99999", "://"])
def test_what_is_no_url(url):
    with pytest.raises(UserError) as caught:
        check_url(url)
    assert caught.value.hint


def test_what_runs_and_what_is_stored(tmp_path, monkeypatch):
    assert is_live(None)
    assert is_live("http://x")
    assert is_live("4242")
    assert not is_live(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "4242").write_text("")
    assert not is_live("4242")


def test_no_such_file(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_stored(str(tmp_path / "gone"))


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(UserError, match="holiday") as caught:
        read_stored(str(tmp_path))
    assert "--record" in caught.value.hint


def test_a_file_that_can_not_be_read():
    with pytest.raises(UserError):
        read_stored("/proc/self/mem")


@pytest.mark.parametrize("target", ["9" * 6000, "x" * 6000])
def test_a_target_of_thousands_of_letters_is_an_error_for_the_user(target):
    assert not is_live(target)
    with pytest.raises(UserError, match="too long"):
        read_stored(target)
