"""A value with its origin, or the reason why it is missing; and the units that enter from outside."""

from enum import StrEnum
from typing import Annotated, Any, Generic, NoReturn, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
KIB = 1024
MIB = 1024**2
GIB = 1024**3
KB = 10**3
MB = 10**6
GB = 10**9
MHZ = 10**6
# Bounded so that a hostile snapshot can't hand physics a negative size or an endless one.
LARGEST_COUNT = 2**53
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
Bytes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Degrees: TypeAlias = Annotated[float, msgspec.Meta(ge=-300, le=1000)]
Fraction: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
LEAST_READING, LARGEST_READING = 1e-12, 1e20
"""Of what servers and exporters report, except zero: a picosecond; more than the nanoseconds of any clock."""


class Origin(StrEnum):
    """Where a value comes from; the predictor widens its interval by it."""

    MEASURED = "measured"
    REPORTED = "reported"
    DATASHEET = "datasheet"
    ESTIMATED = "estimated"
    TOLD = "told"


class Absence(StrEnum):
    """Why a value is missing: four answers that must never be confused."""

    NOT_LOOKED = "not_looked"
    NOT_FOUND = "not_found"
    NOT_SUPPORTED = "not_supported"
    FAILED = "failed"


class MissingFactError(Exception):
    """A value was needed and is not known; whoever asked turns it into "cannot tell"."""

    def __init__(self, unknown: "Unknown", path: str = "") -> None:
        super().__init__(unknown.why)
        self.unknown = unknown
        self.path = path


class Known(msgspec.Struct, Generic[T], frozen=True, tag_field="is", tag="known"):
    """A value, how it was learned and from where."""

    value: T
    origin: Origin
    source: str

    def need(self) -> T:
        return self.value

    def get(self) -> T | None:
        return self.value

    def value_or(self, default: Any) -> T:  # noqa: ARG002 (the same call on Unknown uses it)
        return self.value


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is", tag="unknown"):
    """Why a value is missing, and how a person could get it."""

    why: str
    how_to_get: str = ""
    absence: Absence = Absence.NOT_FOUND

    def need(self) -> NoReturn:
        """Raise: there is no value."""
        raise MissingFactError(self)

    def get(self) -> None:
        """None: there is no value."""

    def value_or(self, default: Any) -> Any:
        """The default: there is no value."""
        return default


Fact: TypeAlias = Known[T] | Unknown
NOT_LOOKED = Unknown("not checked", absence=Absence.NOT_LOOKED)


def measured_fact(value: T, source: str) -> Known[T]:
    """A value that this program timed or counted itself."""
    return Known(value, Origin.MEASURED, source)


def reported_fact(value: T, source: str) -> Known[T]:
    """A value that the system, a driver, a runtime or a log states."""
    return Known(value, Origin.REPORTED, source)


def estimated_fact(value: T, source: str) -> Known[T]:
    """A value worked out from others."""
    return Known(value, Origin.ESTIMATED, source)


def told_fact(value: T, source: str) -> Known[T]:
    """A value that a person gave in words."""
    return Known(value, Origin.TOLD, source)


def not_found(why: str, how_to_get: str = "") -> Unknown:
    """Looked, and there is nothing."""
    return Unknown(why, how_to_get, Absence.NOT_FOUND)


def not_supported(why: str, how_to_get: str = "") -> Unknown:
    """This system, driver or version can't say."""
    return Unknown(why, how_to_get, Absence.NOT_SUPPORTED)


def failed_fact(why: str, how_to_get: str = "") -> Unknown:
    """Looked, and looking failed."""
    return Unknown(why, how_to_get, Absence.FAILED)


def first_known(*facts: Fact[T]) -> Fact[T]:
    """The first fact with a value; with none, the first that says more than "not checked"."""
    for fact in facts:
        if isinstance(fact, Known):
            return fact
    telling = [f for f in facts if isinstance(f, Unknown) and f.absence is not Absence.NOT_LOOKED]
    return telling[0] if telling else NOT_LOOKED


def is_reading(value: float) -> bool:
    """Whether a number from outside is plausible: finite, and neither absurdly large nor small."""
    return value == 0 or LEAST_READING <= abs(value) <= LARGEST_READING


def pad_to(size: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-size // step) * step
