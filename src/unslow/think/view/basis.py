"""What a prediction is drawn for: the set-up as it is, or the best that fits where nobody knows how it lies."""

from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError, Unknown
from unslow.think.adapt.cure import Cure
from unslow.think.adapt.vram import available_vram_bytes, runtime_sees_gpu
from unslow.think.predict import Prediction, predict


class Basis(NamedTuple):
    """The change to the case that is predicted for, and what that is in words."""

    cure: Cure = Cure()
    words: str = "as it is set up"


def basis_of(case: Case) -> Basis | Unknown:
    """What can be predicted of a case, or what it lacks: a server that says little tells no place of its weights."""
    if case.runtime.state.value_or("") == "failed":
        return Unknown("it does not load", "see the findings")
    found = predict(case)
    if isinstance(found, Prediction):
        return Basis()
    if case.runtime.embedded or not runtime_sees_gpu(case):
        return found
    try:
        filled = Cure(vram_bytes=available_vram_bytes(case))
    except MissingFactError:
        return found
    words = "with as much of it on the GPU as fits, for nothing tells how much is there"
    return Basis(filled, words) if isinstance(predict(case, filled), Prediction) else found
