"""What could be bought: cards and machines, this machine, their speed with a model, and the buyer's own prices."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from unslow.buy.report import SHIPPED, AskedShown, BuyerPrices, Fits, PriceShown, RigShown, SpeedShown, price_key
from unslow.catalog.device_names import misspelt, near_devices
from unslow.catalog.devices import Device, parse_device_name
from unslow.commands._buyer import Work, parse_amount
from unslow.commands._hardware import HardwareRequest, find_hardware, named_hardware, parse_device_list
from unslow.commands.models.find import FoundModel, find_gguf_model
from unslow.commands.models.stored import expand_path
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import Case, case_of, hardware_request, speeds_of
from unslow.commands.predict.speeds import answer
from unslow.facts.errors import UserError
from unslow.facts.values import GIB, Unknown
from unslow.look.system import LookError, System
from unslow.think.hardware import Hardware
from unslow.think.memo import remember_once
from unslow.think.physics.terms import Interval
from unslow.think.speed.report import PredictionReport, RateShown, shown_rate

HERE = frozenset({"here", "auto", "this machine"})  # Words for this machine
UNFIT = Unknown("the whole model does not fit", "use more memory, a smaller quant or a shorter context")
"""The answer of what can't hold all of a model."""
_EVERYTHING = 10_000  # More layers than any model has: all of them
_NOT_CARDS = ("laptop", "max-q", "sxm", "gh200", "mi250", "mi3", "cmp ", "a10g", "arc a730m", "arc a770m")
"""Parts of names of what is soldered into something, or needs a board of its own."""
_MOBILE_RADEON = ("rx 6600m", "rx 6700m", "rx 6700s", "rx 6800m", "rx 6800s", "rx 6850m", "rx 7600m", "rx 7900m")
_LEAST_BYTES = 4 * GIB  # A card with less runs nothing that anybody would buy it for
_HOURLY = re.compile(r"(?<!\s)\s*(?:/|per|an)\s*h(?:our|r)?\s*$", re.IGNORECASE)
_PER_MILLION = re.compile(r"(?<!\s)\s*(?:/|per)\s*(?:1?\s?m(?:tok|illion(?: tokens)?)?)\s*$", re.IGNORECASE)
_LONGEST = 200
_MOST_BYTES = 200_000  # A file of prices is a page or two
_TABLES = ("prices", "rents", "apis")
_HINT = 'a table [prices] with lines such as "RTX 3090" = 700; also [rents], [apis], currency and electricity'


class Rig(NamedTuple):
    """So many devices of a kind."""

    device: Device
    number: int = 1
    memory_bytes: int = 0  # Of one, where it is sold with several sizes; 0 for the device's own

    @property
    def each_bytes(self) -> int:
        """The memory of one of them as labelled; 0 where it is not known."""
        return self.memory_bytes or self.device.memory_bytes or self.device.driver_bytes

    @property
    def label(self) -> str:
        """One of them, with its size where there are several."""
        return f"{self.device.name} {self.memory_bytes // GIB}GB" if self.memory_bytes else self.device.name

    @property
    def name(self) -> str:
        """As a person says it."""
        return f"{self.number}x {self.label}" if self.number > 1 else self.label

    @property
    def is_smallest(self) -> bool:
        """Whether it is the size that its maker's first price is for."""
        return not self.memory_bytes or self.memory_bytes == min(self.device.memory_sizes_bytes)

    def is_one_of(self, other: "Rig") -> bool:
        """Whether it is such a device, of such a size where the other has one, once or several times."""
        return self.device.name == other.device.name and other.memory_bytes in (0, self.memory_bytes)


class ModelRating(NamedTuple):
    """A rig with a model."""

    fits: Fits
    speed: SpeedShown
    notes: tuple[str, ...] = ()


class PricesFile(NamedTuple):
    """What a file of prices says."""

    prices: tuple[tuple[str, float], ...] = ()
    rents: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    currency: str = ""
    electricity: float | None = None


def buyable_rigs(devices: Iterable[Device]) -> Iterator[Rig]:
    """What a person can buy: cards alone and in pairs, machines with one memory."""
    for rig in rigs_of(d for d in devices if d.memory_bytes_per_s):
        if rig.device.kind == "unified" and rig.each_bytes:
            yield rig
        elif is_card(rig.device) and rig.each_bytes >= _LEAST_BYTES:
            yield rig
            yield rig._replace(number=2)


def rigs_of(devices: Iterable[Device]) -> Iterator[Rig]:
    """Each device once, in every size that it is sold with."""
    for device in devices:
        if device.memory_bytes or not device.memory_sizes_bytes:
            yield Rig(device)
        else:
            yield from (Rig(device, 1, size) for size in device.memory_sizes_bytes)


def is_card(device: Device) -> bool:
    """Whether it is a card that can be put into a computer."""
    name = device.name.lower()
    return device.kind == "gpu" and not any(part in name for part in (*_NOT_CARDS, *_MOBILE_RADEON))


def parse_rig(text: str) -> Rig:
    """The rig that a name means: `2x RTX 3090`, `M4 Max 64GB`; UserError where it is none, or of several kinds."""
    names = parse_device_list((text,))
    if len({name.casefold() for name in names}) > 1:
        raise UserError(f"{text}: different devices together are not predicted", "name one kind, such as 2x RTX 3090")
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
        raise UserError(f"{name!r}: unknown word {word!r}", f"did you mean one of {near}?")
    return hardware


def find_work(system: System, work: Work) -> tuple[FoundModel, PredictRequest, AskedShown]:
    """The model, the question that is put to every device, and both as the report has them."""
    found, request = find_gguf_model(system, work.model, work.quant), _request(work)
    return found, request, AskedShown(
        model=found.name, quant=found.quant, parameters=found.parameters, stands_for=found.stands_for,
        estimated_as=found.estimate.mix.name if found.estimate else "",
        weights_bytes=found.blueprint.weights_bytes, context=request.depth, users=request.batch,
        prompt_tokens=request.prompt, kv_type=request.kv_type,
        context_trained=found.blueprint.count("context_length"),
    )  # fmt: skip


def _request(work: Work) -> PredictRequest:
    return PredictRequest.from_flags(
        {
            "model": work.model, "quant": work.quant, "depth": work.context, "batch": work.users,
            "prompt": work.prompt, "kv_type": work.kv_type,
        }
    )  # fmt: skip


def rate_rig(rig: Rig, found: FoundModel, request: PredictRequest) -> ModelRating | Unknown:
    """The rig with as much of the model on it as fits."""
    hardware = hardware_of(rig, request)
    return hardware if isinstance(hardware, Unknown) else rate_model(found, hardware, request)


def hardware_of(rig: Rig, request: PredictRequest) -> Hardware | Unknown:
    """Where it is, as the predictor takes it."""
    return named_hardware(rig.label, rig.number, hardware_request(request))


def rate_model(
    found: FoundModel, hardware: Hardware, request: PredictRequest, *, whole: bool = False
) -> ModelRating | Unknown:
    """The speed with as much on the GPUs as fits; with `whole`, Unknown where not all of it does."""
    if whole and hardware.rooms:
        tensors = found.blueprint.tensors
        tables = ("token_embd.weight", "per_layer_token_embd.weight")  # only looked up: they may stay on the host
        placed = remember_once(found.blueprint, "placed", lambda: sum(t.bytes for t in tensors if t.name not in tables))
        if placed > sum(room.usable_bytes for room in hardware.rooms):
            return UNFIT
        request = request._replace(gpu_layers=_EVERYTHING)
    case = case_of(found, hardware, request)
    if isinstance(case, Unknown):
        return case
    fits = fit_of(case)
    if whole and fits == "no":
        return UNFIT
    shared = dict.fromkeys(room.note for room in hardware.rooms if room.unified and room.note)
    return ModelRating(fits, speed_of(case, case.request), (*case.trust.reasons, *shared))


def fit_of(case: Case) -> Fits:
    """How much of the model the devices hold."""
    placement, fits = case.placement, case.fits
    if fits is None:
        return "unknown"
    if not fits or (case.asked.backend != "cpu" and not placement.gpu_layers):
        return "no"
    everything = not case.changed and (case.asked.backend == "cpu" or placement.gpu_layers >= placement.all_layers)
    return "whole" if everything and not placement.experts_on_cpu else "partly"


def speed_of(case: Case, request: PredictRequest) -> SpeedShown:
    """Decode, prompt and first token of a case, as `unslow predict` has them."""
    speeds = speeds_of(case, request)
    rate = speeds.decode.rate
    return SpeedShown(
        decode_tokens_per_s=shown_rate(rate),
        each_tokens_per_s=shown_rate(Interval(*(end / request.batch for end in rate))),
        prefill_tokens_per_s=shown_rate(speeds.prefill),
        first_token_s=shown_rate(speeds.first_token_s(request)),
        gpu_layers=case.asked.gpu_layers,
        experts_on_cpu=case.placement.experts_on_cpu,
        backend=case.asked.backend,
    )


def rig_shown(rig: Rig, prices: BuyerPrices, quant: str = "", answer: ModelRating | Unknown | None = None) -> RigShown:
    """The rig with its price and with what was predicted, if anything was."""
    price = prices.of(rig.device, rig.label, smallest=rig.is_smallest, count=rig.number)
    shown = _device_shown(rig.device, rig.number, price, answer.speed if isinstance(answer, ModelRating) else None)
    shown = msgspec.structs.replace(shown, name=rig.name, memory_bytes=rig.number * rig.each_bytes or None, quant=quant)
    if isinstance(answer, ModelRating):
        return msgspec.structs.replace(shown, fits=answer.fits, notes=answer.notes)
    if answer is None:
        return shown
    return msgspec.structs.replace(shown, fits="no" if "fit" in answer.why else "unknown", reason=answer.why)


def _device_shown(device: Device, count: int, price: PriceShown | None, speed: SpeedShown | None) -> RigShown:
    rate, watts = speed.decode_tokens_per_s.mid if speed else None, count * device.tdp_w
    return RigShown(
        name=device.name,
        count=count,
        device=device.name,
        vendor=device.vendor,
        kind=device.kind,
        year=device.year or None,
        memory_bytes=None,
        bytes_per_s=device.memory_bytes_per_s or None,
        tdp_w=watts or None,
        price=price,
        speed=speed,
        price_per_token_per_s=price.amount / rate if price and rate else None,
        tokens_per_joule_by_tdp=rate / watts if rate and watts else None,
    )


def this_machine(system: System, work: Work, prices: BuyerPrices) -> RigShown:
    """The GPUs of this machine, or its processors where it has none."""
    hardware = find_hardware(system, HardwareRequest())
    if isinstance(hardware, Unknown):
        return RigShown(
            name="here", device="this machine", vendor="", kind="", year=None, memory_bytes=None, bytes_per_s=None,
            tdp_w=None, reason=hardware.why,
        )  # fmt: skip
    report = answer(system, _request(work)) if work.model else None
    return rig_shown_here(hardware, prices, report)


def rig_shown_here(hardware: Hardware, prices: BuyerPrices, report: PredictionReport | None) -> RigShown:
    """This machine with what was predicted of it, if anything was."""
    device, count = hardware.device, hardware.device_count
    paid = 1 if "here" in prices.own else count  # of all of them together
    price = prices.of(device, "here", smallest=device.kind != "cpu", count=paid)
    rooms = hardware.rooms or ((hardware.host_room,) if hardware.host_room else ())
    shown = msgspec.structs.replace(
        _device_shown(device, count, price, _speed_shown(report) if report else None),
        name=f"here: {count}x {device.name}" if count > 1 else f"here: {device.name}",
        memory_bytes=sum(room.capacity_bytes for room in rooms) or None,
        notes=hardware.notes,
    )
    if report is None:
        return shown
    placement = report.placement
    fits: Fits = "whole"
    if report.decode is None:
        fits = "no" if "fit" in report.reason else "unknown"
    elif placement and placement.fits is None:
        fits = "unknown"
    elif placement and (placement.gpu_layers < placement.all_gpu_layers or placement.experts_on_cpu):
        fits = "partly"
    return msgspec.structs.replace(shown, quant=report.model.quant, fits=fits, reason=report.reason)


def _speed_shown(report: PredictionReport) -> SpeedShown | None:
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


def rig_here(system: System) -> Rig:
    """The GPUs of this machine, as the catalog has them; UserError where it has none."""
    hardware = find_hardware(system, HardwareRequest())
    if isinstance(hardware, Unknown):
        raise UserError(f"this machine: {hardware.why}", "name the device")
    if hardware.device.kind == "cpu":
        raise UserError("this machine has no usable GPU", "leave it out, or name the device")
    sizes = hardware.device.memory_sizes_bytes
    held = hardware.rooms[0].capacity_bytes if hardware.rooms else 0
    return Rig(hardware.device, hardware.device_count, min(sizes, key=lambda size: abs(size - held)) if sizes else 0)


def read_prices(system: System, work: Work) -> tuple[BuyerPrices, PricesFile]:
    """All prices that the buyer gave, the flags before the file; UserError where a name is none of the catalog."""
    told = read_prices_file(system, work.prices)
    given = [*told.prices, *(named_amount(text, "--price") for text in work.price)]
    own = {price_key(device_key(name)): amount for name, amount in given}
    return BuyerPrices(own, (work.currency or told.currency or SHIPPED)[:12], system.now()[:10]), told


def read_prices_file(system: System, path: str) -> PricesFile:
    """The buyer's file; nothing where none is named; UserError where it can't be read or says something else."""
    if not path:
        return PricesFile()
    try:
        tables = tomllib.loads(system.read_bytes(expand_path(path), _MOST_BYTES).decode("utf-8"))
    except LookError as error:
        raise UserError(f"--prices {path}: {error.why}", _HINT) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--prices {path} is not valid TOML: {error}", _HINT) from error
    if unknown := sorted(set(tables) - {*_TABLES, "currency", "electricity"}):
        raise UserError(f"--prices {path}: unknown key {unknown[0]!r}", _HINT)
    found = {name: tables.get(name, {}) for name in _TABLES}
    if not all(isinstance(table, dict) for table in found.values()):
        raise UserError(f"--prices {path}: prices must be in tables", _HINT)
    electricity = tables.get("electricity")
    try:
        return PricesFile(
            prices=tuple((str(name), _amount(value)) for name, value in found["prices"].items()),
            rents=tuple(f"{name}={_amount(value)}" for name, value in found["rents"].items()),
            apis=tuple(f"{name}={value}" for name, value in found["apis"].items()),
            currency=str(tables.get("currency", "")),
            electricity=None if electricity is None else _amount(electricity),
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"--prices {path}: a price must be a number of at least 0", _HINT) from error


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise TypeError(value)
    return float(value)


def device_key(name: str) -> str:
    """The device as prices are looked up by; with its size of memory where a name says one and several are sold."""
    if name.casefold() in HERE:
        return "here"
    hardware = typed_hardware(name)
    if isinstance(hardware, Unknown):
        raise UserError(f"{name}: {hardware.why}", hardware.how_to_get)
    if hardware.device.memory_sizes_bytes and hardware.rooms:
        return f"{hardware.device.name} {hardware.rooms[0].capacity_bytes // GIB}GB"
    return hardware.device.name


def named_amount(text: str, flag: str) -> tuple[str, float]:
    """A name and an amount from `RTX 3090=700` or `H100=2.5/h`; UserError where one of them is missing."""
    name, between, amount = text[:_LONGEST].rpartition("=")
    if not between or not name.strip():
        example = '"H100=2.5/h"' if flag == "--rent" else '"RTX 3090=700"'
        raise UserError(f"{flag} must be NAME=AMOUNT (got {text[:40]!r})", f"write it like {flag} {example}")
    return name.strip(), amount_of(_HOURLY.sub("", amount), flag)


def api_amounts(text: str, flag: str = "--api") -> tuple[str, float, float]:
    """A name, which may be empty, and what a million tokens cost in and out, from `0.5/1.5 per M`."""
    name, _, amounts = text[:_LONGEST].rpartition("=")
    parts = _PER_MILLION.sub("", amounts).split("/")
    if len(parts) > 2:  # noqa: PLR2004 (in and out)
        raise UserError(f"{flag} must have one or two amounts (got {text[:40]!r})", f'such as {flag} "0.5/1.5 per M"')
    numbers = [amount_of(part, flag) for part in parts]
    return name.strip(), numbers[0], numbers[-1]


def amount_of(text: str, what: str = "the price") -> float:
    """An amount from `700`, `1,499`, `$1.5k` or `2m`; UserError where it is none."""
    try:
        return parse_amount(text)
    except ValueError:
        raise UserError(f"{what}: {text[:40]!r} is not an amount", "write it like 700 or 1499.50") from None
