"""The memory of llama.cpp, and of what is built on it, with any settings: to the byte, and at once."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple, Self

from unslow.app.fit.chosen_mix import mix_named
from unslow.app.fit.models import Found, as_quant
from unslow.app.view.memory_choices import Asked
from unslow.app.view.memory_price import Priced, PriceFactors, Speeds
from unslow.app.view.memory_words import Layers, summary, verdict_with
from unslow.facts.blueprint import Blueprint
from unslow.think.adapt.remembered import LastingJudgement
from unslow.think.fit.llama_cpp import shown_needs
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, verdict_of
from unslow.think.hardware import Hardware, Room
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.quality import cost_of
from unslow.think.setup import Setup
from unslow.think.view.memory_bars import Asked as AskedOf
from unslow.think.view.memory_bars import Stranger, bar_of, bar_without_size
from unslow.think.view.report import MemoryBar, WhatIf

_MOST_NOTES = 6000
"""Answers and parts of models that are remembered; each is a few hundred bytes."""


class Subject(NamedTuple):
    """A model on a machine, as it runs now or would by itself."""

    found: Found
    setup: Setup
    """As it is now."""
    now: Asked
    knobs: tuple[str, ...]
    """The sliders that it has."""
    strangers: tuple[tuple[Stranger, ...], ...] = ()
    """For each room."""
    priced: Priced | None = None
    """None where nobody knows how fast the machine is."""
    expected: PriceFactors = PriceFactors()
    """What the report, with all that was seen, expects of what runs."""
    unified: bool = False
    """Whether conversations share one cache, and its context, also where their number is changed."""
    rotates: bool = False
    """Whether its build rotates quantised keys and values, by which they lose less."""
    command: Callable[[Asked, Settings], str] = lambda *_: ""
    notes: tuple[str, ...] = ()

    @property
    def hardware(self) -> Hardware:
        """That it runs on."""
        return self.setup.hardware

    @property
    def base(self) -> Settings:
        """As they are now."""
        return self.setup.settings

    def with_rooms(self, rooms: tuple[Room, ...]) -> Self:
        """The same with other memory of its GPUs."""
        return self._replace(setup=self.setup._replace(hardware=self.hardware._replace(rooms=rooms)))

    @property
    def is_shared(self) -> bool:
        """Whether several conversations share one context now."""
        return self.base.unified and self.base.slots > 1

    @property
    def everything(self) -> int:
        """All layers in the count of llama.cpp, the output as one more."""
        return self.found.blueprint.count("block_count") + 1


class Laid(NamedTuple):
    """What settings ask of every memory."""

    settings: Settings
    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    workspace_bytes: int
    estimated: str


class LlamaAnswers:
    """Answers for one subject; what was worked out is kept."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._lasting = LastingJudgement(_MOST_NOTES)
        self._variants: dict[str, Pieces] = {}
        self._lock = Lock()

    def answer(self, asked: Asked) -> WhatIf:
        """What would be with these settings."""
        with self._lock, self._lasting.resumed():
            return self._answer(asked)

    def _answer(self, asked: Asked) -> WhatIf:
        subject, pieces = self.subject, self._pieces(asked.quant)
        laid = self._laid_out(pieces.blueprint, asked)
        layers = self.layers(asked)
        verdict = verdict_with(verdict_of(laid.devices, laid.host, layers_fit=False), layers, laid.devices)
        speeds = self._speeds(pieces, laid.settings) if verdict != "does_not_fit" else None
        return WhatIf(
            settings=asked.shown(subject.knobs),
            bars=self.bars(laid),
            verdict=verdict,
            summary=summary(verdict, laid.devices, laid.host, layers, speeds.decode if speeds else None),
            decode_tokens_per_s=speeds.decode if speeds else None,
            prefill_tokens_per_s=speeds.prefill if speeds else None,
            command=subject.command(asked, laid.settings),
            notes=self._notes(asked, laid),
        )

    def laid_out(self, asked: Asked) -> Laid:
        """What settings ask of every memory, as `unslow fit` counts."""
        with self._lock, self._lasting.resumed():
            return self._laid_out(self._pieces(asked.quant).blueprint, asked)

    def _laid_out(self, blueprint: Blueprint, asked: Asked) -> Laid:
        setup = self.subject.setup._replace(blueprint=blueprint, settings=self.settings(asked))
        devices, host = shown_needs(setup)
        return Laid(setup.settings, devices, host, setup.workspace_bytes, setup.memory().estimated)

    def settings(self, asked: Asked) -> Settings:
        """As llama.cpp would take them."""
        subject, base = self.subject, self.subject.base
        same_cache = asked.kv_type == subject.now.kv_type
        kind = asked.kv_type.upper()
        shares = base.unified if asked.slots == subject.now.slots else subject.unified
        same_context = (asked.context, asked.slots) == (subject.now.context, subject.now.slots)
        return base._replace(
            context=base.context if same_context else asked.context * (1 if shares else asked.slots),
            slots=asked.slots,
            unified=shares,
            outputs=asked.slots if base.outputs == base.slots else base.outputs,
            key_type=base.key_type if same_cache else kind,
            value_type=base.value_type if same_cache else kind,
            gpu_layers=-1 if not subject.hardware.rooms or asked.gpu_layers >= subject.everything else asked.gpu_layers,
        )

    def _pieces(self, quant: str) -> Pieces:
        """The model in a quant; each is made once."""
        if quant not in self._variants:
            found = self.subject.found
            same = quant == self.subject.now.quant
            plan = found.blueprint if same else as_quant(found.blueprint, mix_named(quant).name)
            self._variants[quant] = Pieces(plan)
        return self._variants[quant]

    def layers(self, asked: Asked) -> Layers:
        """Where the layers lie."""
        subject = self.subject
        first = subject.base.experts_on_cpu or (subject.priced.whole_first if subject.priced else 0)
        whole = max(0, subject.everything - asked.gpu_layers)
        return Layers(asked.gpu_layers, subject.everything, max(0, first - whole) if subject.hardware.rooms else 0)

    def _speeds(self, pieces: Pieces, settings: Settings) -> Speeds | None:
        priced = self.subject.priced
        return priced.speeds(pieces, self.subject.hardware, settings).like(self.subject.expected) if priced else None

    def price_now(self) -> Speeds | None:
        """What runs, by its price alone."""
        subject = self.subject
        pieces = self._pieces(subject.now.quant)
        return subject.priced.speeds(pieces, subject.hardware, subject.base) if subject.priced else None

    def bars(self, laid: Laid) -> tuple[MemoryBar, ...]:
        """A bar for each device and for the host; one for both where they share a memory."""
        hardware = self.subject.hardware
        strangers, shared = self.subject.strangers or ((),) * len(hardware.rooms), hardware.is_unified
        bars, host = [], parts_of(laid.host)
        for n, (room, shown, others) in enumerate(zip(hardware.rooms, laid.devices, strangers, strict=True)):
            own, beside = parts_of(shown), 0
            if shared and not n:
                own, beside = Parts(*map(sum, zip(own, host, strict=True))), sum(host)
            later = laid.workspace_bytes if shown.total_bytes else 0
            bars.append(bar_of(room, AskedOf(own, room.context_bytes, later, beside), others))
        return (*bars, *(() if shared else (host_bar(hardware.host_room, host),)))

    def _notes(self, asked: Asked, laid: Laid) -> tuple[str, ...]:
        subject, settings = self.subject, laid.settings
        notes = [f"compute buffers are estimated: {laid.estimated}"] if laid.estimated else []
        trained = subject.found.blueprint.count("context_length")
        if trained and settings.slot_context > trained:
            notes.append(f"the model was trained for {trained:,} tokens; a slot has {settings.slot_context:,}")
        if settings.streams > 1:
            notes.append(f"{settings.slots} conversations of {settings.slot_context:,} tokens each")
        if asked.quant != subject.now.quant:
            notes.append(f"as {asked.quant} it is another file")
        return (*notes, *self._quality(asked, settings), *subject.notes)

    def _quality(self, asked: Asked, settings: Settings) -> Sequence[str]:
        """What other types cost in answers, where that was published."""
        found, now = self.subject.found, self.subject.now
        if asked.quant == now.quant and asked.kv_type == now.kv_type:
            return ()
        kinds = settings.key_type, settings.value_type
        architecture = found.blueprint.architecture
        cost = cost_of(asked.quant, *kinds, found.parameters, architecture, rotated=self.subject.rotates)
        told = [cost.weights.words if asked.quant != now.quant else "", cost.cache.words]
        return [words for words in told if words]


def parts_of(shown: MemoryShown) -> Parts:
    """What a model asks of a memory."""
    return Parts(shown.weights_bytes, shown.kv_bytes, shown.compute_bytes)


def host_bar(room: Room | None, parts: Parts) -> MemoryBar:
    """The bar of the host's memory."""
    if room is None:
        return bar_without_size("host", parts, is_host=True)
    return bar_of(room, AskedOf(parts), is_host=True)


def asked_now(found: Found, setup: Setup) -> Asked:
    """Where the sliders stand for a setup."""
    base, everything = setup.settings, found.blueprint.count("block_count") + 1
    layers = everything if base.gpu_layers < 0 else min(base.gpu_layers, everything)
    return Asked(
        context=base.context if base.unified else max(1, base.context // base.slots),
        gpu_layers=layers if setup.hardware.rooms else 0,
        kv_type=base.cache_types,
        quant=found.quant if found.quant not in ("", "?") else "as it is",
        slots=base.slots,
    )


def knobs_of(setup: Setup) -> tuple[str, ...]:
    """The sliders of a setup: without a GPU there are no layers to move."""
    return ("context", *(("gpu_layers",) if setup.hardware.rooms else ()), "kv_type", "quant", "slots")
