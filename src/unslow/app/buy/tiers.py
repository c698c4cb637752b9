"""Answers `unslow tiers`: what each size of memory runs, gone through for every model of the catalogue."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow import __version__
from unslow.app.buy.rigs import hardware_of
from unslow.app.buy.speeds import Rated, rated
from unslow.app.fit.chosen_mix import mix_named
from unslow.app.fit.models import Found
from unslow.app.named_devices import named_room
from unslow.app.predict.cases import backend_of, setup_of
from unslow.app.progress import Progress, Silent
from unslow.catalog.devices import all_devices
from unslow.catalog.mixes import find_mix
from unslow.catalog.models import WellKnown, well_known
from unslow.commands.predict import PredictRequest
from unslow.commands.tiers import TiersRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.errors import UserError
from unslow.facts.units import GIB
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement, remembered
from unslow.think.blueprints.made_up import made_up
from unslow.think.buy.tiers import CARDS, UNIFIED, family, newer, shapes, surely_too_large, typical
from unslow.think.buy.tiers_report import MissesShown, RunsShown, TierShown, TiersReport
from unslow.think.fit.context_left import longest_context
from unslow.think.hardware import Hardware
from unslow.think.setup import Setup

_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K", "IQ2_XXS")
_MISSES = 2
_NEAR = 1.4
"""How many times the memory a model may need and still be named among those that just do not fit."""
_ROUGHLY = 1.1
"""By so much the growth of a quant may be off by its bits alone."""
_SAVED_AT_MOST = 1.5
"""Of what a coarser quant saves by its bits alone: mixes differ by model."""
_MOST_TIERS = 24
_SHIPPED_BITS = 4.25
"""Of MXFP4: 4 bits, and 8 for each block of 32."""


class _Tier(NamedTuple):
    memory_bytes: int
    unified: bool
    hardware: Hardware
    device: str
    devices: int


@one_judgement()
def tiers(_system: System, request: TiersRequest, progress: Progress | None = None) -> TiersReport:
    """What fits whole on each size of memory, at which quant, and how fast a typical device is with it."""
    question, said = PredictRequest(depth=request.context), progress or Silent()
    every, groups = _tiers(request), shapes(well_known().values(), request.context)
    least = mix_named(request.quant_least).name
    shown = []
    for n, tier in enumerate(every):
        said.step(f"going through {len(groups)} shapes of models for {len(every)} sizes of memory", n / len(every))
        shown.append(_Counter(tier, question, least, request.rows).shown(groups))
    return TiersReport(
        unslow_version=__version__,
        context=request.context,
        quant_least=least,
        models=sum(len(group) for group in groups),
        tiers=tuple(shown),
        notes=_NOTES,
    )


_NOTES = (
    "whole: nothing lies on the host, 1 GiB stays free, and the context is held in f16",
    "models with experts (MoE) also run where they do not fit whole: `unslow devices --model` shows how fast",
    "one of each family, the newest version about as large; what was trained for less than 32,768 tokens comes last",
    "the typical device has the middle bandwidth of those since 2020 with so much memory, of cards of the cheaper half",
)


def _tiers(request: TiersRequest) -> list[_Tier]:
    both = request.memory or request.unified
    cards, unified = (request.memory, request.unified) if both else (CARDS, UNIFIED)
    if len(cards) + len(unified) > _MOST_TIERS:
        raise UserError(f"{len(cards) + len(unified)} sizes of memory are too many", f"{_MOST_TIERS} at most")
    return [*(_tier(size, unified=False) for size in cards), *(_tier(size, unified=True) for size in unified)]


def _tier(size: int, *, unified: bool) -> _Tier:
    rig, count = typical(all_devices(), size, unified=unified)
    hardware = hardware_of(rig, PredictRequest()) if rig else None
    if rig is None or not isinstance(hardware, Hardware):
        if unified:
            raise UserError(f"no device of the catalogue shares {size // GIB} GB", "try --unified 32,64,128")
        room = named_room(f"{size / GIB:g}GB")
        return _Tier(size, unified, Hardware((room,), devices=all_devices()[:1]), "", 0)
    return _Tier(size, unified, hardware, rig.label, count)


class _Counter:
    """Goes through the models for one size of memory."""

    def __init__(self, tier: _Tier, question: PredictRequest, least: str, rows: int) -> None:
        self._tier, self._question, self._rows = tier, question, rows
        self._least = find_mix(least).bits_per_weight
        self._quants = [q for q in _QUANTS if find_mix(q).bits_per_weight >= self._least] or [least]
        self._room = tier.hardware.rooms[0].usable_bytes

    def shown(self, groups: Sequence[Sequence[WellKnown]]) -> TierShown:
        """The tier, with the largest models that fit and the smallest that do not."""
        runs: dict[str, RunsShown] = {}
        missed: list[tuple[WellKnown, int]] = []
        for group in groups:
            if len(runs) >= self._rows:
                break
            if family(group[0]) in runs:
                continue
            found = self._finest(group[0])
            if isinstance(found, int):
                missed.append((group[0], found))
            else:
                runs[family(group[0])] = self._newest(group, groups) or self._runs(group, *found)
        tier = self._tier
        return TierShown(
            memory_bytes=tier.memory_bytes, unified=tier.unified, device=tier.device, devices=tier.devices,
            bytes_per_s=tier.hardware.device.memory_bytes_per_s if tier.device else None,
            runs=tuple(sorted(runs.values(), key=lambda one: -one.parameters)),
            misses=tuple(self._misses(missed)),
        )  # fmt: skip

    def _newest(self, group: Sequence[WellKnown], groups: Sequence[Sequence[WellKnown]]) -> RunsShown | None:
        """A later version that is about as large and fits too, if there is one."""
        later = newer((one[0] for one in groups), group[0])
        found = ((model, self._finest(model)) for model in later)
        fitting = next(((model, fit) for model, fit in found if not isinstance(fit, int)), None)
        if fitting is None:
            return None
        return self._runs(next(one for one in groups if one[0] is fitting[0]), *fitting[1])

    def _finest(self, model: WellKnown) -> tuple[str, Setup] | int:
        """The finest quant that fits, and the question about its memory; what the coarsest lacks where none does."""
        names = self._names(model)
        if surely_too_large(model, _bits(model, names[-1]), self._room):
            return int(model.parameters * _bits(model, names[-1]) / 8) - self._room
        question = self._asked(_plan(model, names[-1]))
        if (left := question.left()) < 0:
            return int(-left)
        finer = self._affordable(question, left, names)
        tried = ((name, self._asked(_plan(model, name))) for name in finer)
        return next(((name, asked) for name, asked in tried if asked.left() >= 0), (names[-1], question))

    def _affordable(self, coarsest: Setup, left: float, names: Sequence[str]) -> list[str]:
        """The finer quants whose weights about fit into what the coarsest leaves, the finest first."""
        weights, least = sum(t.bytes for t in coarsest.blueprint.tensors), find_mix(names[-1]).bits_per_weight
        sizes = [(name, weights * find_mix(name).bits_per_weight / least) for name in names[:-1]]
        return [name for name, size in sizes if size - weights < _ROUGHLY * left]

    def _names(self, model: WellKnown) -> list[str]:
        """The quants that there are of a model: where its publisher ships one, that one."""
        shipped = shipped_mix(model)
        return [shipped] if shipped else self._quants

    def _asked(self, plan: Blueprint) -> Setup:
        hardware, question = self._tier.hardware, self._question
        asked = setup_of(plan, hardware, question, backend_of(hardware.device, question))
        if asked is None:
            raise UserError("the memory of this size is not known", "leave it out")
        return asked

    def _runs(self, group: Sequence[WellKnown], quant: str, asked: Setup) -> RunsShown:
        model, plan = group[0], asked.blueprint
        answer = self._rated(model, quant, plan)
        return RunsShown(
            model=model.name,
            parameters=model.parameters,
            is_sparse=bool(model.shape.experts),
            quant=quant,
            weights_bytes=sum(t.bytes for t in plan.tensors),
            most_context=longest_context(asked),
            tokens_per_s=answer.speed.decode_tokens_per_s if isinstance(answer, Rated) else None,
            prefill_tokens_per_s=answer.speed.prefill_tokens_per_s if isinstance(answer, Rated) else None,
            backend=answer.speed.backend if isinstance(answer, Rated) else "",
            alike=len(group) - 1,
        )

    def _rated(self, model: WellKnown, quant: str, plan: Blueprint) -> Rated | Unknown | None:
        if not self._tier.device:
            return None
        found = Found(model.name, plan, quant, "catalogue", model.parameters)
        return rated(found, self._tier.hardware, self._question, whole=True)

    def _misses(self, missed: Sequence[tuple[WellKnown, int]]) -> Iterator[MissesShown]:
        """Those that lack the least."""
        near = [(model, lacks) for model, lacks in missed if lacks < (_NEAR - 1) * self._room]
        for model, lacks in sorted(near, key=lambda pair: pair[1])[:_MISSES]:
            quant = self._names(model)[-1]
            yield MissesShown(
                model=model.name, parameters=model.parameters, quant=quant, lacks_bytes=lacks,
                would_fit=self._would_fit(model, quant, lacks),
            )  # fmt: skip

    def _would_fit(self, model: WellKnown, quant: str, lacks: int) -> str:
        if quant in _QUANTS:
            for name in _QUANTS[_QUANTS.index(quant) + 1 :]:
                saved = model.parameters * (_bits(model, quant) - _bits(model, name)) / 8
                if _SAVED_AT_MOST * saved < lacks:
                    continue
                if self._asked(_plan(model, name)).left() >= 0:
                    return f"as {name}, which costs quality"
        if self._tier.unified:  # its host has no other memory
            return ""
        return "with experts on the host" if model.shape.experts else "on two such cards"


def shipped_mix(model: WellKnown) -> str:
    """The mix of 4 bits that a publisher ships itself, which nobody makes finer; empty for all others."""
    return "MXFP4_MOE" if model.published == "MXFP4" else ""


def _bits(model: WellKnown, quant: str) -> float:
    """For each weight; what only spares experts has as many as its experts, about."""
    return _SHIPPED_BITS if quant == shipped_mix(model) else find_mix(quant).bits_per_weight


def _plan(model: WellKnown, quant: str) -> Blueprint:
    return remembered(well_known, (model.name, quant), lambda: made_up(model, quant))
