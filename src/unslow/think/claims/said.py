"""A sentence with all that it names, and which of it belongs to which number."""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from unslow.think.claims.amounts import Amount, amounts
from unslow.think.claims.devices_in_text import DeviceSaid
from unslow.think.claims.hosts import Host, host_said, is_on_cpu
from unslow.think.claims.kinds_of_devices import devices_said
from unslow.think.claims.models_in_text import ModelSaid, models_said
from unslow.think.claims.quants_in_text import QuantSaid, quants_said
from unslow.think.claims.settings_in_text import Settings, settings_said
from unslow.think.claims.text import plain

_CLAUSE = re.compile(r"[,;]\s|\.\s|\s(?:and|but|vs\.?|versus|while|whereas|against)\s")
Placed = TypeVar("Placed", ModelSaid, QuantSaid, DeviceSaid)


class Said(NamedTuple):
    """What one sentence says; `text` is plain, with the names of models and devices blanked in `rest`."""

    original: str
    text: str
    rest: str
    amounts: tuple[Amount, ...]
    models: tuple[ModelSaid, ...]
    quants: tuple[QuantSaid, ...]
    cache_quants: tuple[QuantSaid, ...]
    devices: tuple[DeviceSaid, ...]
    settings: Settings
    host: Host | None
    on_cpu: bool
    carried: tuple[str, ...] = ()
    """What was taken from an earlier sentence."""

    def model_at(self, place: int) -> ModelSaid | None:
        """The model that a number at this place belongs to."""
        return _belonging(self.models, place, self.text)

    def quant_at(self, place: int) -> QuantSaid | None:
        """The quant, likewise."""
        return _belonging(self.quants, place, self.text)

    def quants_at(self, place: int) -> list[QuantSaid | None]:
        """Every quant that a number may belong to: all of them where it is the only speed of the sentence."""
        alone = len([a for a in self.amounts if a.kind == "speed"]) == 1
        return list(self.quants) if alone and self.quants else [self.quant_at(place)]

    def device_at(self, place: int) -> DeviceSaid | None:
        """The device, likewise."""
        return _belonging(self.devices, place, self.text)

    @property
    def cache_type(self) -> str:
        """The type of the KV cache, where it is named."""
        return self.cache_quants[0].label if self.cache_quants else ""


def parse_sentence(original: str) -> Said:
    """All that a sentence names."""
    text = plain(original)
    numbers = amounts(text)
    devices, quants = devices_said(text, original, numbers), quants_said(text)
    models = [m for m in models_said(text) if not any(d.start <= m.start < d.end for d in devices)]
    rest = _blanked(
        text, [*((m.start, m.end) for m in models), *((d.start, d.end) for d in devices if " or " not in d.label)]
    )
    return Said(
        original=original,
        text=text,
        rest=rest,
        amounts=tuple(numbers),
        models=tuple(models),
        quants=tuple(q for q in quants if not q.of_cache),
        cache_quants=tuple(q for q in quants if q.of_cache),
        devices=tuple(devices),
        settings=settings_said(rest, text),
        host=host_said(text),
        on_cpu=not devices and is_on_cpu(text),
    )


def with_earlier(said: Said, earlier: Said | None) -> Said:
    """The sentence with the model, quant and device of the one before where it names none."""
    if earlier is None:
        return said
    taken: dict[str, tuple[ModelSaid, ...] | tuple[QuantSaid, ...] | tuple[DeviceSaid, ...]] = {}
    several = sum(a.kind == "speed" for a in said.amounts) > 1  # a row of speeds has a model for each
    if not said.models and earlier.models and not several:
        taken["models"] = earlier.models[-1:]
        if not said.quants:
            taken["quants"] = earlier.quants[-1:]
    if not said.devices and not said.on_cpu and earlier.devices:
        taken["devices"] = earlier.devices[-1:]
    labels = tuple(one.label for many in taken.values() for one in many)
    return said._replace(**taken, carried=labels)  # type: ignore[arg-type]


def _belonging(named: Sequence[Placed], place: int, text: str) -> Placed | None:
    """What the clause of the number names, else the last before it, else the first after it."""
    starts = [m.end() for m in _CLAUSE.finditer(text, 0, place)]
    end = _CLAUSE.search(text, place)
    inside = [n for n in named if (starts[-1] if starts else 0) <= n.start < (end.start() if end else len(text))]
    for choice in (inside, list(named)):
        before = [n for n in choice if n.start <= place]
        if before:
            return before[-1]
        if choice:
            return choice[0]
    return None


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + "_" * (end - start) + text[end:]
    return text
