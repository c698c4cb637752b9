"""The places of the sliders, and what somebody asks for in their words, checked."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from unslow.catalog.mixes import mixes_from_large_to_small
from unslow.commands._request import Field, Option
from unslow.commands._values import COUNT
from unslow.facts.errors import UserError
from unslow.think.view.report import Choice, Slider

KnobName = Literal["context", "gpu_layers", "kv_type", "quant", "slots"]
SHORTEST_CONTEXT = 2048
"""A shorter one is no use for a conversation."""
LIMITS = {"context": (256, 2**27), "slots": (1, 256)}
"""As `unslow fit` takes them."""
_USUAL_SLOTS = (1, 2, 4, 8, 16)


class Asked(NamedTuple):
    """Where the sliders stand."""

    context: int
    gpu_layers: int
    kv_type: str
    quant: str
    slots: int

    def shown(self, knobs: Iterable[str]) -> dict[str, str]:
        """As the page has it."""
        return {knob: str(getattr(self, knob)) for knob in knobs}


def context_choices(now: int, trained: int) -> tuple[Choice, ...]:
    """Powers of two up to what the model was trained for, with that and what is now."""
    powers = (2**power for power in range(8, 28))
    places = {n for n in powers if SHORTEST_CONTEXT <= n <= trained} | {now, trained}
    return tuple(
        Choice(value=str(n), label=f"{n:,} tokens{', as trained' if n == trained else ''}") for n in sorted(places)
    )


def layer_choices(everything: int) -> tuple[Choice, ...]:
    """Every number of layers."""

    def label(layers: int) -> str:
        return "none" if not layers else f"all {everything}" if layers == everything else f"{layers} of {everything}"

    return tuple(Choice(value=str(n), label=label(n)) for n in range(everything + 1))


def cache_choices(now: str, allowed: Iterable[str], bits: Mapping[str, float]) -> tuple[Choice, ...]:
    """Types of keys and values, the smallest first."""
    kinds = sorted({now, *allowed}, key=lambda kind: (bits.get(kind.partition("/")[0], 0.0), kind))
    return tuple(Choice(value=kind, label=kind) for kind in kinds)


def quant_choices(now: str, bits: float) -> tuple[Choice, ...]:
    """The mixes that publishers offer as a matter of course, and what is now, the smallest first."""
    places = {mix.name: mix.bits_per_weight for mix in mixes_from_large_to_small()}
    places[now] = bits
    return tuple(Choice(value=name, label=name) for name in sorted(places, key=lambda name: (places[name], name)))


def slot_choices(now: int, *, shared: bool = False) -> tuple[Choice, ...]:
    """So many conversations at a time; those of now may share one context."""

    def label(slots: int) -> str:
        return f"{slots}, sharing it" if shared and slots == now else str(slots)

    return tuple(Choice(value=str(n), label=label(n)) for n in sorted({now, *_USUAL_SLOTS}))


def parsed(sliders: Sequence[Slider], settings: Mapping[str, str]) -> dict[str, str]:
    """A value for every slider: as asked, else as it stands; UserError for what can't be."""
    known = {slider.knob: slider for slider in sliders}
    strange = sorted(set(settings) - set(known))
    if strange:
        raise UserError(f"there is no slider {strange[0][:40]!r}", f"there are {', '.join(known) or 'none here'}")
    return {knob: _value(slider, settings.get(knob, slider.value)) for knob, slider in known.items()}


def _value(slider: Slider, value: str) -> str:
    values = [choice.value for choice in slider.choices]
    if value in values:
        return value
    low, high = LIMITS.get(slider.knob, (0, -1))
    if high < low:
        raise UserError(f"{slider.knob} {value[:40]!r} can't be", f"it is one of {', '.join(_few(values))}")
    field = Field(
        slider.knob,
        Option("its slider moves between them", name=slider.knob, least=low, most=high),
        COUNT,
        None,
        several=False,
    )
    return str(field.value(value[:40]))


def _few(values: Sequence[str]) -> Sequence[str]:
    return values if len(values) <= 24 else (values[0], values[1], "...", values[-1])  # noqa: PLR2004 (what can be read)
