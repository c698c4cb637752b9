"""Lines about the fit: what it reckoned, what it moved, what stopped it; and the table of memory at the end."""

import re

import msgspec

from unslow.facts.units import MIB
from unslow.facts.values import reported
from unslow.look.logs.llama_cpp.loads import keep
from unslow.look.logs.llama_cpp.state import Reading, Rule


def _fit_starts(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.facts["fit"] = reported(value=True, source=where)
    reading.load.overflow.clear()


def _fit_margin(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.facts["fit_margin_bytes"] = reported(int(found[1]) * MIB, where)


def _fits(reading: Reading, found: re.Match[str], where: str) -> None:
    """Everything fits as asked, so the fit moved no part of any layer."""
    _fit_margin(reading, found, where)
    _no_overflow(reading, found, where)


def _no_overflow(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.facts["overflowing_layers"] = reported(0, where)


def _fit_device(reading: Reading, found: re.Match[str], where: str) -> None:
    keep(reading.load.overflow, found[1], (int(found[2] or 0), where))


def _set_by_user(reading: Reading, found: re.Match[str], where: str) -> None:
    name = "gpu_layers_set" if found[1] == "n_gpu_layers already" else "context_set"
    reading.load.facts[name] = reported(int(found[2]), where)


def _projected(reading: Reading, found: re.Match[str], where: str) -> None:
    """What the fit reckoned with the settings as they were asked for; later ones try others."""
    facts = reading.load.facts
    facts.setdefault("asked_bytes", reported(int(found[1]) * MIB, where))
    facts.setdefault("available_bytes", reported(int(found[2]) * MIB, where))


def _shrunk(reading: Reading, found: re.Match[str], where: str) -> None:
    """A context that nobody set is cut before any layer is: what is asked for is what is left then."""
    facts = reading.load.facts
    if "asked_bytes" in facts:
        left = facts["asked_bytes"].value - int(found[1]) * MIB
        facts["asked_bytes"] = reported(max(0, left), where)


def _breakdown(reading: Reading, found: re.Match[str], where: str) -> None:
    """Printed at the end, and before the load for a model that is not there yet: only the first kind was seen."""
    if not reading.load.placed or found[1] not in reading.devices:
        return
    device, first = reading.devices[found[1]]
    left = int(found[2])
    if left >= 0:
        device = msgspec.structs.replace(device, unaccounted_bytes=reported(left * MIB, where))
        reading.devices[found[1]] = (device, first)


RULES = (
    Rule("fitting params to ", re.compile(r"fitting params to device memory(?: \.\.\.|, for bugs)"), _fit_starts),
    Rule("params_fit_impl: ", re.compile(r"params_fit_impl: getting device memory data for initial"), _fit_starts),
    Rule("cannot meet free memory target", re.compile(r"memory targets? of (\d{1,12}) MiB"), _fit_margin),
    Rule("cannot fulfill margin", re.compile(r"cannot fulfill margin of (\d{1,12}) MiB"), _fit_margin),  # until 2026
    Rule(
        "context size reduced from",
        re.compile(r"context size reduced from \d+ to \d+ -> need (\d{1,9}) MiB less memory"),
        _shrunk,
    ),
    Rule("can be met on all devices", re.compile("targets for free memory can be met on all devices"), _no_overflow),
    Rule("will leave ", re.compile(r"will leave \d+ >= (\d{1,12}) MiB of free device"), _fits),
    Rule(
        "params_fit_impl: ",
        re.compile(r"params_fit_impl:\s+-\s+(\S+) \(.+\):\s+\d+ layers(?: \(\s*(\d{1,12}) overflowing\))?,"),
        _fit_device,
    ),
    Rule("set by user", re.compile(r"(n_gpu_layers already|context size) set by user to (\d{1,12})"), _set_by_user),
    Rule(
        "projected to use ",
        re.compile(r"projected to use (\d{1,9}) MiB of device memory vs\. (\d{1,9}) MiB of free"),
        _projected,
    ),
    Rule(
        "breakdown_print: | ",
        re.compile(
            r"\|\s+- (\w{1,32}) \([^|]{1,100}\)\s*\|\s*\d{1,9} =\s*\d{1,9} \+ \([^()]{1,80}\) \+\s*(-?\d{1,9}) \|"
        ),
        _breakdown,
    ),
)
