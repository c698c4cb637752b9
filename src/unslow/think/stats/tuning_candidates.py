"""Which settings to measure around a plan: the runtime's own choice, the plan, its front, and one step from it."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from unslow.facts.knob import Knob, Setting
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing, patterns
from unslow.think.plan.llama_cpp.points import DEFAULT_MICRO_BATCH
from unslow.think.plan.quality import is_equal_quality, quality_cost
from unslow.think.plan.report import ChangeShown, GoalShown, OptionShown, PlanReport, SpeedShown

Kind = Literal["default", "plan", "option", "neighbour"]
Settings = dict[Knob, Setting]
Step = tuple[str, Settings]  # A few words, and what is turned; None takes a setting away
MOST = 16  # More of them would share the time so that none is measured well
DEFAULT = 0
OWN_CHOICE = "llama.cpp defaults"
SMALLEST_BATCH, LARGEST_BATCH = 64, 4096
_EQUAL = 0.001  # Of perplexity: what the plan calls equal too
_WIDER = 16 / 8.5  # A number of 16 bits over one of q8_0, which has a scale for each block of 32
_DRAFT_OVER = 1.5  # What a draft model takes for each byte of its file: it has a cache and buffers of its own
_LAYERS = re.compile(r"blk\\?\.\(?([\d|]+)\)?\\?\.")


class Candidate(NamedTuple):
    """Settings with a name; `kind` says where they come from, the prediction is the plan's."""

    name: str
    kind: Kind
    settings: tuple[ChangeShown, ...]
    speed: SpeedShown | None = None


class Candidates(NamedTuple):
    """All of them, llama.cpp defaults first, then by how much is expected of them."""

    all: tuple[Candidate, ...]
    plan: int | None  # Which of them the plan recommends: it may be llama.cpp defaults

    @property
    def references(self) -> tuple[int, ...]:
        """Those that every other is held against."""
        return (DEFAULT,) if self.plan in (None, DEFAULT) else (DEFAULT, self.plan or DEFAULT)


class Hand(NamedTuple):
    """What is known here beside the plan: the model's tensors, the processors, and a draft model."""

    pieces: Pieces
    quant: str = ""
    parameters: int = 0
    cores: int = 0
    logical: int = 0
    draft: str = ""
    draft_bytes: int = 0

    @property
    def layers(self) -> int:
        """Of the model; llama.cpp counts the output as one more."""
        return len(self.pieces.layers)


class Around(NamedTuple):
    """The settings whose neighbours are looked for, with the memory that they leave free."""

    settings: Settings
    goal: GoalShown
    hand: Hand
    option: OptionShown | None = None

    @property
    def is_on_cpu(self) -> bool:
        """Whether no GPU takes part."""
        return not self.option or not any(device.total_bytes for device in self.option.devices)

    @property
    def uses_host(self) -> bool:
        """Whether processors compute a part of every token."""
        layers = self.settings.get(Knob.GPU_LAYERS)
        few = isinstance(layers, int) and 0 <= layers <= self.hand.layers
        return self.is_on_cpu or few or bool(self.settings.keys() & {Knob.EXPERTS_ON_CPU, Knob.TENSOR_OVERRIDE})

    @property
    def spare_bytes(self) -> int:
        """What every GPU in use has left beyond its margin: the first prompt takes its room out of that."""
        used = [device for device in self.option.devices if device.total_bytes] if self.option else []
        return min(((device.free_bytes or 0) - device.margin_bytes for device in used), default=0)


def candidates_of(plan: PlanReport, hand: Hand) -> Candidates:
    """What to measure, without doubles."""
    best = plan.options[plan.recommended] if plan.recommended is not None else None
    # The defaults, with the same context and slots as all others, so that they can be compared
    planned = as_settings(best.settings) if best else {}
    users = max(1, plan.goal.users)
    slots = planned.get(Knob.PARALLEL) or (users if users > 1 else None)
    context = planned.get(Knob.CONTEXT_LENGTH) or plan.goal.context * users
    usual: Settings = {Knob.CONTEXT_LENGTH: context, **({Knob.PARALLEL: slots} if slots else {})}
    around = Around(planned if best else usual, plan.goal, hand, best)
    same = best if best and around.settings == usual else None if plan.of_running else plan.current
    every = [Candidate(OWN_CHOICE, "default", as_changes(usual), same.speed if same else None)]
    if best:
        every.append(Candidate(f"the plan: {best.name}", "plan", best.settings, best.speed))
    front = [option for option in plan.options if option is not best and _serves(option, plan, best)]
    front.sort(key=lambda option: option.speed.request_s.mid if option.speed else float("inf"))
    every += [Candidate(option.name, "option", option.settings, option.speed) for option in front]
    for words, changes in (*steps_around(around), *moves_around(around)):
        turned: Settings = {knob: v for knob, v in {**around.settings, **changes}.items() if v is not None}
        every.append(Candidate(f"the plan, {words}", "neighbour", as_changes(turned)))
    found: dict[frozenset[tuple[str, object]], Candidate] = {}
    for candidate in every:
        found.setdefault(_key(candidate.settings), candidate)
    chosen = _key(best.settings) if best else None
    at = next((n for n, key in enumerate(found) if key == chosen and n < MOST), None)
    return Candidates(tuple(found.values())[:MOST], at)


def _serves(option: OptionShown, plan: PlanReport, best: OptionShown | None) -> bool:
    context = best.context if best else plan.goal.context
    file = as_settings(option.settings).get(Knob.MODEL_FILE)
    if option.context != context or (file is not None and not str(file).lower().endswith(".gguf")):
        return False
    increase, floor = option.quality.perplexity_increase, plan.goal.worst_perplexity_increase
    if floor is not None:
        return increase is not None and increase <= floor
    known = best.quality.perplexity_increase if best else None
    return increase is not None and known is not None and increase <= known + _EQUAL


def _key(settings: tuple[ChangeShown, ...]) -> frozenset[tuple[str, object]]:
    return frozenset((change.knob, change.value) for change in settings if change.value is not None)


def as_changes(settings: Settings) -> tuple[ChangeShown, ...]:
    """Settings as a plan has them."""
    return tuple(ChangeShown(knob=knob.value, value=value) for knob, value in settings.items())


def as_settings(changes: tuple[ChangeShown, ...]) -> Settings:
    """A plan's settings by knob; those that this version does not know are left out."""
    known = {knob.value: knob for knob in Knob}
    return {known[change.knob]: change.value for change in changes if change.knob in known}


def steps_around(around: Around) -> Iterator[Step]:
    """Every step, those first that a prediction is most often wrong about."""
    hand, host = around.hand, around.option.host if around.option else None
    if around.uses_host:  # a thread for each core, for each processor, and one fewer for whoever else is there
        for count in dict.fromkeys((hand.logical, hand.cores, hand.cores - 1)):
            if count > 0 and count != around.settings.get(Knob.THREADS, hand.cores):
                yield f"{count} thread{'s' if count > 1 else ''}", {Knob.THREADS: count}
    has_room = around.is_on_cpu or around.spare_bytes >= hand.draft_bytes * _DRAFT_OVER
    if hand.draft and has_room and Knob.SPECULATIVE not in around.settings:
        yield "with the draft model", {Knob.SPECULATIVE: hand.draft}
    yield from _micro_batch(around)
    yield from _cache(around)
    # Weights mapped from their file, or read into memory of the program's own, which may have larger pages
    if around.uses_host and not (host and host.fits is False):
        is_mapped = around.settings.get(Knob.LOAD_MODE) in (None, "mmap", "auto")
        words = "weights read, no mmap" if is_mapped else "weights mapped"
        yield words, {Knob.LOAD_MODE: "none" if is_mapped else "mmap"}


def _micro_batch(around: Around) -> Iterator[Step]:
    """Half and double; no larger than a prompt, which would change nothing, nor than memory allows."""
    now = around.settings.get(Knob.BATCH) or DEFAULT_MICRO_BATCH
    if not isinstance(now, int):
        return
    sizes = [now // 2] if now > SMALLEST_BATCH and around.goal.prompt_tokens > now // 2 else []
    twice_has_room = around.is_on_cpu or not around.option
    if around.option and not twice_has_room:  # no buffer grows faster than its micro-batch
        twice_has_room = around.spare_bytes >= max(device.compute_bytes for device in around.option.devices)
    sizes += [now * 2] if now < LARGEST_BATCH and around.goal.prompt_tokens > now and twice_has_room else []
    for size in sizes:
        logical = around.settings.get(Knob.LOGICAL_BATCH)
        grown = {Knob.LOGICAL_BATCH: size} if isinstance(logical, int) and logical < size else {}
        yield f"micro-batch {size}", {Knob.BATCH: None if size == DEFAULT_MICRO_BATCH else size, **grown}


def _cache(around: Around) -> Iterator[Step]:
    """The other of f16 and q8_0, within the floor of quality and what is free."""
    now, hand = around.settings.get(Knob.KV_CACHE_TYPE) or "f16", around.hand
    if now == "f16":
        of, floor = hand.pieces.blueprint.architecture, around.goal.worst_perplexity_increase
        small, usual = (quality_cost(hand.quant, kind, kind, hand.parameters, of) for kind in ("Q8_0", "F16"))
        increase = small.perplexity_increase
        allowed = is_equal_quality(small, usual) if floor is None else increase is not None and increase <= floor
        if allowed:
            yield "cache q8_0", {Knob.KV_CACHE_TYPE: "q8_0", Knob.FLASH_ATTENTION: True}
    kept = max((device.kv_bytes for device in around.option.devices), default=0) if around.option else 0
    if now == "q8_0" and (around.is_on_cpu or around.spare_bytes >= kept * (_WIDER - 1)):
        away: Settings = {Knob.KV_CACHE_TYPE: None, Knob.VALUE_CACHE_TYPE: None, Knob.FLASH_ATTENTION: None}
        yield "cache f16", away


def moves_around(around: Around) -> Iterator[Step]:
    """Every step of a plan that says itself where things lie; none where llama.cpp places them, or several GPUs do."""
    # More to the host is always safe. Less of it needs memory, which is counted from the option's own figures and the
    # sizes of the model's tensors, the cache of a layer with it.
    layers = around.settings.get(Knob.GPU_LAYERS)
    if around.is_on_cpu or not isinstance(layers, int) or layers < 0 or Knob.TENSOR_SPLIT in around.settings:
        return
    whole, spare = around.hand.layers + 1 - layers, around.spare_bytes
    if 0 < whole <= around.hand.layers and spare >= full_bytes(around, [whole - 1]):
        yield "one more layer on the GPU", {Knob.GPU_LAYERS: layers + 1}
    if whole < around.hand.layers:
        yield "one layer fewer on the GPU", {Knob.GPU_LAYERS: layers - 1}
    experts = around.settings.get(Knob.EXPERTS_ON_CPU)
    if isinstance(experts, int) and experts > 0:
        if experts < around.hand.layers:
            yield "experts of one more layer on the CPU", {Knob.EXPERTS_ON_CPU: experts + 1}
        if spare >= around.hand.pieces.layers[min(experts, around.hand.layers) - 1].piece_bytes:
            yield "experts of one layer fewer on the CPU", {Knob.EXPERTS_ON_CPU: experts - 1 or None}
    yield from _other_kind(around, layers)


def _other_kind(around: Around, layers: int) -> Iterator[Step]:
    """The same memory given up the other way: whole layers instead of their matrices, or the reverse."""
    apart, whole = layers_apart(around), around.hand.layers + 1 - layers
    if apart:
        # At most so much of these layers is on the host
        on_host = sum(around.hand.pieces.layers[layer].piece_bytes for layer in apart)
        count = _fewest([full_bytes(around, [layer]) for layer in apart], on_host)
        if count is not None:
            away: Settings = {Knob.TENSOR_OVERRIDE: None, Knob.EXPERTS_ON_CPU: None}
            yield f"{count} more whole layers on the CPU instead", {**away, Knob.GPU_LAYERS: layers - count}
    elif 0 < whole <= around.hand.layers and around.settings.get(Knob.KV_OFFLOAD) is not False:
        given_up = full_bytes(around, range(whole))
        pieces, settings = around.hand.pieces, {Knob.GPU_LAYERS: around.hand.layers + 1}
        count = _fewest([layer.piece_bytes for layer in pieces.layers], given_up)
        if count is None:
            return
        if pieces.is_sparse:
            yield f"experts of {count} layers on the CPU instead", {**settings, Knob.EXPERTS_ON_CPU: count}
        else:
            names = ",".join(f"{pattern}=CPU" for pattern in patterns(Placing(0, count), pieces))
            yield f"feed-forward of {count} layers on the CPU instead", {**settings, Knob.TENSOR_OVERRIDE: names}


def layers_apart(around: Around) -> list[int]:
    """The layers on the GPU of which some matrices are on the host."""
    layers = around.settings.get(Knob.GPU_LAYERS)
    first = around.hand.layers + 1 - layers if isinstance(layers, int) else 0
    named = _LAYERS.findall(str(around.settings.get(Knob.TENSOR_OVERRIDE) or ""))
    found = {int(number) for group in named for number in group.split("|") if number}
    experts = around.settings.get(Knob.EXPERTS_ON_CPU)
    found |= set(range(experts)) if isinstance(experts, int) else set()
    return [layer for layer in sorted(found) if first <= layer < around.hand.layers]


def full_bytes(around: Around, layers: Sequence[int]) -> int:
    """Of these layers, weights and cache; the cache is taken as if all layers of the GPU had as much."""
    pieces = around.hand.pieces.layers
    kept = sum(device.kv_bytes for device in around.option.devices) if around.option else 0
    on_gpu = around.settings.get(Knob.GPU_LAYERS)
    each = kept / max(1, min(around.hand.layers, on_gpu if isinstance(on_gpu, int) else around.hand.layers) - 1)
    return int(sum(pieces[n].rest_bytes + pieces[n].piece_bytes + each for n in layers))


def _fewest(sizes: Sequence[int], needed: float) -> int | None:
    """How many from the first on have so much together; None where all have less."""
    return next((count for count, total in enumerate(accumulate(sizes), 1) if total >= needed), None)
