"""Paths that are not models are refused with the reason."""

import os

import pytest
from doubles import FakeSystem

from unslow.commands.models.stored import is_path, missing_file, obstacle
from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def test_links_pipes_empty_files_and_lfs_pointers_are_named(tmp_path, wording):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling.gguf").symlink_to("nowhere")
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "pointer.gguf").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    said = {name: obstacle(SYSTEM, str(tmp_path / name)) for name in sorted(os.listdir(tmp_path))}
    assert said["empty.gguf"] == "is empty"
    wording(said["dangling.gguf"])
    wording(said["pointer.gguf"], tells="git lfs pull")
    wording(said["pipe"])
    assert "symbolic links" in said["loop"]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_devices_are_not_read(path, wording):
    wording(obstacle(SYSTEM, path))


@pytest.mark.parametrize("path", ["/", "//", "/proc", "/proc/self", "/sys", "/dev"])
def test_system_folders_are_too_large_to_search(path):
    assert "too large to search" in obstacle(SYSTEM, path)


def test_possible_models_have_no_obstacle(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert obstacle(SYSTEM, str(tmp_path / "x.gguf")) == ""
    assert obstacle(SYSTEM, str(tmp_path)) == ""
    assert obstacle(SYSTEM, str(tmp_path / "nothing")) == ""


def test_permission_denied_is_reported():
    denied = LookError("/x.gguf: permission denied", Absence.FAILED)
    assert obstacle(FakeSystem(files={"/x.gguf": denied}), "/x.gguf") == "permission denied"


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("/models", True),
        ("~/x", True),
        ("x.gguf", True),
        ("X.GGUF", True),
        ("a/b/c", True),
        ("C:\\models\\x", True),
        ("model.safetensors", True),
        ("qwen3:8b", False),
        ("unsloth/Qwen3-8B-GGUF:Q4_K_M", False),
        ("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", False),
        ("", False),
    ],
)
def test_names_and_paths_are_distinguished(word, path):
    assert is_path(word) is path


def test_missing_gguf_suggests_the_model_name_and_quant(wording):
    error = missing_file("models/Qwen3-8B-Q8_0.gguf")
    wording(error.message, tells="models/Qwen3-8B-Q8_0.gguf")
    wording(error.hint, tells=("Qwen3-8B", "--quant", "Q8_0"))
    assert "unslow models" in missing_file("x.gguf").hint
