"""What the user asked of `unslow bench`, checked."""

import os
import re
from typing import NamedTuple

from unslow.commands.bench import BenchRequest
from unslow.commands.bench.bencher import QUICK, STANDARD, Protocol
from unslow.commands.bench.sweeps import module_of, names
from unslow.commands.diagnose.request import Manners
from unslow.facts.errors import UserError
from unslow.look.sampler.series_file import check_arrow
from unslow.think.stats.requirements import Condition, parse_requirement

_SWEEP = re.compile(r"([a-z]+)(?:=([0-9.,]+))?")
_MOST_VALUES, _LARGEST = 64, 1e7
SERIES = (".csv", ".arrow")


class AskedSweep(NamedTuple):
    """A sweep, and the values that the user wants tried."""

    axis: str
    values: tuple[float, ...] = ()


class BenchSpec(NamedTuple):
    """One benchmark."""

    target: str | None = None
    protocol: Protocol = STANDARD
    sweeps: tuple[AskedSweep, ...] = ()
    manners: Manners = Manners(evict=False)
    model: str | None = None
    """With a TARGET, which of its models; else a file or a made-up model for the embedded engine."""
    command: str | None = None
    against: str | None = None
    compare: str | None = None
    require: tuple[Condition, ...] = ()
    parts: bool = False
    llama_bench: str | None = None
    hz: float = 10.0
    series: str | None = None
    label: str = ""
    keep: bool = True
    tokens: int | None = None  # Of each answer of a sweep, where the user wants a certain number

    @classmethod
    def of(cls, asked: BenchRequest) -> "BenchSpec":
        """The request that was asked for; UserError where they make no sense."""
        manners = Manners(
            quick=asked.quick, evict=asked.evict, api_key=asked.api_key or os.environ.get("UNSLOW_API_KEY")
        )
        protocol = QUICK if asked.quick else STANDARD
        if asked.tokens:
            protocol = protocol._replace(tokens=asked.tokens)
        if asked.repeats:
            protocol = protocol._replace(rounds=asked.repeats, most_rounds=asked.repeats)
        request = cls(
            asked.target,
            protocol,
            tuple(parse_sweep(word) for word in asked.sweep),
            manners,
            asked.model,
            asked.command,
            asked.against,
            asked.compare,
            tuple(parse_requirement(text) for text in asked.require),
            asked.parts,
            asked.llama_bench,
            asked.hz,
            asked.series,
            (asked.label or "").encode("utf-8", "replace").decode(),
            not asked.no_keep,
            asked.tokens,
        )
        for flag, path in (("--output", asked.output), ("--export", asked.export), ("--series", asked.series)):
            check_writable(flag, path)
        return _checked(request)


def check_writable(flag: str, path: str | None) -> None:
    """UserError where a file can't be written: better told now than after an hour of measuring."""
    if path is None:
        return
    is_device = os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 (words of a command line)
    place = path if is_device else os.path.dirname(os.path.realpath(path))  # noqa: PTH120
    if os.path.isdir(path) or not os.path.exists(place) or not os.access(place, os.W_OK):  # noqa: PTH110, PTH112
        raise UserError(f"{flag} {path}: no file can be written there", "name a file in a folder that exists")


def parse_sweep(word: str) -> AskedSweep:
    """`depth`, or `users=1,4,16`; UserError where there is no such sweep."""
    found = _SWEEP.fullmatch(word)
    if not found or found[1] not in names():
        raise UserError(f"--sweep {word[:60]!r} is no sweep", f"there are {', '.join(names())}; or users=1,4,16")
    try:
        values = tuple(float(part) for part in (found[2] or "").split(",") if part)
    except ValueError:
        raise UserError(f"--sweep {word[:60]!r}: values are numbers", "such as users=1,4,16") from None
    if found[1] != "depth" and any(not value for value in values):
        raise UserError(f"--sweep {word[:60]!r}: 0 makes no sense", "such as users=1,4,16")
    if len(values) > _MOST_VALUES or any(not 0 <= value <= _LARGEST for value in values):
        hint = f"up to {_MOST_VALUES} values, such as users=1,4,16"
        raise UserError(f"--sweep {word[:60]!r}: that is too much", hint)
    return AskedSweep(found[1], values)


def _checked(request: BenchSpec) -> BenchSpec:
    if request.target and request.command:
        raise UserError("a TARGET runs already, and --command starts another", "give one of them")
    if request.series and not request.series.endswith(SERIES):
        raise UserError(f"--series {request.series}: neither .csv nor .arrow", "such as --series samples.csv")
    if request.series and request.series.endswith(".arrow"):
        check_arrow(request.series)
    if request.model and request.command:
        raise UserError("--model and --command together make no sense", "name the model in the command")
    if request.against and (request.sweeps or request.compare):
        hint = "leave them out"
        raise UserError("--against compares two running servers, so --sweep and --compare make no sense", hint)
    if request.against or any(module_of(asked.axis).OWN_SERVER for asked in request.sweeps):
        flags = (("--parts", request.parts), ("--series", request.series), ("--llama-bench", request.llama_bench))
        if unheard := [flag for flag, given in flags if given]:
            raise UserError(f"{', '.join(unheard)}: not with --against, or with servers of its own", "leave it out")
    return request
