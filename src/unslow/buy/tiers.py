"""Answers `unslow tiers`: what each size of memory runs, gone through for every model of the catalog."""

import re
from collections.abc import Iterable, Sequence
from statistics import median, median_low
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.buy.rigs import ModelRating, Rig, hardware_of, is_card, rate_model, rigs_of
from unslow.catalog.devices import Device, all_devices
from unslow.catalog.models import WellKnown, well_known
from unslow.catalog.quants import find_mix
from unslow.commands._hardware import named_room
from unslow.commands._output import Progress, Silent
from unslow.commands.models.find import FoundModel
from unslow.commands.models.well_known import mix_named
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import backend_of, setup_of
from unslow.commands.tiers import TiersRequest
from unslow.facts.errors import UserError
from unslow.facts.values import GIB, Unknown
from unslow.look.system import System
from unslow.think.blueprints import made_up
from unslow.think.fit.gguf import longest_context
from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement, remember_once
from unslow.think.setup import Setup
from unslow.think.speed.report import RateShown

TIERS_SCHEMA = "unslow.tiers/1"
CARDS = tuple(GIB * size for size in (8, 12, 16, 24, 32, 48))
UNIFIED = tuple(GIB * size for size in (16, 32, 64, 128))
_MOST_TIERS = 24
_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K", "IQ2_XXS")
_SHIPPED, _SHIPPED_MIX = "MXFP4", "MXFP4_MOE"  # What a publisher ships itself, which is not made finer, and its mix
_SHIPPED_BITS = 4.25  # Of MXFP4: 4 bits, and 8 for each block of 32
_NEAR = 1.4  # How many times the memory a model may need and still be named among those that just do not fit
_ROUGHLY = 1.1  # By so much the growth of a quant may be off by its bits alone
_SAVED_AT_MOST = 1.5  # Of what a coarser quant saves by its bits alone: mixes differ by model
_SINCE = 2020  # Cards before that are seldom bought for this
_USUAL_TOKENS = 32768  # What models are trained for at least since 2024, but for a few
_ABOUT_AS_LARGE = 0.85  # So much of the parameters of an earlier version a later one has to have, to be shown instead
_AT_LEAST = 0.9  # Of the usual bits for each weight: no model has less
_VERSION = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)(?![\d.bBmMxX])")
_MADE_OF = re.compile(r"distill|nemotron-|coder|-vl-|mtp|hermes")
_ARE_NO_CHAT = ("embedding", "t5", "bert", "-mtp")
"""Parts of names of models that write nothing, and of those that are others with a layer more."""
_NOTES = (
    "fits: all layers and an f16 KV cache in device memory, with 1 GiB free",
    "MoE models also run with experts in host memory: `unslow devices --model` shows how fast",
    "one model per family, the newest of about that size; models trained for fewer than 32,768 tokens come last",
    "typical device: median bandwidth among devices since 2020 with this much memory; of cards, the cheaper half",
)


class RunsShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that fits completely."""

    model: str
    parameters: int
    is_sparse: bool  # Whether it is a mixture of experts
    quant: str  # The finest common quant that fits
    weights_bytes: int
    most_context: int | None  # Maximum context length that fits, up to the trained one
    tokens_per_s: RateShown | None  # On the typical device of the tier
    prefill_tokens_per_s: RateShown | None = None
    backend: str = ""  # Backend of both predictions
    alike: int = 0  # Other models in the catalog with the same shape


class MissesShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that barely does not fit, and what would make it fit."""

    model: str
    parameters: int
    quant: str
    lacks_bytes: int
    would_fit: str  # What to change; empty if nothing common helps


class TierShown(msgspec.Struct, frozen=True, kw_only=True):
    """A memory size."""

    memory_bytes: int
    unified: bool
    device: str
    """The typical one: median bandwidth among devices of this size, of cards the cheaper half; empty if none."""
    devices: int  # Devices in the catalog with this much memory
    bytes_per_s: float | None
    runs: tuple[RunsShown, ...] = ()  # The largest first
    misses: tuple[MissesShown, ...] = ()


class TiersReport(msgspec.Struct, frozen=True, kw_only=True):
    """What each memory size runs."""

    schema: str = TIERS_SCHEMA
    unslow_version: str
    context: int
    quant_least: str
    models: int  # Models that were tried
    tiers: tuple[TierShown, ...] = ()
    notes: tuple[str, ...] = ()


class _Tier(NamedTuple):
    memory_bytes: int
    unified: bool
    hardware: Hardware
    device: str = ""
    devices: int = 0


@one_judgement()
def tiers(_system: System, request: TiersRequest, progress: Progress | None = None) -> TiersReport:
    """What fits whole on each size of memory, at which quant, and how fast a typical device is with it."""
    question, said = PredictRequest(depth=request.context), progress or Silent()
    both = request.memory or request.unified
    cards, unified = (request.memory, request.unified) if both else (CARDS, UNIFIED)
    if len(cards) + len(unified) > _MOST_TIERS:
        raise UserError(f"at most {_MOST_TIERS} memory sizes (got {len(cards) + len(unified)})", "leave some out")
    every = [*(_tier(size, unified=False) for size in cards), *(_tier(size, unified=True) for size in unified)]
    groups = models_by_shape(well_known().values(), request.context)
    least = mix_named(request.quant_least).name
    shown = []
    for n, tier in enumerate(every):
        said.step(f"trying {len(groups)} model shapes per memory size", n / len(every))
        shown.append(_TierModels(tier, question, least, request.rows).tier_shown(groups))
    return TiersReport(
        unslow_version=__version__,
        context=request.context,
        quant_least=least,
        models=sum(len(group) for group in groups),
        tiers=tuple(shown),
        notes=_NOTES,
    )


def _tier(size: int, *, unified: bool) -> _Tier:
    rig, count = typical_rig(all_devices(), size, unified=unified)
    hardware = hardware_of(rig, PredictRequest()) if rig else None
    if rig is None or not isinstance(hardware, Hardware):
        if unified:
            raise UserError(f"no device has {size // GIB} GB of unified memory", "try --unified 32,64,128")
        room = named_room(f"{size / GIB:g}GB")
        return _Tier(size, unified, Hardware((room,), devices=all_devices()[:1]))
    return _Tier(size, unified, hardware, rig.label, count)


def typical_rig(devices: Iterable[Device], memory_bytes: int, *, unified: bool) -> tuple[Rig | None, int]:
    """The device of the middle bandwidth among those with so much memory, and how many there are."""
    found = [
        rig for rig in rigs_of(devices)
        if rig.each_bytes == memory_bytes and rig.device.memory_bytes_per_s and rig.device.year >= _SINCE
        and (rig.device.kind == "unified" if unified else is_card(rig.device))
    ]  # fmt: skip
    found = [rig for rig in found if rig.device.launch_usd] or found  # what people buy has a price that is known
    if not found:
        return None, 0
    count = len(found)
    if not unified:  # of cards those of the cheaper half: others are made for workstations
        usual = median(rig.device.launch_usd for rig in found)
        found = [rig for rig in found if rig.device.launch_usd <= usual]
    middle = median_low(rig.device.memory_bytes_per_s for rig in found)
    alike = [rig for rig in found if rig.device.memory_bytes_per_s == middle]
    return max(alike, key=lambda rig: (rig.device.is_verified, rig.device.year, rig.device.name)), count


class _TierModels:
    def __init__(self, tier: _Tier, question: PredictRequest, least: str, rows: int) -> None:
        self._tier, self._question, self._rows = tier, question, rows
        self._least = find_mix(least).bits_per_weight
        self._quants = [q for q in _QUANTS if find_mix(q).bits_per_weight >= self._least] or [least]
        self._room = tier.hardware.rooms[0].usable_bytes

    def tier_shown(self, groups: Sequence[Sequence[WellKnown]]) -> TierShown:
        """The tier, with the largest models that fit and the smallest that do not."""
        runs: dict[str, RunsShown] = {}
        missed: list[tuple[WellKnown, int]] = []
        for group in groups:
            if len(runs) >= self._rows:
                break
            if model_family(group[0]) in runs:
                continue
            found = self._finest(group[0])
            if isinstance(found, int):
                missed.append((group[0], found))
            else:
                runs[model_family(group[0])] = self._newest(group, groups) or self._runs(group, *found)
        near = [(model, lacks) for model, lacks in missed if lacks < (_NEAR - 1) * self._room]
        misses = []
        for model, lacks in sorted(near, key=lambda pair: pair[1])[:2]:
            quant = self._names(model)[-1]
            name, size, instead = model.name, model.parameters, self._would_fit(model, quant, lacks)
            misses.append(MissesShown(model=name, parameters=size, quant=quant, lacks_bytes=lacks, would_fit=instead))
        tier = self._tier
        return TierShown(
            memory_bytes=tier.memory_bytes, unified=tier.unified, device=tier.device, devices=tier.devices,
            bytes_per_s=tier.hardware.device.memory_bytes_per_s if tier.device else None,
            runs=tuple(sorted(runs.values(), key=lambda one: -one.parameters)),
            misses=tuple(misses),
        )  # fmt: skip

    def _newest(self, group: Sequence[WellKnown], groups: Sequence[Sequence[WellKnown]]) -> RunsShown | None:
        """A later version that is about as large and fits too, if there is one."""
        later = newer_versions((one[0] for one in groups), group[0])
        found = ((model, self._finest(model)) for model in later)
        fitting = next(((model, fit) for model, fit in found if not isinstance(fit, int)), None)
        if fitting is None:
            return None
        return self._runs(next(one for one in groups if one[0] is fitting[0]), *fitting[1])

    def _finest(self, model: WellKnown) -> tuple[str, Setup] | int:
        """The finest quant that fits, and the question about its memory; what the coarsest lacks where none does."""
        names = self._names(model)
        weights = model.parameters * _bits(model, names[-1]) / 8
        if _AT_LEAST * weights > self._room:  # alone larger than the memory, whatever is rounded
            return int(weights) - self._room
        question = self._setup_for(model, names[-1])
        if (left := question.left()) < 0:
            return int(-left)
        # The finer quants whose weights about fit into what the coarsest leaves, the finest first
        weights, least = question.blueprint.weights_bytes, find_mix(names[-1]).bits_per_weight
        sizes = [(name, weights * find_mix(name).bits_per_weight / least) for name in names[:-1]]
        finer = [name for name, size in sizes if size - weights < _ROUGHLY * left]
        tried = ((name, self._setup_for(model, name)) for name in finer)
        return next(((name, asked) for name, asked in tried if asked.left() >= 0), (names[-1], question))

    def _names(self, model: WellKnown) -> list[str]:
        """The quants that there are of a model: where its publisher ships one of 4 bits, that one."""
        return [_SHIPPED_MIX] if model.published == _SHIPPED else self._quants

    def _setup_for(self, model: WellKnown, quant: str) -> Setup:
        hardware, question = self._tier.hardware, self._question
        plan = remember_once(well_known, (model.name, quant), lambda: made_up(model, quant))
        asked = setup_of(plan, hardware, question, backend_of(hardware.device, question))
        if asked is None:
            raise UserError("the usable memory of this size is unknown", "leave it out")
        return asked

    def _runs(self, group: Sequence[WellKnown], quant: str, asked: Setup) -> RunsShown:
        model, plan = group[0], asked.blueprint
        answer: ModelRating | Unknown | None = None
        if self._tier.device:
            found = FoundModel(model.name, plan, quant, "catalogue", model.parameters)
            answer = rate_model(found, self._tier.hardware, self._question, whole=True)
        return RunsShown(
            model=model.name,
            parameters=model.parameters,
            is_sparse=bool(model.shape.experts),
            quant=quant,
            weights_bytes=plan.weights_bytes,
            most_context=longest_context(asked),
            tokens_per_s=answer.speed.decode_tokens_per_s if isinstance(answer, ModelRating) else None,
            prefill_tokens_per_s=answer.speed.prefill_tokens_per_s if isinstance(answer, ModelRating) else None,
            backend=answer.speed.backend if isinstance(answer, ModelRating) else "",
            alike=len(group) - 1,
        )

    def _would_fit(self, model: WellKnown, quant: str, lacks: int) -> str:
        if quant in _QUANTS:
            for name in _QUANTS[_QUANTS.index(quant) + 1 :]:
                saved = model.parameters * (_bits(model, quant) - _bits(model, name)) / 8
                if _SAVED_AT_MOST * saved < lacks:
                    continue
                if self._setup_for(model, name).left() >= 0:
                    return f"as {name}, at some loss of quality"
        if self._tier.unified:  # its host has no other memory
            return ""
        return "with experts in host memory" if model.shape.experts else "on two such cards"


def models_by_shape(models: Iterable[WellKnown], context: int) -> list[list[WellKnown]]:
    """Models that chat and were trained for such a context, those of one shape together, the largest first."""
    groups: dict[tuple[str, int, str], list[WellKnown]] = {}
    # The newest first, what was made of another model after it
    ordered = sorted(models, key=lambda m: (bool(_MADE_OF.search(m.name.lower())), -_version(m), m.name))
    for model in ordered:
        names = f"{model.name} {model.architecture}".lower()
        if model.shape.context_trained >= context and not any(part in names for part in _ARE_NO_CHAT):
            groups.setdefault((model.architecture, model.parameters // 10**8, model.published), []).append(model)
    return sorted(  # those of a time when few tokens were usual come last: the catalog has no dates
        groups.values(), key=lambda group: (group[0].shape.context_trained < _USUAL_TOKENS, -group[0].parameters)
    )


def newer_versions(models: Iterable[WellKnown], than: WellKnown) -> list[WellKnown]:
    """Later versions of the same family that are about as large, the newest first."""
    found = [
        model for model in models
        if model_family(model) == model_family(than) and _version(model) > _version(than)
        and model.parameters >= _ABOUT_AS_LARGE * than.parameters and not _MADE_OF.search(model.name.lower())
    ]  # fmt: skip
    return sorted(found, key=lambda model: (-_version(model), -model.parameters))


def model_family(model: WellKnown) -> str:
    """The first word of its name."""
    found = re.match(r"[a-z]+", model.name.lower())
    return found[0] if found else model.name


def _version(model: WellKnown) -> float:
    found = _VERSION.search(model.name)
    return float(found[1]) if found else 0.0


def _bits(model: WellKnown, quant: str) -> float:
    """For each weight; what only spares experts has as many as its experts, about."""
    is_shipped = model.published == _SHIPPED and quant == _SHIPPED_MIX
    return _SHIPPED_BITS if is_shipped else find_mix(quant).bits_per_weight
