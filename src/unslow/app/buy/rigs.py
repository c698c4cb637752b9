"""A rig of the report: what the catalogue knows of it, its price, and what it does with the model."""

from unslow.app.buy.speeds import Rated
from unslow.app.hardware import HardwareRequest, named_hardware
from unslow.app.named_devices import parse_device_list
from unslow.app.predict.cases import hardware_request
from unslow.catalog.device_names import misspelt, near_devices, parse_device_name
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.think.buy.prices import Purse, times
from unslow.think.buy.report import Fits, RigShown
from unslow.think.buy.rigs import Rig
from unslow.think.hardware import Hardware


def parse_rig(text: str) -> Rig:
    """The rig that a name means: `2x RTX 3090`, `M4 Max 64GB`; UserError where it is none, or of several kinds."""
    names = parse_device_list((text,))
    if len({name.casefold() for name in names}) > 1:
        raise UserError(f"{text}: unlike devices together are not predicted", "name one kind: 2x RTX 3090")
    hardware = typed_hardware(names[0], len(names))
    if isinstance(hardware, Unknown) and "software of its own" not in hardware.why:
        raise UserError(hardware.why, hardware.how_to_get)
    if isinstance(hardware, Unknown):
        raise UserError(f"{text}: {hardware.why}", "leave it out")
    several = bool(hardware.device.memory_sizes_bytes) and bool(hardware.rooms)
    size = hardware.rooms[0].capacity_bytes if several else 0
    return Rig(hardware.device, len(names), size)


def typed_hardware(name: str, count: int = 1) -> Hardware | Unknown:
    """Where a device is that somebody typed; UserError where a slip would make another device of it."""
    hardware = named_hardware(name, count, HardwareRequest())
    if isinstance(hardware, Hardware) and (word := misspelt(name, hardware.device)):
        near = ", ".join(device.name for device in near_devices(parse_device_name(name).words))
        raise UserError(f"{name!r}: what is {word!r}?", f"did you mean one of {near}?")
    return hardware


def hardware_of(rig: Rig, request: PredictRequest) -> Hardware | Unknown:
    """Where it is, as the predictor takes it."""
    return named_hardware(rig.label, rig.number, hardware_request(request))


def rig_shown(rig: Rig, purse: Purse, quant: str = "", answer: Rated | Unknown | None = None) -> RigShown:
    """The rig with its price and with what was predicted, if anything was."""
    device, price = rig.device, times(purse.of(rig.device, rig.label, smallest=rig.is_smallest), rig.number)
    speed = answer.speed if isinstance(answer, Rated) else None
    rate = speed.decode_tokens_per_s.mid if speed else None
    watts = rig.number * device.tdp_w
    return RigShown(
        name=rig.name,
        count=rig.number,
        device=device.name,
        vendor=device.vendor,
        kind=device.kind,
        year=device.year or None,
        memory_bytes=rig.number * rig.each_bytes or None,
        bytes_per_s=device.memory_bytes_per_s or None,
        tdp_w=watts or None,
        price=price,
        quant=quant,
        fits=_fits(answer),
        speed=speed,
        price_per_token_per_s=price.amount / rate if price and rate else None,
        tokens_per_joule_by_tdp=rate / watts if rate and watts else None,
        reason=answer.why if isinstance(answer, Unknown) else "",
        notes=answer.notes if isinstance(answer, Rated) else (),
    )


def _fits(answer: Rated | Unknown | None) -> Fits:
    if isinstance(answer, Rated):
        return answer.fits
    return "no" if answer and "fit" in answer.why else "unknown"
