import pytest

from unslow.look.command_line import is_absolute_path, name_of_path


@pytest.mark.parametrize("path", ["/a", "C:\\a", "c:/a", "\\\\server\\share\\a"])
def test_absolute_paths_of_unix_and_windows_are_recognised(path: str):
    assert is_absolute_path(path)


@pytest.mark.parametrize("path", ["", "a/b", "C:a", "\\a", "models\\a.gguf"])
def test_relative_paths_are_not_absolute(path: str):
    assert not is_absolute_path(path)


@pytest.mark.parametrize("path", ["/x/a.gguf", "C:\\x\\a.gguf", "C:\\x/y/a.gguf", "a.gguf", "/x/a.gguf/"])
def test_the_name_of_a_path_is_its_last_part(path: str):
    assert name_of_path(path) == "a.gguf"
