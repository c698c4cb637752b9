"""What the server shows: the newest view, the memory of each subject, the runs, and slider answers made ahead."""

import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from unslow.commands._formats import Looking
from unslow.commands.diagnose.target import is_live
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.page.server.runs import BusyError, RunList, RunWanted, StartedRun, bug_error
from unslow.page.view import Slider, WhatIf
from unslow.think.stats.verification_report import VerifyReport

if TYPE_CHECKING:
    from unslow.page.build import SeenMachine
    from unslow.page.what_if.memory_view import Memory

PATIENCE_S = 60.0  # Longer than any first look takes; whoever asks before it is done waits as long
_PREPARED = 4  # Subjects whose memory is laid out before anybody moves a slider
MOST, MOST_S = 64, 2.0  # Answers around one place, and the time that they may take: as a rule it is half of that
QUIET_S = 0.3  # Since the last question: whoever drags a slider asks again sooner, and has the processor alone
_LONGEST_REST_S = 0.2  # After an answer it rests for as long as that took, so that half a core is left to others


class ServeOptions(NamedTuple):
    """The target and the manners of a diagnosis, and what else to show beside it."""

    request: Looking
    benches: tuple[Bench, ...] = ()  # For their curves
    verified: VerifyReport | None = None  # For before and after
    measure: bool = False  # Whether to measure at once


class ServerState:
    """Everything that one server knows."""

    def __init__(self, wanted: ServeOptions) -> None:
        self.wanted = wanted
        self.is_live = is_live(wanted.request.target)
        self.closing = False  # Whether the end has come: streams end themselves
        self.was_told = False  # Whether the user has read that there is nothing to see, and why
        self.runs = RunList()
        self._lock = threading.RLock()
        self._is_open = False  # Whether the page was opened, so that its sliders may be moved
        self._sliding = threading.Lock()
        self._ahead = Prefetcher(self._answer, lambda: not self.closing and not self.runs.is_busy)
        self._looked = threading.Event()
        self._seen: SeenMachine | None = None
        self._error: UserError | None = None
        self._memories: dict[int, Memory] = {}

    def begin(self) -> None:
        """Look, in a thread of its own, so that the page is there meanwhile."""
        threading.Thread(target=self._begin, name="first look", daemon=True).start()

    def _begin(self) -> None:
        try:
            from unslow.page.server.live_run import first_look

            self.set_machine(first_look(self.wanted))
            if self.wanted.measure:
                self.start(RunWanted(kind="diagnose"))
        except UserError as error:
            self._error = error
        except Exception as bug:  # noqa: BLE001 (a page that says so is better than one that waits for ever)
            self._error = bug_error(bug)
        finally:
            self._looked.set()
        self.prepare()
        gc.collect()
        gc.freeze()  # what is there now stays: else it is walked through, for 50 ms, while a slider is moved

    def start(self, wanted: RunWanted) -> StartedRun:
        """Start a run; BusyError while another goes on."""
        from unslow.page.server.live_run import perform_run

        return self.runs.start(wanted, lambda entry: perform_run(self, entry))

    def look_again(self) -> None:
        """Look anew, where there was nothing to see: a server may have been started meanwhile."""
        with self._lock:
            if self._error is None or not self.was_told or not self.is_live:
                return
            self._error, self.was_told = None, False
            self._looked.clear()
        self.begin()

    def set_machine(self, seen: "SeenMachine") -> None:
        with self._lock:
            self._seen, self._error, self._memories = seen, None, {}

    def machine(self, patience_s: float = PATIENCE_S) -> "SeenMachine":
        """What is shown now; UserError where there is nothing, and why."""
        self._looked.wait(patience_s)
        with self._lock:
            if self._seen is not None:
                return self._seen
            raise self._error or BusyError("still inspecting the machine", "try again in a moment")

    def what_if(self, number: int, settings: Mapping[str, str]) -> WhatIf:
        answer = self._answer(number, settings)
        self._note_sliders(number, answer.settings)
        return answer

    def _answer(self, number: int, settings: Mapping[str, str]) -> WhatIf:
        with self._sliding:  # what is remembered of a layout grows while it answers
            return self._memory(number).what_if(settings)

    def _note_sliders(self, number: int, settings: Mapping[str, str]) -> None:
        with self._lock:
            memory = self._memories.get(number)
        if memory is not None:
            self._ahead.note(SliderPlace(number, memory.view.sliders, settings))

    def was_opened(self) -> None:
        """The page was opened: a slider of what is shown first may be moved next."""
        self._is_open = True
        self._note_sliders(0, {})

    def prepare(self) -> None:
        """Lay out the memory of what is shown, so that the first slider is answered at once too."""
        with self._lock:
            count = len(self._seen.view.report.subjects) if self._seen else 0
        for number in range(min(count, _PREPARED)):
            with suppress(UserError), self._sliding:  # the panel says why there is none
                self._memory(number)
        if self._is_open:
            self._note_sliders(0, {})

    def _memory(self, number: int) -> "Memory":
        from unslow.page.server.live_run import memory_at

        seen = self.machine()
        with self._lock:
            known = self._memories.get(number) if seen is self._seen else None
        if known is None:
            known = memory_at(seen, number, live=self.is_live)
            with self._lock:
                if seen is self._seen:
                    self._memories[number] = known
        return known

    def close(self) -> None:
        self.closing = True
        self.runs.close()


class SliderPlace(NamedTuple):
    """Where the sliders of a subject stand."""

    number: int
    sliders: Sequence[Slider]
    settings: Mapping[str, str]


class Prefetcher:
    """One thread at most, which ends when there is nothing left to work out."""

    def __init__(self, answer: Callable[[int, Mapping[str, str]], object], is_wanted: Callable[[], bool]) -> None:
        self._answer, self._is_wanted = answer, is_wanted
        self._lock = threading.Lock()
        self._place: SliderPlace | None = None
        self._noted_at = 0.0
        self._works = False

    def note(self, place: SliderPlace) -> None:
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

    def _next(self) -> SliderPlace | None:
        """The last noted place after a quiet moment; None if there is no new one."""
        while (left := self._noted_at + QUIET_S - time.monotonic()) > 0:
            time.sleep(left)
        with self._lock:
            place, self._place = self._place, None
            self._works = place is not None
            return place

    def _answer_and_rest(self, number: int, settings: Mapping[str, str]) -> float:
        """Returns the seconds that the answer took."""
        begun = time.monotonic()
        with suppress(UserError):  # whoever asks for it is told
            self._answer(number, settings)
        took = time.monotonic() - begun
        time.sleep(min(_LONGEST_REST_S, took))
        return took


def neighbours(place: SliderPlace) -> Iterator[dict[str, str]]:
    """All that moving one slider leads to, the nearest first."""
    ways = []
    for slider in place.sliders:
        values = [choice.value for choice in slider.choices]
        stands = place.settings.get(slider.knob, slider.value)
        here = values.index(stands) if stands in values else 0
        others = sorted(range(len(values)), key=lambda n: abs(n - here))[1:]  # to both sides of where it stands
        ways.append([{**place.settings, slider.knob: values[n]} for n in others])
    yield from (found for step in zip_longest(*ways) for found in step if found)
