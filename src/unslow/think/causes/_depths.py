"""How the speed falls with depth, against what reading a longer KV cache costs by physics."""

from typing import NamedTuple

import msgspec

from unslow.facts.run import AtDepth
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Origin, Unknown
from unslow.think.adapt.shape import missing
from unslow.think.adapt.work import Cure
from unslow.think.causes._asking import ask_for
from unslow.think.predict import Prediction, predict

BEYOND = 1.5
"""Times the fall that physics expects: a ratio of two speeds of one server is free of most of a prediction's error."""
TRY_IT = "run `unslow` while the runtime is idle; or {try_depth}"


class Fall(NamedTuple):
    """The speed at the start of the context and deep in it: as measured, and how far it should fall."""

    shallow: AtDepth
    deep: AtDepth
    expected: float
    """Times slower, by physics."""

    @property
    def measured(self) -> float:
        """Times slower, as it was."""
        return self.shallow.tokens_per_s / self.deep.tokens_per_s

    @property
    def beyond(self) -> float:
        """The measured fall over the expected one."""
        return self.measured / self.expected

    @property
    def words(self) -> str:
        """For a person."""
        speeds = f"{self.shallow.tokens_per_s:.1f} tokens per second at {self.shallow.depth_tokens} tokens, "
        return f"{speeds}{self.deep.tokens_per_s:.1f} at {self.deep.depth_tokens}"


def fall_with_depth(case: Case, cure: Cure | None = None) -> Fall:
    """The fall between the first and the last depth, expected with a cure applied; MissingFactError says what lacks."""
    depths = sorted(ask_for(case, "run.depths", TRY_IT), key=lambda d: d.depth_tokens)
    if len(depths) < 2 or min(d.tokens_per_s for d in depths) <= 0:  # noqa: PLR2004 (a fall has two ends)
        raise missing("the speed at two depths", TRY_IT)
    ends = depths[0], depths[-1]
    first, last = (_seconds(case, end.depth_tokens, cure) for end in ends)
    return Fall(*ends, expected=max(1.0, last / first))


def at_depth(case: Case, tokens: int) -> Case:
    """The case as if it had been measured so far into the context."""
    depth = Known(tokens, Origin.MEASURED, "run.depths")
    return msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, depth_tokens=depth))


def _seconds(case: Case, tokens: int, cure: Cure | None) -> float:
    expected: Prediction | Unknown = predict(at_depth(case, tokens), cure)
    if isinstance(expected, Unknown):
        raise MissingFactError(expected)
    return expected.seconds.mid
