"""The memory of a GGUF model with any settings, to the byte and at once, and how fast it would be."""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple, Self

from unslow.catalog.learned_speed import spread_of
from unslow.commands.models.find import FoundModel, as_quant
from unslow.commands.models.well_known import mix_named
from unslow.facts.machine import Gpu
from unslow.facts.model import Blueprint
from unslow.page.view import MemoryBar, WhatIf
from unslow.page.what_if import memory_view
from unslow.page.what_if.memory_view import AskedSettings
from unslow.think.fit.answers import verdict_of
from unslow.think.fit.gguf import shown_needs
from unslow.think.fit.report import MemoryShown
from unslow.think.hardware import Hardware, Room
from unslow.think.memo import LastingJudgement
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.options import spread_group
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Pricing
from unslow.think.plan.quality import quality_cost
from unslow.think.report import Range
from unslow.think.setup import Setup
from unslow.think.speed.rows import CPU, PREFILL

_SHARE = 4  # Of a short context, what a prompt takes, and what an answer does: a quarter each
_MOST_NOTES = 6000  # Answers and parts of models that are remembered; each is a few hundred bytes


class PriceFactors(NamedTuple):
    """The report's expectation of what runs over its price: three factors of the price's middle, None where none."""

    group: str = ""
    decode: Range | None = None
    prefill: Range | None = None


class Speeds(NamedTuple):
    """Tokens per second of one conversation, and of its prompt."""

    decode: Range
    prefill: Range
    group: str = ""  # What its interval was learned from, such as models that lie in part with the host

    def scaled_to(self, expected: "PriceFactors") -> "Speeds":
        """As the report speaks of what runs, for settings of the same kind; others keep their own price."""
        if self.group != expected.group:
            return self
        pairs = (self.decode, expected.decode), (self.prefill, expected.prefill)
        decode, prefill = (_scaled_range(speed.mid, by.low, by.mid, by.high) if by else speed for speed, by in pairs)
        return Speeds(decode, prefill, self.group)


class PricedWork(NamedTuple):
    """The work that is done by one conversation, and by how many threads."""

    threads: int
    work: Work = Work()
    whole_first: int = 0
    """Of how many layers, from the first, the movable matrices lie with the host, wherever the layer does."""

    def speeds(self, pieces: Pieces, hardware: Hardware, settings: Settings) -> Speeds:
        """With these settings; GPUs have what their free memory is a share of."""
        shares = tuple(map(float, hardware.free_bytes))
        homes = Places(hyper_of(pieces.blueprint), settings, settings.split or shares).layers
        gpus = len(shares)
        split = tuple(homes.count(gpu) for gpu in range(gpus))
        whole = sum(home == gpus for home in homes[: len(pieces.layers)]) if gpus else len(pieces.layers)
        placing = Placing(whole, max(0, min(self.whole_first, len(pieces.layers)) - whole))
        work, context = self.work, settings.slot_context
        if work.tokens > context:
            share = max(1, context // _SHARE)
            prompt, answer = min(work.prompt, share), min(work.answer, share)
            work = Work(prompt, max(0, min(work.kept, context - prompt - answer)), answer)
        pricing = Pricing(pieces, hardware, work)
        price = pricing.price(settings, placing, split, self.threads)
        group = spread_group(placing, split, sparse=pieces.is_sparse)
        backend = "cpu" if group == CPU else hardware.setting.backend
        decode, prefill = spread_of(group, backend), spread_of(PREFILL, backend)
        return Speeds(
            _scaled_range(price.decode_tokens_per_s, decode.low, 1.0, decode.high),
            _scaled_range(price.prefill_tokens_per_s, prefill.low, 1.0, prefill.high),
            group,
        )


class Subject(NamedTuple):
    """A model on a machine, as it runs now or would by itself."""

    found: FoundModel
    setup: Setup  # As it is now
    now: AskedSettings
    others: tuple[tuple[memory_view.OtherProgram, ...], ...] = ()  # For each room
    priced: PricedWork | None = None  # None where the speed of the machine is unknown
    expected: PriceFactors = PriceFactors()  # What the report, with all that was seen, expects of what runs
    unified: bool = False  # Whether conversations share one cache, and its context, also where their number is changed
    rotates: bool = False  # Whether its build rotates quantised keys and values, by which they lose less
    command: Callable[[AskedSettings, Settings], str] = lambda *_: ""
    notes: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()  # Of what runs: those of its rooms
    source: str = "the model's tensors, laid out as llama.cpp does"

    @property
    def hardware(self) -> Hardware:
        return self.setup.hardware

    @property
    def base(self) -> Settings:
        return self.setup.settings

    @property
    def knobs(self) -> tuple[str, ...]:
        """The sliders that it has: without a GPU there are no layers to move."""
        return ("context", *(("gpu_layers",) if self.hardware.rooms else ()), "kv_type", "quant", "slots")

    def with_rooms(self, rooms: tuple[Room, ...]) -> Self:
        return self._replace(setup=self.setup._replace(hardware=self.hardware._replace(rooms=rooms)))

    @property
    def layer_total(self) -> int:
        """All layers in the count of llama.cpp, the output as one more."""
        return self.found.blueprint.count("block_count") + 1


class Layout(NamedTuple):
    """What settings ask of every memory."""

    settings: Settings
    devices: tuple[MemoryShown, ...]
    host: MemoryShown
    workspace_bytes: int
    estimated: str


class GgufAnswers:
    """Answers for one subject; what was worked out is kept."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._lasting = LastingJudgement(_MOST_NOTES)
        self._variants: dict[str, Pieces] = {}
        self._lock = Lock()

    def answer(self, asked: AskedSettings) -> WhatIf:
        with self._lock, self._lasting.resume():
            subject, pieces = self.subject, self._pieces(asked.quant)
            laid = self._layout(pieces.blueprint, asked)
            layers = self.layers(asked)
            fits = verdict_of(laid.devices, laid.host, layers_fit=False)
            verdict = memory_view.verdict_with(fits, layers, laid.devices)
            decode = prefill = None
            if subject.priced and verdict != "does_not_fit":
                price = subject.priced.speeds(pieces, subject.hardware, laid.settings)
                decode, prefill, _ = price.scaled_to(subject.expected)
            return WhatIf(
                settings={knob: str(getattr(asked, knob)) for knob in subject.knobs},
                bars=self.bars(laid),
                verdict=verdict,
                summary=memory_view.what_if_summary(verdict, laid.devices, laid.host, layers, decode),
                decode_tokens_per_s=decode,
                prefill_tokens_per_s=prefill,
                command=subject.command(asked, laid.settings),
                notes=self._notes(asked, laid),
            )

    def layout(self, asked: AskedSettings) -> Layout:
        """What settings ask of every memory, as `unslow fit` counts."""
        with self._lock, self._lasting.resume():
            return self._layout(self._pieces(asked.quant).blueprint, asked)

    def _layout(self, blueprint: Blueprint, asked: AskedSettings) -> Layout:
        setup = self.subject.setup._replace(blueprint=blueprint, settings=self.settings(asked))
        devices, host = shown_needs(setup)
        return Layout(setup.settings, devices, host, setup.workspace_bytes, setup.memory().estimated)

    def settings(self, asked: AskedSettings) -> Settings:
        """As llama.cpp would take them."""
        subject, base = self.subject, self.subject.base
        same_cache, kind = asked.kv_type == subject.now.kv_type, asked.kv_type.upper()
        is_whole = not subject.hardware.rooms or asked.gpu_layers >= subject.layer_total
        shares = base.unified if asked.slots == subject.now.slots else subject.unified
        same_context = (asked.context, asked.slots) == (subject.now.context, subject.now.slots)
        return base._replace(
            context=base.context if same_context else asked.context * (1 if shares else asked.slots),
            slots=asked.slots,
            unified=shares,
            outputs=asked.slots if base.outputs == base.slots else base.outputs,
            key_type=base.key_type if same_cache else kind,
            value_type=base.value_type if same_cache else kind,
            gpu_layers=-1 if is_whole else asked.gpu_layers,
        )

    def _pieces(self, quant: str) -> Pieces:
        if quant not in self._variants:
            found = self.subject.found
            same = quant == self.subject.now.quant
            plan = found.blueprint if same else as_quant(found.blueprint, mix_named(quant).name)
            self._variants[quant] = Pieces(plan)
        return self._variants[quant]

    def layers(self, asked: AskedSettings) -> memory_view.LayerCount:
        subject = self.subject
        first = subject.base.experts_on_cpu or (subject.priced.whole_first if subject.priced else 0)
        whole = max(0, subject.layer_total - asked.gpu_layers)
        split = max(0, first - whole) if subject.hardware.rooms else 0
        return memory_view.LayerCount(asked.gpu_layers, subject.layer_total, split)

    def price_now(self) -> Speeds | None:
        """What runs, by its price alone."""
        subject = self.subject
        pieces = self._pieces(subject.now.quant)
        return subject.priced.speeds(pieces, subject.hardware, subject.base) if subject.priced else None

    def bars(self, laid: Layout) -> tuple[MemoryBar, ...]:
        """A bar for each device and for the host; one for both where they share a memory."""
        hardware = self.subject.hardware
        others, shared = self.subject.others or ((),) * len(hardware.rooms), hardware.is_unified
        bars, host = [], parts_of(laid.host)
        for n, (room, shown, programs) in enumerate(zip(hardware.rooms, laid.devices, others, strict=True)):
            own, beside = parts_of(shown), 0
            if shared and not n:
                own, beside = Need(*map(sum, zip(own, host, strict=True))), sum(host)
            later = laid.workspace_bytes if shown.total_bytes else 0
            asked = memory_view.AskedBytes(own, room.context_bytes, later, beside)
            bars.append(memory_view.bar_of(room, asked, programs))
        return (*bars, *(() if shared else (host_bar(hardware.host_room, host),)))

    def _notes(self, asked: AskedSettings, laid: Layout) -> tuple[str, ...]:
        subject, settings = self.subject, laid.settings
        notes = [f"compute buffers are estimated: {laid.estimated}"] if laid.estimated else []
        trained = subject.found.blueprint.count("context_length")
        if trained and settings.slot_context > trained:
            notes.append(f"the model was trained for {trained:,} tokens; each slot has {settings.slot_context:,}")
        if settings.streams > 1:
            notes.append(f"{settings.slots} slots of {settings.slot_context:,} tokens each")
        found, other_quant = subject.found, asked.quant != subject.now.quant
        if other_quant:
            notes.append(f"{asked.quant} is a different file")
        if other_quant or asked.kv_type != subject.now.kv_type:  # what it costs in answers, where that was published
            kinds, architecture = (settings.key_type, settings.value_type), found.blueprint.architecture
            cost = quality_cost(asked.quant, *kinds, found.parameters, architecture, rotated=subject.rotates)
            notes += filter(None, (cost.weights.words if other_quant else "", cost.cache.words))
        return (*notes, *subject.notes)


def asked_now(found: FoundModel, setup: Setup) -> AskedSettings:
    """Where the sliders stand for a setup."""
    base, everything = setup.settings, found.blueprint.count("block_count") + 1
    layers = everything if base.gpu_layers < 0 else min(base.gpu_layers, everything)
    return AskedSettings(
        context=base.context if base.unified else max(1, base.context // base.slots),
        gpu_layers=layers if setup.hardware.rooms else 0,
        kv_type=base.cache_types,
        quant=found.quant if found.quant not in ("", "?") else "as it is",
        slots=base.slots,
    )


def parts_of(shown: MemoryShown) -> Need:
    """What a model asks of a memory."""
    return Need(shown.weights_bytes, shown.kv_bytes, shown.compute_bytes)


def host_bar(room: Room | None, parts: Need) -> MemoryBar:
    """The bar of the host's memory; without an end where its size is unknown."""
    if room is None:
        return MemoryBar(name="host", is_host=True, parts=tuple(memory_view.own_parts(parts)))
    return memory_view.bar_of(room, memory_view.AskedBytes(parts), is_host=True)


def _scaled_range(price: float, low: float, mid: float, high: float) -> Range:
    return Range(low=price * low, mid=price * mid, high=price * high)
