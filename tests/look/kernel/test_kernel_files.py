import pytest
from doubles import FakeSystem

from unslow.look.kernel import is_there, parse_numbers, parse_whole, read_number, read_word
from unslow.look.system import LookError


def test_numbers_and_words_are_stripped():
    system = FakeSystem(files={"/a": " 42\n", "/b": "-1\n", "/c": "schedutil\n"})
    assert read_number(system, "/a") == 42
    assert read_number(system, "/b") == -1
    assert read_word(system, "/c") == "schedutil"


@pytest.mark.parametrize("text", ["", "\n", "4x", "1.5", "٤٢", "9" * 5000])
def test_a_file_without_an_integer_is_a_look_error(text):
    with pytest.raises(LookError):
        read_number(FakeSystem(files={"/a": text}), "/a")


def test_integers_above_64_bits_are_rejected():
    assert parse_whole("9223372036854771712") == 9223372036854771712
    assert parse_whole("9" * 20) is None


def test_an_unreadable_file_does_not_exist():
    system = FakeSystem(files={"/there": "", "/locked": LookError("/locked: permission denied")})
    assert is_there(system, "/there")
    assert not is_there(system, "/locked")
    assert not is_there(system, "/gone")


def test_key_value_lines_are_parsed_and_others_skipped():
    text = "MemTotal:       24682416 kB\nActive(anon):  5 kB\nnr_periods 7\nbad\nworse: x\nhuge 99999999999999999999\n"
    assert parse_numbers(text) == {"MemTotal": 24682416, "Active(anon)": 5, "nr_periods": 7}
