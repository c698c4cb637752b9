"""The cache of generated models: complete files only, a size limit, and no other program's files."""

import os
from pathlib import Path

import pytest

from unslow.facts.errors import UserError
from unslow.look.engine.made_up_models import ModelCache, default_cache
from unslow.look.stored import own_folder

TINY_BYTES = 1_200_000
HOME = Path("/home/someone")


def cache(folder: Path, cap: int = 10**9, free: int = 10**12) -> ModelCache:
    return ModelCache(folder / "models", cap, lambda _folder: free)


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "models").iterdir())


def test_a_cached_model_is_written_once(tmp_path):
    first = cache(tmp_path).model("tiny")
    written = first.stat()
    os.utime(first, (1, 1))
    again = cache(tmp_path).model("tiny")
    assert again == first
    assert again.name == "made-up-tiny-Q4_K_M-v1.gguf"
    assert again.stat().st_ino == written.st_ino
    assert again.stat().st_mtime > 1  # used now, so not the oldest


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"XXXX" + data[4:], lambda _data: b""])
def test_a_damaged_cached_model_is_written_again(tmp_path, damage):
    path = cache(tmp_path).model("tiny")
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert cache(tmp_path).model("tiny").read_bytes() == good


def test_an_interrupted_write_leaves_no_file(tmp_path):
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache(tmp_path).model("tiny", progress=interrupt)
    assert files(tmp_path) == []


def test_the_least_recently_used_models_are_evicted(tmp_path):
    names = ["Q8_0", "Q4_0", "Q5_0"]
    for age, quant in enumerate(names):
        os.utime(cache(tmp_path).model("tiny", quant), (age + 1, age + 1))
    cache(tmp_path, cap=2 * TINY_BYTES + 200_000).model("tiny", "Q4_1")
    assert files(tmp_path) == ["made-up-tiny-Q4_1-v1.gguf", "made-up-tiny-Q5_0-v1.gguf"]


def test_only_files_written_by_unslow_are_evicted(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "elsewhere.gguf").write_bytes(bytes(5_000_000))
    others = ["llama.gguf", "made-up-tiny-Q4_0-v1.gguf.bak", "notes-made-up-tiny-Q4_0-v1.gguf"]
    for name in others:
        (folder / name).write_bytes(bytes(5_000_000))
    (folder / "made-up-link-Q4_0-v1.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    (folder / "made-up-folder-Q4_0-v1.gguf").mkdir()
    cache(tmp_path, cap=2 * TINY_BYTES).model("tiny")
    left = files(tmp_path)
    assert set(others) < set(left)
    assert "made-up-link-Q4_0-v1.gguf" in left
    assert "made-up-folder-Q4_0-v1.gguf" in left
    assert (tmp_path / "elsewhere.gguf").exists()


def test_old_partial_files_are_removed_and_fresh_ones_kept(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    old, new = (folder / f"made-up-tiny-Q4_K_M-v1.gguf.{n}.part" for n in ("abc", "def"))
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (1, 1))
    cache(tmp_path).model("tiny")
    assert not old.exists()
    assert new.exists()  # another process may be writing it


def test_a_full_disk_is_reported_before_writing(tmp_path):
    with pytest.raises(UserError, match=r"has 0\.5 GB free") as caught:
        cache(tmp_path, free=500_000_000).model("tiny")
    assert "UNSLOW_CACHE_DIR" in caught.value.hint
    assert files(tmp_path) == []


def test_a_model_above_the_cache_limit_is_refused(tmp_path, wording):
    with pytest.raises(UserError) as caught:
        cache(tmp_path, cap=1000).model("tiny")
    wording(str(caught.value), tells="0.0 GB")


def test_an_unwritable_cache_folder_is_a_user_error(tmp_path):
    (tmp_path / "models").write_text("a file is in the way")
    with pytest.raises(UserError, match="can't write") as caught:
        cache(tmp_path).model("tiny")
    assert "UNSLOW_CACHE_DIR" in caught.value.hint


@pytest.mark.parametrize(("shape", "quant"), [("huge", ""), ("../tiny", ""), ("tiny", "Q9"), ("tiny", "IQ1_S")])
def test_an_unknown_shape_or_quant_is_a_user_error_that_lists_choices(tmp_path, shape, quant):
    with pytest.raises(UserError) as caught:
        cache(tmp_path).model(shape, quant)
    assert caught.value.hint.startswith("known ")


@pytest.mark.parametrize(
    ("environment", "platform", "folder"),
    [
        ({"UNSLOW_CACHE_DIR": "/big"}, "linux", "/big"),
        ({"UNSLOW_CACHE_DIR": "/big"}, "darwin", "/big"),
        ({"XDG_CACHE_HOME": "/xdg"}, "linux", "/xdg/unslow"),
        ({"XDG_CACHE_HOME": ""}, "linux", "/home/someone/.cache/unslow"),
        ({}, "linux", "/home/someone/.cache/unslow"),
        ({}, "darwin", "/home/someone/Library/Caches/unslow"),
        ({}, "win32", "/home/someone/AppData/Local/unslow/Cache"),
    ],
)
def test_cache_folder_per_platform_and_variable(environment, platform, folder):
    assert str(own_folder("CACHE", environment, platform, HOME)) == folder


def test_models_are_kept_below_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSLOW_CACHE_DIR", str(tmp_path))
    assert default_cache().folder == tmp_path / "models"
