"""Works out what a slider may be moved to next, while nobody asks: the places around where all of them stand."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.think.view.report import Slider

MOST, MOST_S = 64, 2.0
"""Answers around one place, and the time that they may take: as a rule it is half of that."""
QUIET_S = 0.3
"""Since the last question: whoever drags a slider asks again sooner, and has the processor alone."""
_LONGEST_REST_S = 0.2
"""After an answer it rests for as long as that took, so that half a core is left to others."""


class Place(NamedTuple):
    """Where the sliders of a subject stand."""

    number: int
    sliders: Sequence[Slider]
    settings: Mapping[str, str]


class Ahead:
    """One thread at most, which ends when there is nothing left to work out."""

    def __init__(self, answer: Callable[[int, Mapping[str, str]], object], is_wanted: Callable[[], bool]) -> None:
        self._answer, self._is_wanted = answer, is_wanted
        self._lock = threading.Lock()
        self._place: Place | None = None
        self._noted_at = 0.0
        self._works = False

    def note(self, place: Place) -> None:
        """The sliders stand there now."""
        with self._lock:
            self._place, self._noted_at = place, time.monotonic()
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, name="ahead", daemon=True).start()

    def _work(self) -> None:
        while (place := self._next()) is not None:
            left = MOST_S
            for settings in islice(neighbours(place), MOST):
                if left <= 0 or self._place is not None or not self._is_wanted():
                    break
                left -= self._answer_and_rest(place.number, settings)

    def _next(self) -> Place | None:
        """The place that was noted last, when nobody has asked for a while; None where there is no new one."""
        while (left := self._noted_at + QUIET_S - time.monotonic()) > 0:
            time.sleep(left)
        with self._lock:
            place, self._place = self._place, None
            self._works = place is not None
            return place

    def _answer_and_rest(self, number: int, settings: Mapping[str, str]) -> float:
        """Gives the seconds that the answer took."""
        begun = time.monotonic()
        with suppress(UserError):  # whoever asks for it is told
            self._answer(number, settings)
        took = time.monotonic() - begun
        time.sleep(min(_LONGEST_REST_S, took))
        return took


def neighbours(place: Place) -> Iterator[dict[str, str]]:
    """All that moving one slider leads to, the nearest first."""
    ways = [list(_along(slider, place.settings)) for slider in place.sliders]
    for step in range(max(map(len, ways), default=0)):
        for way in ways:
            if step < len(way):
                yield way[step]


def _along(slider: Slider, settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The other choices of one slider, from where it stands to both sides."""
    values = [choice.value for choice in slider.choices]
    stands = settings.get(slider.knob, slider.value)
    here = values.index(stands) if stands in values else 0
    for n in sorted(range(len(values)), key=lambda n: abs(n - here)):
        if n != here:
            yield {**settings, slider.knob: values[n]}
