import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.look.logs.stream import clean_line, in_utf8


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"plain", "plain"),
        (b"\x1b[32mgreen\x1b[0m and \x1b[1;38;5;196mred\x1b[m", "green and red"),
        (b"\x1b]0;a title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"bell\x07 back\x08 null\x00 delete\x7f", "bell back null delete"),
        (b"bad \xff\xfe utf-8", "bad \ufffd\ufffd utf-8"),
        ("naïve Ünïcode".encode(), "naïve Ünïcode"),
        ("\ufeffmark, \u202edirection".encode(), "mark, direction"),
        (b"tab\tstays  \r", "tab\tstays"),
        (b"\x1b(Bplain\x1b=", "plain"),
        (b"\x9b31mC1", "\ufffd31mC1"),
        (b"cut off \x1b[3", "cut off 3"),
    ],
)
def test_escape_sequences_and_control_characters_are_removed(raw: bytes, clean: str):
    assert clean_line(raw) == clean


@given(st.binary(max_size=300))
def test_no_control_character_survives_cleaning(raw: bytes):
    assert not any(ord(c) < 32 and c not in "\t\n" for c in clean_line(raw.replace(b"\n", b"")))
    assert "\x1b" not in clean_line(raw)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize("size", [1, 3, 1000, 10_000])
def test_utf_16_and_utf_8_logs_are_decoded_in_any_chunking(encoding: str, size: int):
    text = "load_tensors: offloaded 20/33 layers to GPU, größer\n" * 50
    data = text.encode(encoding)
    read = b"".join(in_utf8(data[at : at + size] for at in range(0, len(data), size)))
    assert read.decode("utf-8-sig") == text


def test_half_a_character_at_the_end_is_replaced():
    assert b"".join(in_utf8([b"\xff\xfeo\x00k\x00\x41"])).decode().lstrip("\ufeff") == "ok\ufffd"


def test_an_empty_stream_decodes_to_nothing():
    assert b"".join(in_utf8([])) == b""


def test_long_runs_of_blanks_are_cut_to_200():
    assert clean_line(b"setx AAAA" + b" " * 7900 + b'"') == "setx AAAA" + " " * 200 + '"'
    assert clean_line(b"a" + b" " * 200 + b"b") == "a" + " " * 200 + "b"
