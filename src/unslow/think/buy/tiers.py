"""The typical device of a size of memory, and the models that are worth asking about."""

import re
from collections.abc import Iterable
from statistics import median, median_low

from unslow.catalog.device import Device
from unslow.catalog.models import WellKnown
from unslow.facts.units import GIB
from unslow.think.buy.rigs import Rig, is_card, rigs_of

CARDS = tuple(GIB * size for size in (8, 12, 16, 24, 32, 48))
UNIFIED = tuple(GIB * size for size in (16, 32, 64, 128))
_SINCE = 2020
"""Cards before that are seldom bought for this."""
_USUAL_TOKENS = 32768
"""What models are trained for at least since 2024, but for a few."""
_ABOUT_AS_LARGE = 0.85
"""So much of the parameters of an earlier version a later one has to have, to be shown instead."""
_AT_LEAST = 0.9
"""Of the usual bits for each weight: no model has less."""
_VERSION = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)(?![\d.bBmMxX])")
_MADE_OF = re.compile(r"distill|nemotron-|coder|-vl-|mtp|hermes")
_ARE_NO_CHAT = ("embedding", "t5", "bert", "-mtp")
"""Parts of names of models that write nothing, and of those that are others with a layer more."""


def typical(devices: Iterable[Device], memory_bytes: int, *, unified: bool) -> tuple[Rig | None, int]:
    """The device of the middle bandwidth among those with so much memory, and how many there are.

    Of cards those of the cheaper half: others are made for workstations.
    """
    found = [
        rig for rig in rigs_of(devices)
        if rig.each_bytes == memory_bytes and rig.device.memory_bytes_per_s and rig.device.year >= _SINCE
        and (rig.device.kind == "unified" if unified else is_card(rig.device))
    ]  # fmt: skip
    found = [rig for rig in found if rig.device.launch_usd] or found  # what people buy has a price that is known
    if not found:
        return None, 0
    count = len(found)
    if not unified:
        usual = median(rig.device.launch_usd for rig in found)
        found = [rig for rig in found if rig.device.launch_usd <= usual]
    middle = median_low(rig.device.memory_bytes_per_s for rig in found)
    alike = [rig for rig in found if rig.device.memory_bytes_per_s == middle]
    return max(alike, key=lambda rig: (rig.device.verified, rig.device.year, rig.device.name)), count


def shapes(models: Iterable[WellKnown], context: int) -> list[list[WellKnown]]:
    """Models that chat and were trained for such a context, those of one shape together.

    The largest first, but those of a time when few tokens were usual last: the catalogue has no dates.
    """
    groups: dict[tuple[str, int, str], list[WellKnown]] = {}
    for model in models:
        if model.shape.context_trained >= context and not _is_no_chat(model):
            groups.setdefault((model.architecture, model.parameters // 10**8, model.published), []).append(model)
    ordered = [sorted(group, key=_newest_first) for group in groups.values()]
    return sorted(ordered, key=lambda group: (_is_short(group[0]), -group[0].parameters, _newest_first(group[0])))


def _is_short(model: WellKnown) -> bool:
    """Whether it was trained for fewer tokens than is usual by now, as most models of 2023 and before were."""
    return model.shape.context_trained < _USUAL_TOKENS


def newer(models: Iterable[WellKnown], than: WellKnown) -> list[WellKnown]:
    """Later versions of the same family that are about as large, the newest first."""
    found = [
        model for model in models
        if family(model) == family(than) and _version(model) > _version(than)
        and model.parameters >= _ABOUT_AS_LARGE * than.parameters and not _MADE_OF.search(model.name.lower())
    ]  # fmt: skip
    return sorted(found, key=lambda model: (-_version(model), -model.parameters))


def family(model: WellKnown) -> str:
    """The first word of its name."""
    found = re.match(r"[a-z]+", model.name.lower())
    return found[0] if found else model.name


def _is_no_chat(model: WellKnown) -> bool:
    return any(part in model.name.lower() or part in model.architecture.lower() for part in _ARE_NO_CHAT)


def _newest_first(model: WellKnown) -> tuple[bool, float, str]:
    """What was made of another model comes after it."""
    return bool(_MADE_OF.search(model.name.lower())), -_version(model), model.name


def _version(model: WellKnown) -> float:
    """As its name has it; 0 where it has none."""
    found = _VERSION.search(model.name)
    return float(found[1]) if found else 0.0


def surely_too_large(model: WellKnown, bits_per_weight: float, room_bytes: int) -> bool:
    """Whether its weights alone are larger than the memory, whatever is rounded."""
    return _AT_LEAST * model.parameters * bits_per_weight / 8 > room_bytes
