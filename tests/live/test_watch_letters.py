"""Bars and lines out of letters, and the same in words."""

import io

import pytest
from watched_ticks import decoding

from unslow.live.command import PlainLines, whole_moment
from unslow.live.panels import io_words, speed_rows, suspicion_words, wall_rows
from unslow.live.rows import ASCII, BLOCKS, chart, gauge, is_unicode, stacked, wrapped
from unslow.live.tick import HostNow, RequestsNow, ServerNow, SpeedNow, Suspicion, Tick, Wall, WallPart
from unslow.page.view import Missing


def test_a_sparkline_shows_any_speed_and_blanks_for_none():
    assert chart([None, 0.0, 0.001, 4.0, 8.0], 8.0, 10, 1, BLOCKS)[0] == "  ▁▄█"
    assert chart([8.0] * 20, 8.0, 5, 1, ASCII)[0] == "@@@@@"


def test_a_chart_of_two_rows():
    assert chart([1.0, 2.0], 2.0, 5, 2, BLOCKS) == [" █", "██"]


def test_a_gauge_shows_now_what_was_expected_and_the_end():
    assert gauge(2.0, 4.0, 6.0, 10.0, 11, ASCII) == "##--==----|"
    assert gauge(99.0, 4.0, 6.0, 10.0, 11, ASCII) == "##########|"


def test_a_stacked_bar_is_exact_and_hides_nobody():
    bar = stacked([("weights", 97.0), ("kv", 0.1), ("stranger", 1.0), ("free", 1.9)], 20, ASCII)
    assert sum(len(stretch) for _, stretch in bar) == 20
    assert "K" in "".join(stretch for _, stretch in bar)


def test_which_encodings_have_blocks():
    assert is_unicode("utf-8")
    assert not any(map(is_unicode, ("latin-1", None, "no such")))


def test_long_words_are_cut_with_dots():
    assert wrapped("one two three four", 8, 2) == ["one two", "thre ..."]


def test_plain_lines_say_what_is_new_and_numbers_each_time(wording):
    plain = PlainLines()
    first = plain.lines(decoding())
    wording(first, tells="Qwen3 8B Q4_K_M")
    (second,) = plain.lines(decoding(90.0))
    wording(second, tells=("10:20:30 decode", "90.0 tok/s", "45.0", "2 running", "1 waiting", "61%"))
    assert second.isascii()
    changed = plain.lines(decoding(suspicion=Suspicion(kind="nothing", title="nothing stands out")))
    wording(changed[0])


def test_plain_lines_of_a_server_that_goes_and_comes():
    plain = PlainLines()
    plain.lines(decoding())
    gone = plain.lines(decoding(server=ServerNow(state="gone", model="Qwen3 8B Q4_K_M"), notes=("a note",)))
    assert "a note" in gone
    assert gone[-1] == "10:20:30 gone"
    silent = ServerNow(state="silent", because="a reason")
    assert silent.because in plain.lines(decoding(server=silent))


def test_plain_lines_without_a_server_and_without_a_speed(wording):
    plain = PlainLines()
    wording(plain.lines(Tick()))
    assert plain.lines(Tick()) == []
    missing = SpeedNow(missing=Missing(why="it hides its slots", how_to_get="drop --no-slots"))
    wording(plain.lines(decoding(speed=missing)), tells="--no-slots")


def test_one_moment_as_a_whole():
    text = whole_moment(decoding(), ASCII)
    assert text.isascii()
    for label in ("Speed", "Wall", "Suspicion", "Phases", "Requests", "Devices", "Memory", "Host"):
        assert f"\n{label} " in text


def test_swapping_is_told_in_numbers(wording):
    host = HostNow(swap_in_bytes_per_s=5e6, swap_out_bytes_per_s=2e6, disk_read_bytes_per_s=9e8)
    wording(io_words(host), tells="900")


def test_what_a_suspicion_costs_where_no_speed_up_is_known(wording):
    from unslow.think.report import Cost

    found = Suspicion(kind="suspected", title="T", cost=Cost(seconds=0.5, per="request"), more=2)
    wording(suspicion_words(found), tells="500 ms")


def test_a_speed_has_the_colour_of_what_was_expected_of_one():
    def style(**changes: object) -> str:
        first = speed_rows(decoding(**changes), (), 80, BLOCKS)[0]
        return first.text.spans[0].style

    alone = RequestsNow(running=1)
    assert style(rate=90.0, requests=alone) == "bold red", "45, where one should get 60 at least"
    assert style(rate=180.0, requests=alone) == "bold green"
    assert style(rate=90.0) == "bold", "two share a step, which says nothing against either"


def test_a_wall_that_nothing_explains_says_so(wording):
    parts = (WallPart(part="unexplained", seconds=0.035, share=0.99),)
    (row,) = wall_rows(decoding(wall=Wall(phase="decode", per="token", parts=parts, measured=True)), 80)
    wording(row.text.plain, tells=("99%", "35 ms"))


def test_the_glyphs_of_a_terminal_without_utf8(monkeypatch):
    from unslow.live import command

    monkeypatch.setattr(command.sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert command.glyphs_for(ascii_only=False) is ASCII
    assert not command.is_terminal()


@pytest.mark.parametrize(("language", "glyphs"), [("C", ASCII), ("POSIX", ASCII), ("C.UTF-8", BLOCKS), ("", BLOCKS)])
def test_a_language_without_letters_beyond_ascii(monkeypatch, language, glyphs):
    from unslow.live import command

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(command.sys, stream, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.delenv("LANG", raising=False)
    assert command.glyphs_for(ascii_only=False) is glyphs
