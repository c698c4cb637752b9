"""What the server shows: the newest view, the memory of each subject, and the runs. Any thread may ask."""

import gc
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unslow.app.read_target import is_live
from unslow.facts.errors import UserError
from unslow.show._clean import without_controls
from unslow.think.view.report import WhatIf
from unslow.web.ahead import Ahead, Place
from unslow.web.book import Book, BusyError
from unslow.web.wanted import Wanted

if TYPE_CHECKING:  # imported in a thread while the server starts
    from unslow.app.view.build import Seen
    from unslow.app.view.what_if import Memory

PATIENCE_S = 60.0
"""Longer than any first look takes; whoever asks before it is done waits as long."""
_PREPARED = 4
"""Subjects whose memory is laid out before anybody moves a slider."""


class Desk:
    """Everything that one server knows."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.is_live = is_live(wanted.request.target)
        self.closing = False
        """Whether the end has come: streams end themselves."""
        self.was_told = False
        """Whether the user has read that there is nothing to see, and why."""
        self.book = Book()
        self._lock = threading.RLock()
        self._is_open = False
        """Whether somebody has opened the page, and may move its sliders."""
        self._sliding = threading.Lock()
        self._ahead = Ahead(self._answer, lambda: not self.closing and not self.book.is_busy)
        self._looked = threading.Event()
        self._seen: Seen | None = None
        self._error: UserError | None = None
        self._memories: dict[int, Memory] = {}

    def begin(self) -> None:
        """Look, in a thread of its own, so that the page is there meanwhile."""
        threading.Thread(target=self._begin, name="first look", daemon=True).start()

    def _begin(self) -> None:
        try:
            self._look()
        except UserError as error:
            self._error = error
        except Exception as bug:  # noqa: BLE001 (a page that says so is better than one that waits for ever)
            sys.stderr.write(without_controls(traceback.format_exc()))
            self._error = UserError(f"a bug in unslow: {type(bug).__name__}", "the terminal says more")
        finally:
            self._looked.set()
        self.prepare()
        gc.collect()
        gc.freeze()  # what is there now stays: else it is walked through, for 50 ms, while somebody moves a slider

    def _look(self) -> None:
        from unslow.web.looking import first_look  # noqa: PLC0415

        self.take(first_look(self.wanted))
        if self.wanted.measure:
            from unslow.web.performing import begin  # noqa: PLC0415

            begin(self)

    def look_again(self) -> None:
        """Look anew, where there was nothing to see: a server may have been started meanwhile."""
        with self._lock:
            if self._error is None or not self.was_told or not self.is_live:
                return
            self._error, self.was_told = None, False
            self._looked.clear()
        self.begin()

    def take(self, seen: "Seen") -> None:
        """Show this from now on."""
        with self._lock:
            self._seen, self._error, self._memories = seen, None, {}

    def seen(self, patience_s: float = PATIENCE_S) -> "Seen":
        """What is shown now; UserError where there is nothing, and why."""
        self._looked.wait(patience_s)
        with self._lock:
            if self._seen is not None:
                return self._seen
            raise self._error or BusyError("it is still looking at the machine", "ask again in a moment")

    def what_if(self, number: int, settings: Mapping[str, str]) -> WhatIf:
        """The memory and the speed of a subject with other settings."""
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
            self._ahead.note(Place(number, memory.view().sliders, settings))

    def was_opened(self) -> None:
        """Somebody looks: a slider of what is shown first may be moved next."""
        self._is_open = True
        self._note_sliders(0, {})

    def prepare(self) -> None:
        """Lay out the memory of what is shown, so that the first slider is answered at once too."""
        with self._lock:
            count = len(self._seen.view.report.subjects) if self._seen else 0
        for number in range(min(count, _PREPARED)):
            try:
                with self._sliding:
                    self._memory(number)
            except UserError:
                continue  # the panel says why there is none
        if self._is_open:
            self._note_sliders(0, {})

    def _memory(self, number: int) -> "Memory":
        from unslow.web.looking import memory_at  # noqa: PLC0415

        seen = self.seen()
        with self._lock:
            known = self._memories.get(number) if seen is self._seen else None
        if known is None:
            known = memory_at(seen, number, live=self.is_live)
            with self._lock:
                if seen is self._seen:
                    self._memories[number] = known
        return known

    def close(self) -> None:
        """End what runs."""
        self.closing = True
        self.book.close()
