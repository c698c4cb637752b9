"""What runs now, as the search takes it: settings, where the layers are, and the knobs that were set."""

from collections.abc import Mapping
from typing import NamedTuple

from unslow.facts.knob import Knob, Setting
from unslow.facts.model import Blueprint
from unslow.facts.values import Known, MissingFactError, Origin
from unslow.think.case.view import CaseView
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.physics.token_time import throttling
from unslow.think.plan.goal import Goal
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.points import DEFAULT_CACHE, DEFAULT_MICRO_BATCH
from unslow.think.plan.llama_cpp.question import Current
from unslow.think.plan.llama_cpp.search import USUAL_BATCH
from unslow.think.plan.report import ChangeShown

UNMAPPED = ("none", "mlock", "dio")  # ways of loading that put weights on the host into memory of the GPU's own kind
_COUNTED = ("--n-cpu-moe ", "--cpu-moe")  # how experts that are counted by layers stand among the overrides


class RunningServer(NamedTuple):
    """A case, its model, and its runtime's default thread count."""

    case: CaseView
    pieces: Pieces
    by_itself: int
    on_gpus: bool = True  # Whether it computes on GPUs at all

    @property
    def layers(self) -> int:
        """Of the model, without the output."""
        return len(self.pieces.layers)

    @property
    def threads(self) -> int:
        """As set, else the defaults."""
        return int(self.case.runtime.compute.threads.value_or(0)) or self.by_itself


def context_of(case: CaseView) -> int:
    """Tokens of one conversation; 0 where nothing tells."""
    runtime = case.runtime
    whole = runtime.context.length.value_or(0)
    if _multiplies(case) and getattr(runtime.context.length, "origin", None) is Origin.ESTIMATED:
        return int(runtime.context.per_slot.value_or(whole))
    slots = 1 if runtime.cache.unified.value_or(default=False) else max(1, runtime.scheduling.slots.value_or(1))
    return int(runtime.context.per_slot.value_or(whole // slots))


def slots_of(case: CaseView) -> int:
    """Conversations that have a cache of their own: 1 where all share one, however many there may be."""
    slots, one = max(1, case.runtime.scheduling.slots.value_or(1)), context_of(case)
    if _multiplies(case):
        return slots
    whole = case.runtime.context.length.value_or(one)
    apart = not case.runtime.cache.unified.value_or(default=one >= whole)
    return slots if apart and one < whole else 1


def _multiplies(case: CaseView) -> bool:
    """Whether every conversation has a cache of its own: Ollama takes the context of one, times their number."""
    return case.runtime.name.value_or("") == "Ollama"


def current_of(seen: RunningServer) -> Current:
    """The settings and where everything lies."""
    settings = settings_of(seen.case)
    if not seen.on_gpus:
        return Current(settings, seen.threads, whole=seen.layers)
    whole = _whole_host_layers(seen)
    pinned = seen.case.runtime.placement.load_mode.value_or("") in UNMAPPED
    return Current(settings, seen.threads, whole, _split_layers(seen, whole), pinned)


def hindered_by_threads(seen: RunningServer) -> float:
    """By how much its threads slow it down where all is computed by processors whose time is limited; else 1."""
    if seen.on_gpus:
        return 1.0
    return float(throttling(float(seen.threads), seen.case.host.own_cpus, seen.case.host.quota[0].value_or(0.0)))


def settings_of(case: CaseView) -> Settings:
    """As the runtime has them now, with its defaults where nothing tells."""
    runtime, slots = case.runtime, max(1, case.runtime.scheduling.slots.value_or(1))
    own = slots_of(case) == slots
    told = 0 if _multiplies(case) else int(runtime.context.length.value_or(0))
    return Settings(
        context=told or context_of(case) * slots_of(case) or Settings().context,
        batch=int(runtime.compute.batch.value_or(USUAL_BATCH)),
        micro_batch=int(runtime.compute.ubatch.value_or(DEFAULT_MICRO_BATCH)),
        slots=slots,
        unified=runtime.cache.unified.value_or(default=not own or slots == 1),
        key_type=runtime.cache.type_k.value_or(DEFAULT_CACHE).upper(),
        value_type=runtime.cache.type_v.value_or(DEFAULT_CACHE).upper(),
        flash_attention=runtime.compute.flash_attention.value_or(None),
        outputs=slots,
        cache_on_gpu=not case.placement.cache_on_host,
        offload_ops=runtime.placement.op_offload.value_or(default=True),
        full_windows=runtime.cache.swa_full.value_or(default=False),
    )


def _whole_host_layers(seen: RunningServer) -> int:
    """Layers that are on the host as a whole; the output is the last to go."""
    runtime, everything = seen.case.runtime, seen.layers + 1
    if isinstance(runtime.placement.gpu_layers, Known) and isinstance(runtime.placement.layers, Known):
        share = runtime.placement.gpu_layers.value / max(1, runtime.placement.layers.value)
        return min(seen.layers, round(everything * (1 - min(1.0, share))))
    try:
        placed = seen.case.placement.read(seen.case.memory.shape)
    except MissingFactError:
        return 0
    return min(seen.layers, max(0, round(seen.layers - placed.attending)))


def _split_layers(seen: RunningServer, whole: int) -> int:
    """Layers on GPUs whose movable matrices are on the host: as set, else as counted, else as allocated."""
    case = seen.case
    overflowing = int(case.runtime.placement.overflowing_layers.value_or(0))
    if case.runtime.placement.tensor_overrides.value_or([]):
        counted = case.placement.layers_without_experts(seen.layers) if seen.pieces.is_sparse else None
        if counted is not None:
            return max(0, min(seen.layers, round(counted)) - whole)
        away = float(case.placement.bytes_of_layers_on_host(whole) or 0)
        return _layers_of(seen, whole, away - sum(x.rest_bytes + x.piece_bytes for x in seen.pieces.layers[:whole]))
    if overflowing:
        return max(0, min(seen.layers, overflowing) - whole)
    if not whole and case.placement.holds_weights_on_host:
        held = sum(b.bytes for b in case.vram.buffers("model", on_gpu=False))
        return _layers_of(seen, whole, held - case.model.token_table_bytes.value_or(0))
    return 0


def _layers_of(seen: RunningServer, whole: int, lacking: float) -> int:
    """Of how many layers the movable matrices are so many bytes."""
    count = 0
    for layer in seen.pieces.layers[whole:]:
        if lacking < layer.piece_bytes / 2:
            break
        lacking, count = lacking - layer.piece_bytes, count + 1
    return count


def now_of(seen: RunningServer, told: Mapping[str, str], *, users_asked: bool = False) -> tuple[ChangeShown, ...]:
    """What is set now, knob by knob; `told` is its command line, by the name of the setting."""
    case, runtime, settings = seen.case, seen.case.runtime, settings_of(seen.case)
    # The context stays as it is with other settings where it was set, or it is the longest
    own_fit = runtime.name.value_or("").endswith("llama.cpp") and "context" not in told
    stays = not own_fit or settings.context == seen.pieces.blueprint.count("context_length")
    own_slots = settings.slots == 1 or slots_of(case) > 1 or (users_asked and "slots" in told)
    key, value, micro_batch = settings.key_type, settings.value_type, settings.micro_batch
    flash = value != DEFAULT_CACHE or ("flash_attention" in told and settings.flash_attention is False)
    knobs: list[tuple[Knob, Setting]] = [
        (Knob.CONTEXT_LENGTH, settings.context if stays else None),
        (Knob.PARALLEL, settings.slots if own_slots else None),
        (Knob.KV_CACHE_TYPE, key.lower() if key != DEFAULT_CACHE else None),
        (Knob.VALUE_CACHE_TYPE, value.lower() if value != key else None),
        (Knob.FLASH_ATTENTION, settings.flash_attention is not False if flash else None),
        (Knob.KV_OFFLOAD, None if settings.cache_on_gpu else False),
        *(_placement_knobs(seen, told) if seen.on_gpus else [_device_knob(told)]),
        (Knob.BATCH, micro_batch if micro_batch != DEFAULT_MICRO_BATCH or _multiplies(case) else None),
        (Knob.LOGICAL_BATCH, settings.batch if settings.batch != USUAL_BATCH and "batch" in told else None),
        (Knob.THREADS, seen.threads if seen.threads != seen.by_itself else None),
    ]
    return tuple(ChangeShown(knob=knob.value, value=value) for knob, value in knobs if value is not None)


def _device_knob(told: Mapping[str, str]) -> tuple[Knob, Setting]:
    return Knob.DEVICE, "none" if told.get("device") == "none" else None


def _placement_knobs(seen: RunningServer, told: Mapping[str, str]) -> list[tuple[Knob, Setting]]:
    runtime, split_mode = seen.case.runtime, told.get("split_mode", "layer")
    layers, load_mode = runtime.placement.gpu_layers_set.value_or(-1), str(runtime.placement.load_mode.value_or(""))
    overrides = runtime.placement.tensor_overrides.value_or([])
    counted = [one for one in overrides if one.startswith(_COUNTED)]
    number = counted[-1].rpartition(" ")[2] if counted else ""
    experts = int(number) if number.isdecimal() else seen.layers
    others = [one for one in overrides if one not in counted]
    has_main = "main_gpu" in told and split_mode in ("none", "row")
    return [
        (Knob.FIT, False if runtime.placement.fit.value_or(default=True) is False else None),
        (Knob.GPU_LAYERS, int(layers) if 0 <= layers <= seen.layers else None),  # more is all of them, as without it
        (Knob.LOAD_MODE, load_mode if load_mode in UNMAPPED else None),
        (Knob.EXPERTS_ON_CPU, experts if counted else None),
        (Knob.TENSOR_OVERRIDE, ",".join(others) if others else None),
        _device_knob(told),
        (Knob.SPLIT_MODE, split_mode if split_mode != "layer" else None),
        (Knob.TENSOR_SPLIT, told["tensor_split"].replace("/", ",") if "tensor_split" in told else None),
        (Knob.MAIN_GPU, runtime.placement.main_gpu.value_or(0) if has_main else None),
    ]


def room_lacking(case: CaseView, goal: Goal, plan: Blueprint) -> str:
    """A word on what runs having less room than is asked for, by tokens or by conversations; empty where it has."""
    one, now = context_of(case), settings_of(case)
    wanted = min(goal.context, plan.count("context_length") or goal.context)  # no conversation gets longer than that
    users = goal.work.users
    if not one or (one >= wanted and now.slots >= users and now.context >= wanted * users):
        return ""
    several = f" {users} of" if users > 1 else ""
    has = f"{now.slots} conversations in {now.context:,} tokens" if now.slots > 1 else f"one of {one:,} tokens"
    return f"the current server has no room for{several} {goal.context:,} tokens: its slots hold {has}"
