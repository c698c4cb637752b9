"""This machine among the devices that are compared: what `unslow predict` says of it."""

from unslow.app.buy.speeds import Work
from unslow.app.hardware import HardwareRequest, find_hardware
from unslow.app.predict.answer import answer
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.buy.prices import Purse, times
from unslow.think.buy.report import Fits, RigShown, SpeedShown
from unslow.think.buy.rigs import Rig
from unslow.think.hardware import Hardware
from unslow.think.speed.report import PlacementShown, PredictionReport, RateShown

HERE = frozenset({"here", "auto", "this machine"})
"""Words for this machine."""


def this_machine(system: System, work: Work, purse: Purse) -> RigShown:
    """The GPUs of this machine, or its processors where it has none."""
    hardware = find_hardware(system, HardwareRequest())
    if isinstance(hardware, Unknown):
        return RigShown(
            name="here", device="this machine", vendor="", kind="", year=None, memory_bytes=None, bytes_per_s=None,
            tdp_w=None, reason=hardware.why,
        )  # fmt: skip
    report = answer(system, _request(work)) if work.model else None
    return shown_here(hardware, purse, report)


def rig_here(system: System) -> Rig:
    """The GPUs of this machine, as the catalogue has them; UserError where it has none."""
    hardware = find_hardware(system, HardwareRequest())
    if isinstance(hardware, Unknown):
        raise UserError(f"this machine: {hardware.why}", "name what you have")
    if hardware.device.kind == "cpu":
        raise UserError("this machine has no GPU to count on", "leave it out, or name what you have")
    sizes = hardware.device.memory_sizes_bytes
    held = hardware.rooms[0].capacity_bytes if hardware.rooms else 0
    return Rig(hardware.device, hardware.device_count, min(sizes, key=lambda size: abs(size - held)) if sizes else 0)


def _request(work: Work) -> PredictRequest:
    return PredictRequest.from_flags(
        {
            "model": work.model, "quant": work.quant, "depth": work.context, "batch": work.users,
            "prompt": work.prompt, "kv_type": work.kv_type,
        }
    )  # fmt: skip


def shown_here(hardware: Hardware, purse: Purse, report: PredictionReport | None) -> RigShown:
    """This machine with what was predicted of it, if anything was."""
    device, count = hardware.device, hardware.device_count
    price = purse.of(device, "here", smallest=device.kind != "cpu")
    price = price if "here" in purse.own else times(price, count)
    speed = _speed(report) if report else None
    rate, watts = speed.decode_tokens_per_s.mid if speed else None, count * device.tdp_w
    rooms = hardware.rooms or ((hardware.host_room,) if hardware.host_room else ())
    return RigShown(
        name=f"here: {count}x {device.name}" if count > 1 else f"here: {device.name}",
        count=count,
        device=device.name,
        vendor=device.vendor,
        kind=device.kind,
        year=device.year or None,
        memory_bytes=sum(room.capacity_bytes for room in rooms) or None,
        bytes_per_s=device.memory_bytes_per_s or None,
        tdp_w=watts or None,
        price=price,
        quant=report.model.quant if report else "",
        fits=_fits(report),
        speed=speed,
        price_per_token_per_s=price.amount / rate if price and rate else None,
        tokens_per_joule_by_tdp=rate / watts if rate and watts else None,
        reason=report.reason if report else "",
        notes=hardware.notes,
    )


def _fits(report: PredictionReport | None) -> Fits:
    if report is None or report.decode is None:
        return "no" if report and "fit" in report.reason else "unknown"
    return "whole" if report.placement is None else _placed(report.placement)


def _placed(placement: PlacementShown) -> Fits:
    if placement.fits is None:
        return "unknown"
    return "whole" if placement.gpu_layers >= placement.all_gpu_layers and not placement.experts_on_cpu else "partly"


def _speed(report: PredictionReport) -> SpeedShown | None:
    if report.decode is None or report.prefill is None:
        return None
    rate, users = report.decode.tokens_per_s, max(1, int(report.settings.get("batch", 1)))
    each = RateShown(low=rate.low / users, mid=rate.mid / users, high=rate.high / users)
    placement = report.placement
    everything = placement is None or placement.gpu_layers >= placement.all_gpu_layers
    return SpeedShown(
        decode_tokens_per_s=rate,
        each_tokens_per_s=each,
        prefill_tokens_per_s=report.prefill.tokens_per_s,
        first_token_s=report.prefill.time_to_first_token_s,
        gpu_layers=None if everything or placement is None else placement.gpu_layers,
        experts_on_cpu=placement.experts_on_cpu if placement else 0,
    )
