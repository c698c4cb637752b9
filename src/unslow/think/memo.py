"""Results computed once per judgement and forgotten with it."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
Of = TypeVar("Of")
Asked = ParamSpec("Asked")
_NOTES: ContextVar[dict[Hashable, tuple[object, Any]] | None] = ContextVar("notes of a judgement", default=None)


@contextmanager
def one_judgement() -> Iterator[None]:
    """Remember until the end of it; one within another shares what the outer one knows."""
    with _noting({}) if _NOTES.get() is None else nullcontext():
        yield


@contextmanager
def _noting(notes: dict[Hashable, tuple[object, Any]]) -> Iterator[None]:
    begun = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(begun)


def remember_once(of: object, asked: Hashable, compute: Callable[[], T]) -> T:
    """The result for this very object and question; outside a judgement it is computed each time."""
    notes = _NOTES.get()
    if notes is None:
        return compute()
    key = (id(of), asked)
    if key not in notes:
        notes[key] = (of, compute())  # which keeps the object, and with it its number, for as long as the note
    answer: T = notes[key][1]
    return answer


def once(compute: Callable[Concatenate[Of, Asked], T]) -> Callable[Concatenate[Of, Asked], T]:
    """The function, computed once in a judgement for the same object and the same, hashable, arguments.

    Whoever gets the answer shares it, so it must be nothing that is changed. What is raised is raised each time.
    """

    @wraps(compute)
    def answer(of: Of, /, *asked: Asked.args, **named: Asked.kwargs) -> T:
        return remember_once(of, (compute, asked, *named.items()), lambda: compute(of, *asked, **named))

    return answer


class LastingJudgement:
    """What is remembered from one question to the next, for something that is asked again and again."""

    def __init__(self, most: int) -> None:
        self._notes: dict[Hashable, tuple[object, Any]] = {}
        self._most = most

    def resume(self) -> AbstractContextManager[None]:
        """Remember as before; with too many notes, from the start."""
        if len(self._notes) > self._most:
            self._notes = {}
        return _noting(self._notes)
