import pytest

from unslow.look.command_line import is_absolute_path, name_of_path


@pytest.mark.parametrize("path", ["/a", "C:\\a", "c:/a", "\\\\server\\share\\a"])
def test_absolute_on_any_system(path: str):
    assert is_absolute_path(path)


@pytest.mark.parametrize("path", ["", "a/b", "C:a", "\\a", "models\\a.gguf"])
def test_others_are_not(path: str):
    assert not is_absolute_path(path)


@pytest.mark.parametrize("path", ["/x/a.gguf", "C:\\x\\a.gguf", "C:\\x/y/a.gguf", "a.gguf", "/x/a.gguf/"])
def test_the_name_is_the_last_part(path: str):
    assert name_of_path(path) == "a.gguf"
