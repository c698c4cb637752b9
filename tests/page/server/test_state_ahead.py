import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import pytest
from page_server import serving

from unslow.page.server.runs import RunList
from unslow.page.server.state import MOST, Prefetcher, SliderPlace, neighbours
from unslow.page.view import Choice, Slider
from unslow.think import setup
from unslow.think.memory.llama_cpp import need

LAYERS = Slider(knob="gpu_layers", label="", value="2", choices=tuple(Choice(value=str(n), label="") for n in range(5)))
SLOTS = Slider(knob="slots", label="", value="1", choices=(Choice(value="1", label=""), Choice(value="2", label="")))
SOON_S = 10.0


class BusyBook(RunList):
    """With a run that goes on."""

    @property
    def is_busy(self) -> bool:
        return True


BUSY = BusyBook()


def wait_until(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + SOON_S
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def test_neighbours_are_nearest_first_and_alternate_between_sliders() -> None:
    found = list(neighbours(SliderPlace(0, (LAYERS, SLOTS), {"slots": "1"})))
    assert found[:3] == [{"slots": "1", "gpu_layers": "1"}, {"slots": "2"}, {"slots": "1", "gpu_layers": "3"}]
    assert len(found) == 5
    assert next(neighbours(SliderPlace(0, (LAYERS,), {"gpu_layers": "99"}))) == {"gpu_layers": "1"}


def test_new_slider_place_cancels_prefetching_for_the_old_one() -> None:
    asked: list[Mapping[str, str]] = []
    wide = tuple(Choice(value=str(n), label="") for n in range(3 * MOST))
    slider = Slider(knob="gpu_layers", label="", value="0", choices=wide)

    def answer(_: int, settings: Mapping[str, str]) -> None:
        asked.append(settings)
        if len(asked) == 2:
            ahead.note(SliderPlace(0, (slider,), {"gpu_layers": "50"}))

    ahead = Prefetcher(answer, lambda: True)
    ahead.note(SliderPlace(0, (slider,), {}))
    assert wait_until(lambda: len(asked) == 2 + MOST)
    assert [one["gpu_layers"] for one in asked[:4]] == ["1", "2", "49", "51"]


def test_nothing_is_prefetched_during_a_run() -> None:
    asked: list[Mapping[str, str]] = []
    looked = threading.Event()

    def is_wanted() -> bool:
        looked.set()
        return False

    Prefetcher(lambda _, settings: asked.append(settings), is_wanted).note(SliderPlace(0, (SLOTS,), {}))
    assert looked.wait(SOON_S)
    assert not asked


def test_opening_the_page_prefetches_slider_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Prefetcher, list[Mapping[str, str]]] = defaultdict(list)  # servers of other tests may be at work still
    laid_out_by: list[threading.Thread] = []
    answer, lay_out = Prefetcher._answer_and_rest, need.memory_of

    def noted(ahead: Prefetcher, number: int, settings: Mapping[str, str]) -> float:
        took = answer(ahead, number, settings)
        known[ahead].append(settings)
        return took

    monkeypatch.setattr(Prefetcher, "_answer_and_rest", noted)
    monkeypatch.setattr(
        setup, "memory_of", lambda *asked: laid_out_by.append(threading.current_thread()) or lay_out(*asked)
    )
    with serving() as page:
        page.get("/view")  # which waits for the first look
        page.open()
        mine = known[page.state._ahead]
        assert wait_until(lambda: any("slots" in settings for settings in mine))
        page.state.runs = BUSY  # which ends it
        assert page.state.what_if(0, mine[0]).settings.items() >= mine[0].items()
        assert threading.current_thread() not in laid_out_by
