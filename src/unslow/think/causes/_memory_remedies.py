"""What frees enough GPU memory for all of a model, by least loss.

And whether what it frees is enough to be called a cause.
"""

from collections.abc import Callable
from typing import NamedTuple

from unslow.catalog.quants import mixes_from_large_to_small
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known, MissingFactError, first_known
from unslow.think.blueprints import made_up
from unslow.think.case.demand import blueprint_of, can_shrink_cache, kv_per_token, plan_of, read_demand, settings_of
from unslow.think.case.gpus import gpu_capacity_bytes, is_unified
from unslow.think.case.narrative import WORTH_COMPARING
from unslow.think.case.placement import uses_no_gpu
from unslow.think.case.prediction import Prediction, predict
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.vram import buffers_of, computing_devices, gpus_used, other_gpu_processes, own_vram_bytes
from unslow.think.case.work import EVERYTHING, Cure
from unslow.think.causes._cause import Remedy
from unslow.think.causes._facts import if_known
from unslow.think.claims.models import quants_said
from unslow.think.hardware import CUDA_CONTEXT_BYTES, Hardware, Room, driver_reserve
from unslow.think.memo import once
from unslow.think.physics.placement import element_bytes, largest_fitting
from unslow.think.setup import Setup
from unslow.think.speed.named_models import mix_of, named_model

REAL_SHARE = 0.25
"""Of the layers on the host: what brings back fewer is no more than rounding, beside a model that is too large."""

USUAL_CONTEXT = 8192  # Tokens: a shorter context is not what takes the memory
OUT_OF_PROPORTION = 2  # Times the weights: what the context takes beyond that is worth a word, from a GiB on


def oversized_context(case: Case) -> str:
    """What a context takes of the RAM that is out of proportion to its model; empty where a GPU is asked about it.

    Only what was used of a context is read for a token, so it costs memory and time to load, not speed.
    """
    context = first_known(case.runtime.context_length, case.runtime.context_set).value_or(0)
    weights, used = case.model.weights_bytes.value_or(0), case.runtime.longest_sequence.value_or(0)
    wanted = max(used, case.wish.context_tokens.value_or(0), USUAL_CONTEXT)
    if not uses_no_gpu(case) or context < OUT_OF_PROPORTION * wanted or not weights:
        return ""
    buffers = sum(b.bytes for kind in ("kv", "compute") for b in buffers_of(case, kind, on_gpu=False))
    taken = buffers or kv_per_token(case) * context
    if taken < max(GIB, OUT_OF_PROPORTION * weights):
        return ""
    return (
        f"The context of {context:,} tokens takes {taken / GIB:.1f} GiB of RAM beside {weights / MIB:,.0f} MiB of "
        f"weights: a shorter one, as long as the conversations are, frees them and loads sooner."
    )


def brings_back_enough(case: Case, cure: Cure, gained: int, left: int) -> bool:
    """Whether a cure brings back a real share of the layers that are left on the host, or a gain by physics."""
    if gained <= 0:
        return False
    now, then = predict(case), predict(case, cure)
    if isinstance(now, Prediction) and isinstance(then, Prediction) and then.seconds.mid > 0:
        return gained >= REAL_SHARE * left or now.seconds.mid / then.seconds.mid >= WORTH_COMPARING
    return gained >= REAL_SHARE * left


# What frees enough GPU memory for all of a model, by least loss: a shorter context, a q8_0 cache, a smaller quant.
# Where the runtime's own readings tell what was free, they decide. Else the memory model of `fit` does: a text that
# names the model and shows or names the card tells all that it needs.

SHORTEST_USEFUL = 4096  # Tokens: the default of most runtimes, and enough for a chat
DESKTOP_BYTES = GIB
"""Reckoned for the screen, a browser and the like where nobody shows who holds GPU memory: an allowance."""
_PROJECTOR_BYTES = GIB
"""Reckoned for what turns pictures into tokens, which Ollama loads with the model: mmproj files in F16 are about so
large, and the catalogue does not have their sizes."""
_STEP = 1024  # Tokens: an advice in round numbers
_HALF = element_bytes("q8_0") / element_bytes("f16")
_COARSE_BITS = 3.3
"""Of a weight: below so many answers suffer visibly (docs/explanation/quality.md), so all else comes first."""
_USUAL_QUANT, _GIVEN_BY = "Q4_K_M", ("Ollama", "LM Studio")
"""The quant that these give where nobody names one, unless the model is published in so few bits itself."""
_KEPT_AS_PUBLISHED = ("MXFP4",)
_AS_IT_IS, _Q8 = "as it is", "q8_0"
_SHORTER = Remedy(Knob.CONTEXT_LENGTH.to(None, "a shorter context frees GPU memory"), None, "long chats are cut")
HALF_CACHE = Remedy(Knob.KV_CACHE_TYPE.to(_Q8, "a KV cache of half the size"), None, "answers change slightly")
_FALLS = "quality falls with the quant"
_SMALLER_QUANT = Remedy(Knob.QUANT.to(None, "a smaller quant, or a smaller model"), None, _FALLS)


class Fitting(NamedTuple):
    """How much is lacking for all of a model to fit, at other contexts and types of cache."""

    lacking: Callable[[int, str], float]
    """By the context in tokens and the type of the cache; not above 0 where it fits."""
    context: int  # As configured
    least_context: int  # What is used, or is useful at all
    weights_bytes: float
    parameters: float
    beside: str = ""  # What was taken to hold memory beside the model, where that was not read
    available_bytes: float = 0.0  # What the runtime found free, where that was read

    def longest(self, cache: str) -> int | None:
        """The longest useful context below the configured one with which all of it fits."""
        low, high = -(-self.least_context // _STEP), (self.context - 1) // _STEP
        steps = largest_fitting(low, high, lambda steps: -self.lacking(steps * _STEP, cache)) if low <= high else None
        return None if steps is None else steps * _STEP


def memory_remedies(case: Case, cure: Cure = EVERYTHING, *, in_part: bool = True) -> tuple[Remedy, ...]:
    """What makes all of it fit, least loss first; `cure` is what is different once it does.

    `in_part` says that a cache with which only more of it fits is a remedy too.
    """
    fitting = fitting_of(case)
    shrinks = can_shrink_cache(case)
    if fitting is None:
        return (_SHORTER, *((HALF_CACHE,) if shrinks else ()), _SMALLER_QUANT)
    shorter = shorter_context(case, cure)
    halved = _halved_cache(fitting, cure, alone=shorter is None, in_part=in_part) if shrinks else None
    return (*(r for r in (shorter, halved) if r), _smaller_quant(fitting, cure, shrinks=shrinks))


def shorter_context(case: Case, cure: Cure = EVERYTHING) -> Remedy | None:
    """The longest context with which all of it fits, where that is enough for what is used."""
    fitting = fitting_of(case)
    tokens = fitting.longest(_AS_IT_IS) if fitting else None
    if fitting is None or tokens is None:
        return None
    halved = fitting.longest(_Q8) if can_shrink_cache(case) and fitting.lacking(fitting.context, _Q8) > 0 else None
    or_so = f" ({halved:,} with a q8_0 cache)" if halved and halved > tokens else ""
    change = Knob.CONTEXT_LENGTH.to(
        tokens, f"a context of {tokens:,} tokens{or_so}: all of it then fits on the GPU{fitting.beside}"
    )
    return Remedy(change, cure._replace(context=tokens), "long chats are cut")


def _halved_cache(fitting: Fitting, cure: Cure, *, alone: bool, in_part: bool) -> Remedy | None:
    """A quantised cache, where all of it then fits, or more layers do; `alone` where no shorter context is enough."""
    why, then = "a KV cache of half the size", cure
    if fitting.lacking(fitting.context, _Q8) <= 0:
        why += f": all of it fits at {fitting.context:,} tokens{fitting.beside}"
    elif alone and (tokens := fitting.longest(_Q8)):
        why += f", with a context of {tokens:,} tokens: all of it fits{fitting.beside}"
        then = cure._replace(context=tokens)
    elif in_part and fitting.available_bytes:
        then = Cure(vram_bytes=fitting.available_bytes, context=fitting.context * _HALF)
    else:
        return None
    return Remedy(Knob.KV_CACHE_TYPE.to(_Q8, why), then, "answers change slightly")


def _smaller_quant(fitting: Fitting, cure: Cure, *, shrinks: bool) -> Remedy:
    """A quant of which all fits: with the cache as it is, else quantised, else at a short context as well."""
    short = min(fitting.context, fitting.least_context)
    halved = ((fitting.context, _Q8, " beside a q8_0 cache"), (short, _Q8, f" beside a q8_0 cache of {short:,} tokens"))
    tries = (
        (fitting.context, _AS_IT_IS, ""),
        *(halved if shrinks else ((short, _AS_IT_IS, f" beside {short:,} tokens"),)),
    )
    for context, cache, beside in tries:
        room = fitting.weights_bytes - fitting.lacking(context, cache)
        bits = 8 * room / fitting.parameters if fitting.parameters else _COARSE_BITS
        if room > 0 and bits >= _COARSE_BITS:
            name = next((m.name for m in mixes_from_large_to_small() if m.usual and m.bits_per_weight <= bits), "")
            like = f", such as {name}" if name and fitting.parameters else ""
            why = (
                f"a smaller quant: a file of at most {room / GIB:.1f} GiB fits as a whole{beside}{like} "
                f"(now {fitting.weights_bytes / GIB:.1f})"
            )
            return Remedy(Knob.QUANT.to(None, why), cure, _FALLS)
    return Remedy(Knob.QUANT.to(None, "a smaller model: no useful quant of this one fits into the GPU's memory"))


@once
def fitting_of(case: Case) -> Fitting | None:
    """How much is lacking, by readings, else by the memory model of `fit`; None where neither tells that it lacks."""
    try:
        context = int(first_known(case.runtime.context_length, case.runtime.context_set).need())
        used = max(case.wish.context_tokens.value_or(0), case.runtime.longest_sequence.value_or(0), SHORTEST_USEFUL)
        found = _by_readings(case, context, used) or _by_names(case, context, used)
    except (MissingFactError, UserError):  # numbers that no model has, from a text or a header
        return None
    return found if found and found.lacking(context, _AS_IT_IS) > 0 else None


def _by_readings(case: Case, context: int, used: int) -> Fitting | None:
    """By what the runtime asks for and what it found free; a quantised cache counts as a shorter one."""
    # It is known what the runtime had: as it saw it, or free now beside what it holds itself
    runtime, devices = case.runtime, computing_devices(case)
    own = own_vram_bytes(case) is not None or isinstance(runtime.buffers, Known)
    free_now = own and all(isinstance(gpu.vram_free_bytes, Known) for gpu in gpus_used(case))
    seen = isinstance(runtime.available_bytes, Known) or any(isinstance(d.free_bytes, Known) for d in devices)
    if not (seen or free_now) or not (plan_of(case) or kv_per_token(case)):
        return None
    scale = {_AS_IT_IS: 1.0, _Q8: _HALF}
    demand = if_known(lambda case: read_demand(case, context), case)
    if demand is None:
        return None
    return Fitting(
        lambda tokens, cache: read_demand(case, tokens * scale[cache]).lacking,
        context, used, float(case.model.weights_bytes.need()), float(case.model.parameters.value_or(0)),
        available_bytes=demand.available,
    )  # fmt: skip


def _by_names(case: Case, context: int, used: int) -> Fitting | None:
    """By the memory model of `fit`, of a model whose tensors are known, or that the catalogue has in this quant."""
    name = case.model.name.value_or("")
    model, in_name = named_model(name, stand_in=False), (q.label for q in quants_said(name.lower()) if not q.of_cache)
    quant = case.model.quant.value_or(next(in_name, ""))
    if model and not quant and case.runtime.name.value_or("") in _GIVEN_BY:
        quant = model.published if model.published in _KEPT_AS_PUBLISHED else _USUAL_QUANT
    plan = blueprint_of(case.model) or (made_up(model, mix_of(quant)) if model and quant else None)
    rooms = [_room(case, gpu) for gpu in gpus_used(case)]
    if plan is None or not rooms or is_unified(case) or not runs_ggml(case) or not all(r.capacity_bytes for r in rooms):
        return None
    held = max(room.others_bytes for room in rooms)  # what is taken to be in use beside the model
    words = f", with {held / GIB:.1f} GiB left for the desktop"
    if all(_is_listed(case, gpu) for gpu in gpus_used(case)):
        words = f" beside the {held / MIB:.0f} MiB that others hold" if held else ""
    if model and model.projector and case.runtime.name.value_or("") == "Ollama":
        rooms[0] = rooms[0]._replace(others_bytes=rooms[0].others_bytes + _PROJECTOR_BYTES)
        words += f", and {_PROJECTOR_BYTES / GIB:.0f} GiB for its projector"
    setup = Setup(plan, Hardware(tuple(rooms)), settings_of(case)._replace(context=context)).settled()
    parameters = case.model.parameters.value_or(model.parameters if model else 0)

    def lacking(tokens: int, cache: str) -> float:
        settings = setup.settings._replace(context=tokens)
        if cache != _AS_IT_IS:
            settings = settings._replace(key_type=cache.upper(), value_type=cache.upper(), flash_attention=True)
        return -setup.left(settings)

    return Fitting(lacking, context, used, float(plan.weights_bytes), float(parameters), words)


def _room(case: Case, gpu: Gpu) -> Room:
    """The memory of a GPU, with what others hold there.

    As the driver lists it; else what is in use and not the runtime's by its own account, a desktop at least.
    """
    total, own = gpu_capacity_bytes(gpu), case.runtime.size_vram_bytes.value_or(0)
    rest = gpu.vram_used_bytes.value_or(0) - own - CUDA_CONTEXT_BYTES if own and len(gpus_used(case)) == 1 else 0.0
    held = max(float(DESKTOP_BYTES), rest)
    if _is_listed(case, gpu):
        strangers = [p for p in gpu.processes.value_or([]) if p in other_gpu_processes(case)]
        held = float(sum(p.vram_bytes.value_or(0) for p in strangers))
    reserve = gpu.vram_reserved_bytes.value_or(driver_reserve(total))
    return Room(gpu.name.value_or("GPU"), total, int(held), reserve)


def _is_listed(case: Case, gpu: Gpu) -> bool:
    """Whether every process on a GPU is listed with its size, the runtime's own among them."""
    listed = gpu.processes.value_or([])
    sized = all(isinstance(p.vram_bytes, Known) for p in listed)
    return sized and any(p not in other_gpu_processes(case) for p in listed)
