"""What stays as it is while a process lives: a busy server does not answer every question of every look."""

from typing import TypeVar

import msgspec

from unslow.app.exporter.measuring import place_of
from unslow.facts.model import Model
from unslow.facts.snapshot import Case, Subject
from unslow.facts.values import Fact, Known, not_supported

T = TypeVar("T")
PAST = not_supported("an average since the server's start says nothing of now", "it is seen while it answers requests")


def is_same_place(before: Subject, found: Subject) -> bool:
    """Whether it is the same process with the same model; one that does not tell its model now has the one it had."""
    *was, had = place_of(before)
    *place, has = place_of(found)
    return was == place and has in (had, "")


def steady(before: Subject, found: Subject) -> Subject:
    """What was found, with the version and the model that were known before where this look did not get them."""
    version = _kept(before.runtime.version, found.runtime.version)
    runtime = msgspec.structs.replace(found.runtime, version=version)
    return msgspec.structs.replace(found, runtime=runtime, model=_model(before.model, found.model))


def _kept(before: Fact[T], found: Fact[T]) -> Fact[T]:
    return found if isinstance(found, Known) else before


def _model(before: Model, found: Model) -> Model:
    if not isinstance(found.name, Known) and isinstance(before.name, Known):
        return before
    return msgspec.structs.replace(found, quant=_kept(before.quant, found.quant))


def without_past(case: Case) -> Case:
    """The server without its own averages: they hold all requests since its start, those of its worst day too."""
    runtime = msgspec.structs.replace(case.runtime, decode_tokens_per_s=PAST, prefill_tokens_per_s=PAST)
    return msgspec.structs.replace(case, runtime=runtime)
