"""What the user asked of `unslow bench`, checked and parsed."""

import os
import re
from typing import NamedTuple

from unslow.commands.bench import BenchRequest
from unslow.commands.bench.protocol import QUICK, STANDARD, Protocol
from unslow.commands.bench.sweeps import module_of, names
from unslow.facts.errors import UserError
from unslow.look.sampler.series_file import check_arrow
from unslow.think.stats.requirements import parse_requirement

_SWEEP = re.compile(r"([a-z]+)(?:=([0-9.,]+))?")
_MOST_VALUES, _LARGEST = 64, 1e7
SERIES = (".csv", ".arrow")


class AskedSweep(NamedTuple):
    """A sweep, and the values that the user wants tried."""

    axis: str
    values: tuple[float, ...] = ()


def resolve_request(request: BenchRequest) -> BenchRequest:
    """The request with the key of the environment; UserError where it makes no sense."""
    sweeps = parse_sweeps(request)
    for text in request.require:
        parse_requirement(text)
    for flag, path in (("--output", request.output), ("--export", request.export), ("--series", request.series)):
        check_writable(flag, path)
    if request.target and request.command:
        raise UserError("TARGET and --command are mutually exclusive", "give only one of them")
    if request.series and not request.series.endswith(SERIES):
        raise UserError(f"--series {request.series}: must end in .csv or .arrow", "such as --series samples.csv")
    if request.series and request.series.endswith(".arrow"):
        check_arrow(request.series)
    if request.model and request.command:
        raise UserError("--model and --command are mutually exclusive", "name the model in the command")
    if request.against and (sweeps or request.compare):
        hint = "omit them"
        raise UserError(
            "--against compares two running servers; it cannot be combined with --sweep and --compare", hint
        )
    if request.against or any(module_of(asked.axis).OWN_SERVER for asked in sweeps):
        flags = (("--parts", request.parts), ("--series", request.series), ("--llama-bench", request.llama_bench))
        if unheard := [flag for flag, given in flags if given]:
            raise UserError(
                f"{', '.join(unheard)}: cannot be combined with --against or with servers that unslow starts", "omit it"
            )
    return request._replace(api_key=request.api_key or os.environ.get("UNSLOW_API_KEY"))


def protocol_of(request: BenchRequest) -> Protocol:
    """What is asked of the server, and how often."""
    protocol = QUICK if request.quick else STANDARD
    if request.tokens:
        protocol = protocol._replace(tokens=request.tokens)
    if request.repeats:
        protocol = protocol._replace(rounds=request.repeats, most_rounds=request.repeats)
    return protocol


def check_writable(flag: str, path: str | None) -> None:
    """UserError where a file can't be written: better told now than after an hour of measuring."""
    if path is None:
        return
    is_device = os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 (words of a command line)
    place = path if is_device else os.path.dirname(os.path.realpath(path))  # noqa: PTH120
    if os.path.isdir(path) or not os.path.exists(place) or not os.access(place, os.W_OK):  # noqa: PTH110, PTH112
        raise UserError(f"{flag} {path}: not writable", "name a file in an existing folder")


def parse_sweeps(request: BenchRequest) -> tuple[AskedSweep, ...]:
    """Each is `depth`, or `users=1,4,16`; UserError where there is no such sweep."""
    sweeps = []
    for word in request.sweep:
        found = _SWEEP.fullmatch(word)
        if not found or found[1] not in names():
            raise UserError(
                f"--sweep {word[:60]!r} is not a sweep", f"available: {', '.join(names())}; or users=1,4,16"
            )
        try:
            values = tuple(float(part) for part in (found[2] or "").split(",") if part)
        except ValueError:
            raise UserError(f"--sweep {word[:60]!r}: values must be numbers", "such as users=1,4,16") from None
        if found[1] != "depth" and any(not value for value in values):
            raise UserError(f"--sweep {word[:60]!r}: values must be above 0", "such as users=1,4,16")
        if len(values) > _MOST_VALUES or any(not 0 <= value <= _LARGEST for value in values):
            hint = f"up to {_MOST_VALUES} values, such as users=1,4,16"
            raise UserError(f"--sweep {word[:60]!r}: too many values, or too large", hint)
        sweeps.append(AskedSweep(found[1], values))
    return tuple(sweeps)
