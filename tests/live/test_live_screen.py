"""The live screen in Textual's test terminal, at several sizes and with its keys."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from docs._build.watch_picture import Replayed, svg
from watched_ticks import SERVER, decoding

from unslow.live.rows import ASCII, BLOCKS, Glyphs
from unslow.live.screen import LiveScreen
from unslow.live.tick import PhasesNow, ServerNow, SpeedNow, Tick
from unslow.page.view import Missing

HOUR_S = 3600.0
"""No tick comes by itself: the tests ask for each."""


def shown(
    source: Replayed,
    act: Callable[[LiveScreen, object], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    glyphs: Glyphs = BLOCKS,
) -> LiveScreen:
    """The screen after the action."""
    screen = LiveScreen(source, glyphs, interval_s=HOUR_S)

    async def run() -> None:
        async with screen.run_test(size=size) as pilot:
            await act(screen, pilot)
            await pilot.pause()

    asyncio.run(run())
    return screen


async def nothing(_screen: LiveScreen, _pilot: object) -> None:
    """Only look."""


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 60), (20, 5), (60, 1)])
@pytest.mark.parametrize("glyphs", [BLOCKS, ASCII])
def test_screen_fills_every_terminal_size_exactly(size, glyphs):
    lines = shown(Replayed([decoding()]), nothing, size, glyphs).text.split("\n")
    assert len(lines) == size[1]
    assert max(map(len, lines)) <= size[0]
    assert glyphs is BLOCKS or "".join(lines).isascii()


def test_80_by_24_shows_all_panels():
    text = shown(Replayed([decoding()]), nothing).text
    for words in (
        "96.4 tok/s (48.2 each)", "expected 60.0 to 100 tok/s per request, ceiling 120",
        "device memory reads, 61% of the 10 ms per token",
        "decode; last minute: decode 62%, idle 33%, prefill 5%, queued 10%", "2 running, 1 waiting",
        "held back by its power limit; 1.3x as fast without it", "throttled: sw power cap",
        "busy 97%, 2.52 GHz, 412 of 450 W, 71 °C, VRAM 8.0 of", "game 1.0 GiB",
        "2.1 of 16 CPUs busy (server 1.0, others 1.1)", "sends no prompts", "q quit",
    ):  # fmt: skip
        assert words in text


def test_small_terminal_keeps_the_most_important_rows():
    text = shown(Replayed([decoding()]), nothing, (40, 12)).text
    for words in ("96.4 tok/s", "expected 60.0 to 100", "device memory reads", "held back", "decode", "q quit"):
        assert words in text


def test_large_terminal_shows_each_request_and_a_chart(wording):
    async def go_on(screen: LiveScreen, _pilot: object) -> None:
        screen.next_tick()

    text = shown(Replayed([decoding(20.0), decoding(96.4)]), go_on, (200, 60)).text
    wording(text, about="48.2 tok/s", tells=("311", "1,020"))
    wording(text, about="4,000", tells="25%")
    assert "sudo nvidia-smi -pl 450" in text
    (foot,) = [line for line in text.split("\n") if line.strip().startswith("0  ")]
    assert foot.strip() == "0  ██", "the chart of two speeds"


def test_speed_follows_the_ticks_until_paused():
    texts = []

    async def act(screen: LiveScreen, pilot: object) -> None:
        texts.append(screen.text)
        screen.next_tick()
        texts.append(screen.text)
        await pilot.press("p")
        screen.next_tick()
        texts.append(screen.text)
        await pilot.press("p")
        screen.next_tick()
        texts.append(screen.text)

    shown(Replayed([decoding(10.0), decoding(20.0), decoding(30.0)]), act)
    assert [speed in text for speed, text in zip(("10.0 tok", "20.0 tok", "20.0 tok", "30.0 tok"), texts, strict=True)]
    assert "paused" in texts[2]
    assert "paused" not in texts[3]


def test_help_opens_and_closes(wording):
    texts = []

    async def act(screen: LiveScreen, pilot: object) -> None:
        await pilot.press("question_mark")
        texts.append(screen.text)
        await pilot.press("escape")
        texts.append(screen.text)

    shown(Replayed([decoding()]), act)
    wording(texts[0].splitlines())
    assert "96.4 tok/s" in texts[1]


def test_arrow_keys_switch_servers():
    names = tuple(f"llama.cpp model {n}" for n in range(3))
    source = Replayed([decoding(servers=names, chosen=1)])

    async def act(_screen: LiveScreen, pilot: object) -> None:
        await pilot.press("down", "up", "right")

    text = shown(source, act, (80, 40)).text
    assert source.steps == [1, -1, 1]
    assert f"▶ {names[1]}" in text
    assert "2/3" in text


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quit_keys_end_the_screen(key):
    async def act(screen: LiveScreen, pilot: object) -> None:
        await pilot.press(key)

    assert shown(Replayed([decoding()]), act).return_code == 0


def test_resize_redraws_the_screen():
    async def act(screen: LiveScreen, pilot: object) -> None:
        await pilot.resize_terminal(40, 12)
        await pilot.pause()

    lines = shown(Replayed([decoding()]), act).text.split("\n")
    assert (len(lines), max(map(len, lines))) == (12, 40)


def test_only_changed_lines_are_redrawn(monkeypatch):
    drawn = []

    async def act(screen: LiveScreen, _pilot: object) -> None:
        monkeypatch.setattr(screen._board, "refresh", lambda *regions: drawn.extend(regions))
        screen.next_tick()

    shown(Replayed([decoding(), decoding(seconds=84.0)]), act, (80, 20))
    assert {region.y for region in drawn} <= {0, 1}, "the clock, and the sparkline beside the speed"


def test_failure_of_the_watch_thread_ends_the_screen():
    screen = LiveScreen(Replayed([decoding()]), BLOCKS, interval_s=HOUR_S, failed=lambda: ZeroDivisionError("bug"))

    async def run() -> None:
        async with screen.run_test():
            screen.next_tick()

    asyncio.run(run())
    assert isinstance(screen.error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("tick", "words"),
    [
        (Tick(), "No model server found"),
        (decoding(server=ServerNow(state="gone")), "the server is gone; searching for it"),
        (decoding(server=ServerNow(state="loading")), "still loading"),
        (decoding(server=ServerNow(state="silent", because="no answer for 4 s")), "no answer for 4 s"),
        (decoding(wall=None, suspicion=None), "analyzing ..."),
        (decoding(phases=PhasesNow(now="load")), "loading the model"),
        (
            decoding(speed=SpeedNow(missing=Missing(why="it hides its slots", how_to_get="drop --no-slots"))),
            "it hides its slots. To get it: drop --no-slots.",
        ),
        (decoding(speed=SpeedNow(last_tokens_per_s=12.0)), "12.0 tok/s in the last response (from the log)"),
        (decoding(phases=PhasesNow(now="prefill"), speed=SpeedNow(prompt_tokens_per_s=800.0)), "prefill 800 tok/s"),
        (decoding(notes=("10:20:30 the server is back",)), "the server is back"),
    ],
)
def test_screen_states_problems_and_missing_values(tick, words):
    assert words in shown(Replayed([tick]), nothing, (80, 40)).text


def test_escape_sequences_in_names_are_not_sent_to_the_terminal():
    wicked = ServerNow(runtime="x", model="\x1b[2J\x07evil\nname", url="http://127.0.0.1:1", state="answers")
    text = shown(Replayed([decoding(server=wicked, servers=("\x1b]0;evil",) * 2)]), nothing, (80, 40)).text
    assert "evil" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_screen_is_exported_as_svg_for_the_docs():
    picture = svg([decoding(50.0), decoding()], 90, 26)
    assert picture.startswith("<svg")
    assert "96.4" in picture
    assert SERVER.model.split()[0] in picture
