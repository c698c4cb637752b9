"""What frees memory for a model, by least loss: a shorter context, a q8_0 cache, fewer layers, a smaller quant.

The runtime's own readings decide where they show what was free. Else the memory model of `fit` does: a text that names
the model and names or shows the card is enough for it.
"""

from collections.abc import Callable
from typing import NamedTuple

from unslow.catalog.hardware_families import gpu_maker
from unslow.catalog.quants import mixes_from_large_to_small
from unslow.facts.account import Topic
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.values import GIB, MIB, Known, MissingFactError
from unslow.think.blueprints import made_up
from unslow.think.case.cure import EVERYTHING, Cure, Remedy
from unslow.think.case.device import gpu_capacity_bytes
from unslow.think.case.group import if_known
from unslow.think.case.host import USABLE_RAM
from unslow.think.case.memory import blueprint_of
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.case.vram import MOVABLE
from unslow.think.claims.models import quants_said
from unslow.think.hardware import CUDA_CONTEXT_BYTES, Hardware, Room, driver_reserve
from unslow.think.memo import once
from unslow.think.physics.placement import FIT_MARGIN_BYTES, element_bytes, largest_fitting
from unslow.think.setup import Setup
from unslow.think.speed.named_models import mix_of, named_model

REAL_SHARE = 0.25  # Of the layers on the host: fewer are rounding, beside a model that is too large
USUAL_CONTEXT = 8192  # Tokens: a shorter context is not what takes the memory
OUT_OF_PROPORTION = 2  # Times the weights: what the context takes beyond that is worth a note, from a GiB on
HEADROOM = 2  # A conversation may grow to twice what was seen before it is cut
SHORTEST_USEFUL = 4096  # Tokens: the default of most runtimes, and enough for a chat
STEP = 1024  # Tokens: advice is given in round numbers
DESKTOP_BYTES = GIB  # Allowed for the screen and a browser where no list shows who holds GPU memory
PROJECTOR_BYTES = GIB
"""Allowed for what turns pictures into tokens, which Ollama loads with the model: mmproj files in F16 are about this
large, and the catalog does not have their sizes."""
USUAL_UBATCH = 512  # The default of llama.cpp
MASK_BYTES = 2
"""For each token of the context and of a micro-batch: the mask of attention, in f16, most of a long context's compute
buffer (llama.cpp in Ollama 0.33 on a CPU: 8,246 MiB for 2,097,152 tokens in batches of 2,048)."""
SPARE = 0.25
"""Of the margin that a fit leaves: a context that is set by hand needs some of it, for what the estimate misses."""
COARSE_BITS = 3.3
"""Of a weight: with fewer, quality falls visibly (docs/explanation/quality.md), so everything else comes first."""
USUAL_QUANT, PUBLISHED_QUANTS = "Q4_K_M", ("MXFP4",)
"""What Ollama and LM Studio download where no quant is named, unless the model itself is published in so few bits."""
UNCHANGED, Q8 = "unchanged", "q8_0"
Q8_SHARE = element_bytes("q8_0") / element_bytes("f16")
CUT, CHANGED, COARSER = "long chats are cut", "answers change slightly", "quality falls with the quant"
SHORTER = Remedy(Knob.CONTEXT_LENGTH.to(None, "a shorter context frees GPU memory"), None, CUT)
HALF_CACHE = Remedy(Knob.KV_CACHE_TYPE.to(Q8, "a KV cache of half the size"), None, CHANGED)
SMALLER_QUANT = Remedy(Knob.QUANT.to(None, "a smaller quant, or a smaller model"), None, COARSER)
AS_LONG_AS_USED = Remedy(Knob.CONTEXT_LENGTH.to(None, "a context no longer than the conversations"), None, CUT)
PLACE_WHAT_FITS = Remedy(
    Knob.FIT.to(value=True, why="let the runtime decide what fits, without explicit layers, context or `--fit off`")
)

LONGEST_THAT_FITS = Remedy(Knob.FIT.to(value=True, why="the longest context that fits"), None, CUT)


class Shortfall(NamedTuple):
    """How much memory a whole model lacks, at other contexts and types of cache."""

    lacking: Callable[[int, str], float]
    """Bytes, by the context in tokens and the type of the cache; not above 0 where it fits."""
    context: int  # As configured
    least_context: int  # What is used, or is useful at all
    weights_bytes: float
    parameters: float
    beside: str = ""  # What was assumed to hold memory beside the model, where that was not read
    available_bytes: float = 0.0  # What the runtime found free, where that was read

    def longest(self, cache: str) -> int | None:
        """The longest useful context below the configured one with which the whole model fits."""
        low, high = -(-self.least_context // STEP), (self.context - 1) // STEP
        steps = largest_fitting(low, high, lambda steps: -self.lacking(steps * STEP, cache)) if low <= high else None
        return None if steps is None else steps * STEP


def oversized_context(case: CaseView) -> str:
    """A note on a context whose RAM is out of proportion to its model; empty where there is none, or on a GPU."""
    # Only the used part of a context is read for a token, so it costs memory and load time, not speed
    context, weights = case.memory.context_tokens, case.memory.weights_bytes
    wanted = max(case.memory.context_used, USUAL_CONTEXT)
    if not case.placement.uses_no_gpu or context < OUT_OF_PROPORTION * wanted or not weights:
        return ""
    buffers = sum(b.bytes for kind in ("kv", "compute") for b in case.vram.buffers(kind, on_gpu=False))
    taken = buffers or case.memory.kv_bytes_per_token * context
    if taken < max(GIB, OUT_OF_PROPORTION * weights):
        return ""
    return (
        f"The context of {context:,} tokens takes {taken / GIB:.1f} GiB of RAM beside {weights / MIB:,.0f} MiB of "
        "weights. A shorter one, sized to the conversations, frees RAM and loads faster."
    )


def needed_context(case: CaseView) -> int:
    """Tokens to hold in every slot with its own cache: as the user asked, else twice the longest conversation."""
    runtime, wish, used = case.runtime, case.wish.context_tokens.get(), case.runtime.history.longest_sequence.get()
    for_one = max(SHORTEST_USEFUL, HEADROOM * used if used else 0) if wish is None else wish
    slots = runtime.scheduling.slots.get() if runtime.cache.unified.get() is False else None
    return int(for_one * (1 if slots is None else slots))


def brings_back_enough(case: CaseView, cure: Cure, gained: int, left: int) -> bool:
    """Whether a cure brings back a real share of the layers that are left on the host, or is worth it by physics."""
    if gained <= 0:
        return False
    now, then = case.speed.predict(), case.speed.predict(cure)
    if isinstance(now, Prediction) and isinstance(then, Prediction) and then.seconds.mid > 0:
        return gained >= REAL_SHARE * left or now.seconds.mid / then.seconds.mid >= WORTH_COMPARING
    return gained >= REAL_SHARE * left


def memory_remedies(case: CaseView, cure: Cure = EVERYTHING, *, in_part: bool = True) -> tuple[Remedy, ...]:
    """What makes the whole model fit, least loss first; `cure` is what changes once it does.

    `in_part` allows a smaller cache that only lets more of it fit.
    """
    shortfall, shrinks = memory_shortfall(case), case.memory.can_shrink_cache
    if shortfall is None:
        return (SHORTER, *((HALF_CACHE,) if shrinks else ()), SMALLER_QUANT)
    shorter = shorter_context(case, cure)
    halved = _half_cache(shortfall, cure, alone=shorter is None, in_part=in_part) if shrinks else None
    return (*(r for r in (shorter, halved) if r), _smaller_quant(shortfall, cure, shrinks=shrinks))


def shorter_context(case: CaseView, cure: Cure = EVERYTHING) -> Remedy | None:
    """The longest context with which the whole model fits, where that is enough for what is used."""
    shortfall = memory_shortfall(case)
    tokens = shortfall.longest(UNCHANGED) if shortfall else None
    if shortfall is None or tokens is None:
        return None
    shrinks = case.memory.can_shrink_cache and shortfall.lacking(shortfall.context, Q8) > 0
    halved = shortfall.longest(Q8) if shrinks else None
    with_q8 = f" ({halved:,} with a q8_0 cache)" if halved and halved > tokens else ""
    why = f"a context of {tokens:,} tokens{with_q8}: the whole model then fits on the GPU{shortfall.beside}"
    return Remedy(Knob.CONTEXT_LENGTH.to(tokens, why), cure._replace(context=tokens), CUT)


def fitting_context(case: CaseView) -> Remedy:
    """The longest context with which the whole model fits; without a number where that is not known."""
    return shorter_context(case) or AS_LONG_AS_USED


def _half_cache(shortfall: Shortfall, cure: Cure, *, alone: bool, in_part: bool) -> Remedy | None:
    """A q8_0 cache, where the whole model then fits, or more layers do; `alone` where no shorter context is enough."""
    why, then = "a KV cache of half the size", cure
    if shortfall.lacking(shortfall.context, Q8) <= 0:
        why += f": the whole model fits at {shortfall.context:,} tokens{shortfall.beside}"
    elif alone and (tokens := shortfall.longest(Q8)):
        why += f", with a context of {tokens:,} tokens: the whole model fits{shortfall.beside}"
        then = cure._replace(context=tokens)
    elif in_part and shortfall.available_bytes:
        then = Cure(vram_bytes=shortfall.available_bytes, context=shortfall.context * Q8_SHARE)
    else:
        return None
    return Remedy(Knob.KV_CACHE_TYPE.to(Q8, why), then, CHANGED)


def _smaller_quant(shortfall: Shortfall, cure: Cure, *, shrinks: bool) -> Remedy:
    """A quant that fits completely: with the cache unchanged, else as q8_0, else at a short context as well."""
    context, short = shortfall.context, min(shortfall.context, shortfall.least_context)
    tries = [(context, UNCHANGED, "")]
    if shrinks:
        tries += [(context, Q8, " beside a q8_0 cache"), (short, Q8, f" beside a q8_0 cache of {short:,} tokens")]
    else:
        tries += [(short, UNCHANGED, f" beside {short:,} tokens")]
    for tokens, cache, beside in tries:
        room = shortfall.weights_bytes - shortfall.lacking(tokens, cache)
        bits = 8 * room / shortfall.parameters if shortfall.parameters else COARSE_BITS
        if room > 0 and bits >= COARSE_BITS:
            name = next((m.name for m in mixes_from_large_to_small() if m.usual and m.bits_per_weight <= bits), "")
            like = f", such as {name}" if name and shortfall.parameters else ""
            sizes = f"a file of at most {room / GIB:.1f} GiB fits completely{beside}{like}"
            why = f"a smaller quant: {sizes} (now {shortfall.weights_bytes / GIB:.1f})"
            return Remedy(Knob.QUANT.to(None, why), cure, COARSER)
    return Remedy(Knob.QUANT.to(None, "a smaller model: no useful quant of this one fits in the GPU's memory"))


def spill_remedies(case: CaseView) -> tuple[Cure, list[Remedy]]:
    """What keeps a driver from spilling: fewer bytes by least loss, fewer layers, a smaller quant, then a setting."""
    # Only NVIDIA's driver of Windows and llama.cpp itself have such a setting. The cure is that of the first remedy.
    own = Cure(only_own_memory=True)
    *milder, quant = memory_remedies(case, own, in_part=False)
    shorter = next((remedy.cure for remedy in milder if remedy.cure), None)
    fewer = None if shorter else if_known(lambda: fewer_layers(case, own))
    remedies = [*milder, *((fewer,) if fewer else ()), quant]
    why = "let the load fail instead of spilling silently"
    if case.vram.may_move:
        remedies.append(Remedy(Knob.DRIVER_FALLBACK.to(MOVABLE, why)))
    elif not case.system.has_linux_drivers and all(gpu_maker(gpu) in {"", "NVIDIA"} for gpu in case.gpus.in_use):
        remedies.append(Remedy(Knob.DRIVER_FALLBACK.to(value=False, why=why)))
    return shorter or own, remedies


def fewer_layers(case: CaseView, cure: Cure) -> Remedy | None:
    """As many layers as the card's own memory holds; None where it holds all of them, or none."""
    shape = case.memory.shape
    placed = case.placement.with_cure(shape, cure)
    fitting, total = int(placed.gpu_layers) + placed.output_on_gpu, shape.layers + 1
    why = f"{fitting} of {total} layers fit; the CPU computes the rest faster than the GPU fetches it"
    return Remedy(Knob.GPU_LAYERS.to(fitting, why), cure) if 0 < fitting < total else None


def failed_load_remedies(case: CaseView) -> list[Remedy]:
    """What lets a load succeed whose allocation failed: a smaller compute buffer where that failed, then what fits."""
    failure, compute = case.runtime.memory.allocation_failure.get(), case.runtime.compute
    of_buffer, smaller = failure is not None and failure.what == "compute_buffer", list[Remedy]()
    if of_buffer and compute.flash_attention.get() is False:
        why = "turn on flash attention: it needs a far smaller compute buffer"
        smaller.append(Remedy(Knob.FLASH_ATTENTION.to(value=True, why=why)))
    if of_buffer and (compute.ubatch.get() or 0) > USUAL_UBATCH:
        batch = Knob.BATCH.to(USUAL_UBATCH, "a smaller micro-batch: it needs a smaller compute buffer")
        smaller.append(Remedy(batch, None, "prefill is slower"))
    if not case.vram.allocation_failed:
        return _host_load_remedies(case, smaller)
    if case.engine.runs_paged:  # it places no layers: what has to fit is the cache of one request
        return [*smaller, LONGEST_THAT_FITS]
    return [*smaller, *(if_known(lambda: _gpu_load_remedies(case)) or [PLACE_WHAT_FITS])]


def _host_load_remedies(case: CaseView, smaller_buffer: list[Remedy]) -> list[Remedy]:
    """Less of what takes most: a shorter context where its cache is larger than the weights, else smaller weights."""
    smaller_model = Remedy(Knob.QUANT.to(None, "a smaller quant or model: it needs less memory"))
    failure, weights = case.runtime.memory.allocation_failure.get(), case.memory.weights_bytes
    free, context = case.machine.memory.available_bytes.get(), case.memory.context_tokens
    asked = failure.asked_bytes.get() if failure and failure.what == "kv_cache" else None
    cache = asked or case.memory.kv_bytes_per_token * context
    if not context or cache <= weights or free is None or not failure or failure.what == "weights":
        return [*smaller_buffer, smaller_model]
    room = free - FIT_MARGIN_BYTES * SPARE - weights
    per_token = cache / context + case.memory.settings.micro_batch * MASK_BYTES
    tokens = int(room / per_token) // STEP * STEP
    return [
        *([_longest_context(tokens)] if 0 < tokens < context else ()),
        *([HALF_CACHE] if case.memory.cache_types[0] == "f16" and cache / 2 < room else ()),
        *smaller_buffer,
        *(() if tokens > 0 else [smaller_model]),
    ]


def _gpu_load_remedies(case: CaseView) -> list[Remedy]:
    """The longest context that fits with all layers on the GPU; for builds that do not place layers, as many as fit."""
    shape, free, context = case.memory.shape, case.vram.available_bytes, case.runtime.context.length.get()
    weights = shape.layers * shape.layer_bytes + shape.output_bytes
    room = free - case.vram.margin_bytes * SPARE - case.vram.compute_bytes - weights
    tokens = int(room / shape.kv_bytes_per_token) // STEP * STEP if shape.kv_bytes_per_token else 0
    shorter = [_longest_context(tokens)] if tokens > 0 and (context is None or tokens < context) else []
    if case.engine.places_layers_itself is not False:
        return [*shorter, PLACE_WHAT_FITS]
    fitting = case.memory.layers_that_fit(free, SHORTEST_USEFUL if context is None else context)
    total = shape.layers + 1
    fewer = Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit; the CPU computes the rest")
    return [*shorter, Remedy(fewer) if 0 < fitting < total else PLACE_WHAT_FITS]


def _longest_context(tokens: int) -> Remedy:
    return Remedy(Knob.CONTEXT_LENGTH.to(tokens, "the longest context that fits beside the weights"))


@once
def memory_shortfall(case: CaseView) -> Shortfall | None:
    """What the whole model lacks, by readings, else by the memory model of `fit`; None where neither shows a lack."""
    try:
        context, used = case.memory.need_context(), max(case.memory.context_used, SHORTEST_USEFUL)
        shortfall = _shortfall_by_readings(case, context, used) or _shortfall_by_fit(case, context, used)
    except (MissingFactError, UserError):  # numbers that no model has, from a text or a header
        return None
    return shortfall if shortfall and shortfall.lacking(context, UNCHANGED) > 0 else None


def _shortfall_by_readings(case: CaseView, context: int, used: int) -> Shortfall | None:
    """By what the runtime asks for and what it found free; a q8_0 cache counts as a shorter one."""
    # What the runtime had is known: as it saw it, or free now beside what it holds itself
    memory, devices = case.runtime.memory, case.gpus.computing_devices
    own = case.vram.own_bytes is not None or isinstance(memory.buffers, Known)
    free_now = own and all(isinstance(gpu.vram_free_bytes, Known) for gpu in case.gpus.in_use)
    seen = isinstance(memory.available_bytes, Known) or any(isinstance(d.free_bytes, Known) for d in devices)
    if not (seen or free_now) or not (case.memory.blueprint or case.memory.kv_bytes_per_token):
        return None
    demand = if_known(lambda: case.memory.demand(context))
    if demand is None:
        return None
    weights, parameters = float(case.model.weights_bytes.need()), float(case.model.parameters.get() or 0)
    return Shortfall(
        lambda tokens, cache: case.memory.demand(tokens * (Q8_SHARE if cache == Q8 else 1.0)).lacking,
        context, used, weights, parameters, available_bytes=demand.available,
    )  # fmt: skip


def _shortfall_by_fit(case: CaseView, context: int, used: int) -> Shortfall | None:
    """By the memory model of `fit`, for a model whose tensors are known, or that the catalog has in this quant."""
    name, gpus = case.model.name.get() or "", case.gpus.in_use
    model, in_name = named_model(name, stand_in=False), (q.label for q in quants_said(name.lower()) if not q.of_cache)
    quant = case.model.quant.value_or(next(in_name, ""))
    if model and not quant and case.runtime.name.get() in ("Ollama", "LM Studio"):
        quant = model.published if model.published in PUBLISHED_QUANTS else USUAL_QUANT
    plan = blueprint_of(case.model) or (made_up(model, mix_of(quant)) if model and quant else None)
    rooms = [_gpu_room(case, gpu) for gpu in gpus]
    if plan is None or not rooms or not all(room.capacity_bytes for room in rooms):
        return None
    if case.gpus.is_unified or not case.engine.runs_ggml:
        return None
    held = max(room.others_bytes for room in rooms)
    words = f", with {held / GIB:.1f} GiB left for the desktop"
    if all(_lists_every_process(case, gpu) for gpu in gpus):
        words = f" beside the {held / MIB:.0f} MiB of other processes" if held else ""
    if model and model.projector and case.runtime.name.get() == "Ollama":
        rooms[0] = rooms[0]._replace(others_bytes=rooms[0].others_bytes + PROJECTOR_BYTES)
        words += f", and {PROJECTOR_BYTES / GIB:.0f} GiB for its projector"
    setup = Setup(plan, Hardware(tuple(rooms)), case.memory.settings._replace(context=context)).settle_attention()
    parameters = case.model.parameters.value_or(model.parameters if model else 0)

    def lacking(tokens: int, cache: str) -> float:
        settings = setup.settings._replace(context=tokens)
        if cache != UNCHANGED:
            settings = settings._replace(key_type=cache.upper(), value_type=cache.upper(), flash_attention=True)
        return -setup.left(settings)

    return Shortfall(lacking, context, used, float(plan.weights_bytes), float(parameters), words)


def _gpu_room(case: CaseView, gpu: Gpu) -> Room:
    """The memory of a GPU, with what other processes hold there."""
    # As the driver lists it; else what is in use and not the runtime's by its own account, and at least a desktop
    total, own, used = gpu_capacity_bytes(gpu), case.runtime.memory.size_vram_bytes.get(), gpu.vram_used_bytes.get()
    held = float(DESKTOP_BYTES)
    if own and used and len(case.gpus.in_use) == 1:
        held = max(held, used - own - CUDA_CONTEXT_BYTES)
    if _lists_every_process(case, gpu):
        others = [size for p, size in case.vram.sized_processes(gpu) if p in case.vram.other_processes]
        held = float(sum(others))
    return Room(gpu.name.get() or "GPU", total, int(held), gpu.vram_reserved_bytes.value_or(driver_reserve(total)))


def _lists_every_process(case: CaseView, gpu: Gpu) -> bool:
    """Whether the driver lists every process on a GPU with its size, the runtime's own among them."""
    listed = gpu.processes.get() or []
    sized = all(isinstance(p.vram_bytes, Known) for p in listed)
    return sized and any(p not in case.vram.other_processes for p in listed)


MORE_THAN_WEIGHTS = 1.25  # Times the weights: room for the KV cache, the compute buffer and the program itself


def higher_memory_limit(case: CaseView) -> Remedy | None:
    """A memory limit with room for the weights, where only the control group lacks it and the machine does not."""
    total, limit = case.machine.memory.total_bytes.get(), case.host.memory_limit_bytes
    wanted = int(MORE_THAN_WEIGHTS * case.memory.weights_bytes)
    if limit is None or limit >= wanted or total is None or wanted > USABLE_RAM * total:
        return None
    return Remedy(Knob.MEMORY_LIMIT.to(wanted, "a memory limit with room for the weights and the KV cache"), Cure())


LEAST_LEFT, LEFT_SHARE = 4 * GIB, 1 / 8  # What macOS and its programs need beside a model, at least
BESIDE_IT = 1.05  # Times what the model takes: the GPU holds small things of other programs too


def shared_memory_cure(case: CaseView) -> Cure:
    """Memory for all of the model; what physics assumes to be in the GPU's reach may be the case as configured."""
    asked = case.memory.asked_of_gpu[0]
    split = asked and case.placement.split
    return Cure(vram_bytes=asked * BESIDE_IT + case.vram.margin_bytes) if split else Cure()


def shared_memory_remedies(case: CaseView) -> tuple[Remedy, ...]:
    """More for the GPU where the system can spare it; less of other things where the memory itself is short."""
    smaller = Remedy(Knob.QUANT.to(None, "a shorter context, or a smaller quant or model"), None, "quality falls")
    (asked, _), (limit, _), memory = case.memory.asked_of_gpu, case.vram.shared_limit, case.machine.memory
    total, cure = memory.total_bytes.get(), shared_memory_cure(case)
    if not asked or not total or asked > total - max(LEAST_LEFT, LEFT_SHARE * total):
        return (*_context_within(case, limit), smaller)
    # Where the whole memory is short, and not only the GPU's part, a higher limit makes that worse
    is_pressed = memory.pressure.get() not in {None, "normal"} or case.host.compressed_bytes is not None
    if is_pressed or case.narrative.remarks_on(Topic.SWAPPING):
        others = Knob.OTHER_LOAD.to(None, "close other programs: beside them the memory is too small")
        return Remedy(others, cure, "unsaved work"), smaller
    if asked <= limit:
        return (smaller,)
    why = "let the GPU use more of the memory: the system keeps enough for itself"
    wired = Knob.WIRED_LIMIT.to(int(asked * BESIDE_IT / MIB), why)
    return Remedy(wired, cure, "too high a limit can freeze the machine"), *_context_within(case, limit), smaller


def _context_within(case: CaseView, limit: float) -> tuple[Remedy, ...]:
    """The longest context beside which the weights fit; none where it is not shorter, or too short for a chat."""
    context, each, weights = case.runtime.context.length.get(), case.memory.kv_bytes_per_token, case.model.weights_bytes
    if context is None or not each or not isinstance(weights, Known):
        return ()
    room = limit - weights.value - case.vram.compute_bytes - case.vram.margin_bytes
    fitting = int(room / each) // STEP * STEP
    if not max(SHORTEST_USEFUL, case.memory.context_used) <= fitting < context:
        return ()
    why = f"with {fitting} tokens the whole model fits into the GPU's share of memory"
    return (Remedy(Knob.CONTEXT_LENGTH.to(fitting, why), Cure(vram_bytes=limit, context=fitting), CUT),)
