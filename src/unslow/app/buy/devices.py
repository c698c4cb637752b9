"""Answers `unslow devices`: any number of them side by side."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow import __version__
from unslow.app.buy.here import HERE, this_machine
from unslow.app.buy.purse import purse_of, read_told
from unslow.app.buy.rigs import hardware_of, parse_rig, rig_shown
from unslow.app.buy.speeds import Rated, find_work, rated
from unslow.app.fit.models import Found
from unslow.app.progress import Progress, Silent
from unslow.catalog.devices import all_devices
from unslow.commands.devices import DevicesRequest
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.buy.devices import notes_on, ordered, shared_notes, work_notes
from unslow.think.buy.prices import Purse
from unslow.think.buy.report import AskedShown, DevicesReport, RigShown
from unslow.think.buy.rigs import Rig, rigs_of

_USUAL = ("RTX 5060 Ti 16GB", "RTX 3090", "RTX 4090", "RTX 5090", "RX 7900 XTX", "DGX Spark", "Strix Halo")
"""What is compared where nothing is named: what people ask about most, from small to large."""


class _Asked(NamedTuple):
    found: Found
    request: PredictRequest


@one_judgement()
def devices(system: System, request: DevicesRequest, progress: Progress | None = None) -> DevicesReport:
    """The devices that are named, or all; with a model also what they do with it."""
    told = read_told(system, request.prices)
    purse = purse_of(system, told, request.price, request.currency)
    work = find_work(system, request) if request.model else None
    asked = _Asked(work[0], work[1]) if work else None
    shown = list(_shown(system, request, purse, asked, progress or Silent()))
    order = request.sort or ("" if request.names else "speed" if work else "name")
    return DevicesReport(
        unslow_version=__version__,
        asked=work[2] if work else None,
        sorted_by=order,
        currency=purse.currency,
        catalogue_devices=len(_catalogue()),
        devices=ordered(shown, order),
        notes=(*_work_notes(work[2] if work else None), *notes_on(shown, purse, has_model=bool(work))),
    )


def _work_notes(asked: AskedShown | None) -> tuple[str, ...]:
    return (*work_notes(asked), *shared_notes(asked))


def _shown(
    system: System, request: DevicesRequest, purse: Purse, asked: _Asked | None, progress: Progress
) -> Iterator[RigShown]:
    if any(name.casefold() in HERE for name in request.names):
        yield this_machine(system, request, purse)
    every = _rigs(request)
    for n, rig in enumerate(every):
        if n % 16 == 0:
            what = f"predicting {len(every)} devices" if asked else "reading the catalogue"
            progress.step(what, n / len(every))
        yield rig_shown(rig, purse, asked.found.quant if asked else "", _answer(rig, asked) if asked else None)


def _answer(rig: Rig, asked: _Asked) -> Rated | Unknown:
    hardware = hardware_of(rig, asked.request)
    return hardware if isinstance(hardware, Unknown) else rated(asked.found, hardware, asked.request)


def _rigs(request: DevicesRequest) -> list[Rig]:
    """Those that are named; else those of the catalogue that the filters leave; UserError where nothing is left."""
    named = [parse_rig(name) for name in request.names if name.casefold() not in HERE]
    if request.names:
        return named
    filtered = request.all or request.vendor or request.min_memory
    if not filtered:
        return [parse_rig(name) for name in _USUAL]
    every = [rig for rig in _catalogue() if _is_wanted(rig, request)]
    if not every:
        raise UserError("no device of the catalogue is left", "try another --vendor or a smaller --min-memory")
    return every


def _catalogue() -> list[Rig]:
    """Every GPU and every machine with one memory."""
    return list(rigs_of(device for device in all_devices() if device.kind in ("gpu", "unified")))


def _is_wanted(rig: Rig, request: DevicesRequest) -> bool:
    of_vendor = not request.vendor or rig.device.vendor.casefold() == request.vendor.casefold()
    return of_vendor and rig.each_bytes >= request.min_memory
