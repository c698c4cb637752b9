"""Bars, charts and plain lines made of characters."""

import io
from types import SimpleNamespace

import pytest
from watched_ticks import decoding

from unslow.live.command import PlainLines, moment_text
from unslow.live.panels import io_words, speed_rows, suspicion_words, wall_rows
from unslow.live.rows import ASCII, BLOCKS, chart, gauge, stack_parts, wrap_words
from unslow.live.tick import HostNow, RequestsNow, ServerNow, SpeedNow, Suspicion, Tick, Wall, WallPart
from unslow.page.view import Missing


def test_sparkline_shows_any_speed_and_blanks_for_none():
    assert chart([None, 0.0, 0.001, 4.0, 8.0], 8.0, 10, 1, BLOCKS)[0] == "  ▁▄█"
    assert chart([8.0] * 20, 8.0, 5, 1, ASCII)[0] == "@@@@@"


def test_chart_of_two_rows():
    assert chart([1.0, 2.0], 2.0, 5, 2, BLOCKS) == [" █", "██"]


def test_gauge_shows_current_expected_and_end():
    assert gauge(2.0, 4.0, 6.0, 10.0, 11, ASCII) == "##--==----|"
    assert gauge(99.0, 4.0, 6.0, 10.0, 11, ASCII) == "##########|"


def test_stacked_bar_has_exact_width_and_shows_small_parts():
    bar = stack_parts([("weights", 97.0), ("kv", 0.1), ("stranger", 1.0), ("free", 1.9)], 20, ASCII)
    assert sum(len(stretch) for _, stretch in bar) == 20
    assert "K" in "".join(stretch for _, stretch in bar)


def test_wrapped_text_beyond_the_limit_ends_in_dots():
    assert wrap_words("one two three four", 8, 2) == ["one two", "thre ..."]


def test_plain_lines_repeat_only_the_numbers(wording):
    plain = PlainLines()
    first = plain.lines(decoding())
    wording(first, tells="Qwen3 8B Q4_K_M")
    (second,) = plain.lines(decoding(90.0))
    wording(second, tells=("10:20:30 decode", "90.0 tok/s", "45.0", "2 running", "1 waiting", "61%"))
    assert second.isascii()
    changed = plain.lines(decoding(suspicion=Suspicion(kind="nothing", title="nothing stands out")))
    wording(changed[0])


def test_plain_lines_report_a_gone_and_a_silent_server():
    plain = PlainLines()
    plain.lines(decoding())
    gone = plain.lines(decoding(server=ServerNow(state="gone", model="Qwen3 8B Q4_K_M"), notes=("a note",)))
    assert "a note" in gone
    assert gone[-1] == "10:20:30 gone"
    silent = ServerNow(state="silent", because="a reason")
    assert silent.because in plain.lines(decoding(server=silent))


def test_plain_lines_without_a_server_or_speed(wording):
    plain = PlainLines()
    wording(plain.lines(Tick()))
    assert plain.lines(Tick()) == []
    missing = SpeedNow(missing=Missing(why="it hides its slots", how_to_get="drop --no-slots"))
    wording(plain.lines(decoding(speed=missing)), tells="--no-slots")


def test_moment_text_has_every_panel():
    text = moment_text(decoding(), ASCII)
    assert text.isascii()
    for label in ("Speed", "Time", "Cause", "Phases", "Requests", "Devices", "Memory", "Host"):
        assert f"\n{label} " in text


def test_swap_traffic_is_shown_in_numbers(wording):
    host = HostNow(swap_in_bytes_per_s=5e6, swap_out_bytes_per_s=2e6, disk_read_bytes_per_s=9e8)
    wording(io_words(host), tells="900")


def test_suspicion_without_a_speedup_shows_its_cost(wording):
    from unslow.think.report import Cost

    found = Suspicion(kind="suspected", title="T", cost=Cost(seconds=0.5, per="request"), more=2)
    wording(suspicion_words(found), tells="500 ms")


def test_speed_colour_compares_a_single_request_with_the_expectation():
    def style(**changes: object) -> str:
        first = speed_rows(decoding(**changes), (), 80, BLOCKS)[0]
        return first.text.spans[0].style

    alone = RequestsNow(running=1)
    assert style(rate=90.0, requests=alone) == "bold red", "45, where one should get 60 at least"
    assert style(rate=180.0, requests=alone) == "bold green"
    assert style(rate=90.0) == "bold", "two share a step, which says nothing against either"


def test_unexplained_time_is_named(wording):
    parts = (WallPart(part="unexplained", seconds=0.035, share=0.99),)
    (row,) = wall_rows(decoding(wall=Wall(phase="decode", per="token", parts=parts, measured=True)), 80)
    wording(row.text.plain, tells=("99%", "35 ms"))


@pytest.mark.parametrize("encoding", ["latin-1", None, "no such"])
def test_terminal_without_utf8_gets_ascii_glyphs(monkeypatch, encoding):
    from unslow.live import command

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(command.sys, stream, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert command.glyphs_for(ascii_only=False) is BLOCKS
    stdout = SimpleNamespace(encoding=encoding, isatty=lambda: False)
    monkeypatch.setattr(command.sys, "stdout", stdout)
    assert command.glyphs_for(ascii_only=False) is ASCII
    assert not command.is_terminal()


@pytest.mark.parametrize(("language", "glyphs"), [("C", ASCII), ("POSIX", ASCII), ("C.UTF-8", BLOCKS), ("", BLOCKS)])
def test_c_and_posix_locales_get_ascii_glyphs(monkeypatch, language, glyphs):
    from unslow.live import command

    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(command.sys, stream, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.delenv("LANG", raising=False)
    assert command.glyphs_for(ascii_only=False) is glyphs
