"""Paths that are no models are told for what they are."""

import os

import pytest
from doubles import FakeSystem

from unslow.commands.models.stored import is_path, missing_file, obstacle
from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def test_what_stands_in_the_way(tmp_path, wording):
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
def test_folders_of_everything_are_not_walked(path):
    assert "too wide" in obstacle(SYSTEM, path)


def test_what_may_be_a_model_has_no_obstacle(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    assert obstacle(SYSTEM, str(tmp_path / "x.gguf")) == ""
    assert obstacle(SYSTEM, str(tmp_path)) == ""
    assert obstacle(SYSTEM, str(tmp_path / "nothing")) == ""


def test_a_file_of_somebody_else_is_named_so():
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
def test_names_and_paths_are_told_apart(word, path):
    assert is_path(word) is path


def test_a_file_that_is_not_there_may_be_asked_for_by_name(wording):
    error = missing_file("models/Qwen3-8B-Q8_0.gguf")
    wording(error.message, tells="models/Qwen3-8B-Q8_0.gguf")
    wording(error.hint, tells=("Qwen3-8B", "--quant", "Q8_0"))
    assert "unslow models" in missing_file("x.gguf").hint
