import pytest

from unslow.commands.diagnose.target import as_url, check_url, is_live, read_stored
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
def test_api_paths_are_removed_from_a_url(url, base):
    assert check_url(url) == base


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://[", "http://x:99999", "://"])
def test_invalid_urls_are_refused(url):
    with pytest.raises(UserError) as caught:
        check_url(url)
    assert caught.value.hint


def test_urls_and_pids_are_live_targets_and_files_are_not(tmp_path, monkeypatch):
    assert is_live(None)
    assert is_live("http://x")
    assert is_live("4242")
    assert not is_live(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "4242").write_text("")
    assert not is_live("4242")


def test_missing_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_stored(str(tmp_path / "gone"))


def test_folder_without_a_recording_is_refused(tmp_path):
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(UserError, match="holiday") as caught:
        read_stored(str(tmp_path))
    assert "--record" in caught.value.hint


def test_unreadable_file_is_a_user_error():
    with pytest.raises(UserError):
        read_stored("/proc/self/mem")


@pytest.mark.parametrize("target", ["9" * 6000, "x" * 6000])
def test_very_long_target_is_a_user_error(target):
    assert not is_live(target)
    with pytest.raises(UserError, match="too long"):
        read_stored(target)


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("gpu-box.lan:8080/v1", "http://gpu-box.lan:8080/v1"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("bob:secret@box:8080", "http://bob:secret@box:8080"),
        ("https://box", "https://box"),
    ],
)
def test_address_without_a_scheme_becomes_http(word, url):
    assert as_url(word) == url
    assert is_live(word)


@pytest.mark.parametrize("word", ["qwen3:8b", "seen.json", "C:\\x", "a b:80", "folder/x:80", "8080"])
def test_other_words_are_not_addresses(word):
    assert as_url(word) is None


def test_existing_file_wins_over_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "box:8080").write_text("{}")
    assert not is_live("box:8080")
