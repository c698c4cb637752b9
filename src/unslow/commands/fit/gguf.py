"""Whether a model fits llama.cpp, or Ollama, which runs it: the settings that a request means, and the answer."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from unslow import __version__
from unslow.catalog.quants import Mix, mixes_from_large_to_small
from unslow.commands._command_lines import commands_for
from unslow.commands._hardware import find_memory
from unslow.commands.fit import FitRequest
from unslow.commands.models.find import OLLAMA, FoundModel, as_quant, find_gguf_model
from unslow.facts.commands import Place, labelled_line
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.model import Blueprint, Model
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, NOT_LOOKED, reported_fact
from unslow.look.system import System
from unslow.think.case.view import CaseView
from unslow.think.fit.answers import FITS, rule_of_thumb, verdict_of
from unslow.think.fit.gguf import fitting_settings, most_context, most_layers, shown_cache, shown_needs
from unslow.think.fit.report import FitReport, ModelShown, QuantShown, WayShown
from unslow.think.hardware import Room
from unslow.think.memo import one_judgement
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings, ollama_micro_batch
from unslow.think.memory.llama_cpp.need import refusal
from unslow.think.memory.llama_cpp.scheduler import UNFUSED_UNTIL
from unslow.think.plan.llama_cpp.question import EVERYTHING
from unslow.think.plan.llama_cpp.question import OLLAMA as OLLAMA_ABILITIES
from unslow.think.plan.llama_cpp.runnable import Runnable, find_runnable, packed_cache
from unslow.think.setup import DEFAULT_MARGIN_BYTES, Setup

DEFAULT_CONTEXT = 8192
SERVER_SLOTS = 4  # What llama-server takes by default, with one cache for all of them
BATCH, MICRO_BATCH = 2048, 512
_OLLAMA_CONTEXTS = ((47 * GIB, 262144), (23 * GIB, 32768), (0, 4096))
"""Of all GPUs' memory together, and the context that Ollama then takes by itself, since 0.15.5 (server/routes.go)."""
_FLASH = {"on": True, "off": False, "auto": None}
_ROUGH = 0.05  # How far the size of a quant may be from its usual bits for each weight
_COARSE_BITS, _RUINOUS_BITS = 3.3, 3.0  # Below so many bits for each weight answers suffer visibly, or badly
_SHORTEST_USEFUL = 2048
_SAME_CONTEXT_PACKED = "the same context with a q8_0 KV cache"
_WORTH_A_WORD = 32 * MIB  # Less is lost in any margin
_TIGHT = (
    "less memory stays free than the margin: llama.cpp's own fit would move layers to the CPU (--fit off keeps them)"
)
_TIGHT_IN_OLLAMA = "less memory stays free than the margin: Ollama would move layers to the CPU (num_gpu keeps them)"


@one_judgement()
def gguf_answer(system: System, request: FitRequest) -> FitReport:
    """Whether the model fits, as llama.cpp counts."""
    request, found, setup = find_setup(system, request)
    return _Gguf(request, found, setup).report(tuple(_notes(request, found, setup)))


def find_setup(system: System, request: FitRequest) -> tuple[FitRequest, FoundModel, Setup]:
    """The model on the hardware with the settings that are asked for; UserError where llama.cpp does not start so.

    With the request as it was taken: a model of Ollama's store is for Ollama, unless another runtime was named.
    """
    found = find_gguf_model(system, request.model, request.quant)
    if found.tool == OLLAMA and "runtime" not in request.given:
        request = request._replace(runtime="ollama")
    hardware = find_memory(system, request.devices, request.ram_bytes)
    rooms = hardware.rooms
    if request.tensor_split and len(request.tensor_split) != len(rooms):
        why = f"--tensor-split must have one share per GPU (got {len(request.tensor_split)} for {len(rooms)})"
        raise UserError(why, "such as 3,1")
    settings = settings_of(request, trained_context(found.blueprint), rooms, found.settings)
    if why := refusal(Hyper(found.blueprint), settings):
        hint = "see --kv-type, --flash-attention and --parallel"
        raise UserError(f"llama.cpp does not start with these settings: {why}", hint)
    margin = DEFAULT_MARGIN_BYTES if request.margin_bytes is None else request.margin_bytes
    setup = Setup(found.blueprint, hardware, settings, margin).settle_attention()
    if request.runtime == "ollama" and not request.ubatch and rooms and setup.left() < 0:
        small = settings._replace(micro_batch=MICRO_BATCH, batch=request.batch or MICRO_BATCH)
        setup = setup._replace(settings=small).settle_attention()  # Ollama takes a larger one only where it fits
    return request, found, setup


def trained_context(plan: Blueprint) -> int:
    """What a model was trained for; what is usual where its header does not say."""
    return plan.count("context_length", DEFAULT_CONTEXT) or DEFAULT_CONTEXT


def settings_of(request: FitRequest, trained: int, rooms: Sequence[Room], own: Mapping[str, Any]) -> Settings:
    """With the runtime's defaults where the request says nothing; `own` is what Ollama's store has set."""
    ollama = request.runtime == "ollama"
    slots = request.parallel or (1 if ollama else SERVER_SLOTS)
    unified = request.parallel is None if request.kv_unified is None else request.kv_unified
    asked = default_context(request.runtime, trained, rooms, own) if request.context is None else request.context
    context = asked or trained
    usual = int(own.get("num_batch", 0)) or ollama_micro_batch(context) if ollama else MICRO_BATCH
    micro_batch = request.ubatch or usual
    return Settings(
        context=context * slots if ollama else context,
        batch=request.batch or (micro_batch if ollama else max(BATCH, micro_batch)),
        micro_batch=micro_batch,
        slots=slots,
        unified=unified and not ollama,
        key_type=request.kv_type.upper(),
        value_type=(request.kv_type_v or request.kv_type).upper(),
        flash_attention=_FLASH[request.flash_attention],
        outputs=slots if request.outputs is None else request.outputs,
        gpu_layers=-1 if request.gpu_layers is None else request.gpu_layers,
        cache_on_gpu=request.kv_offload,
        offload_ops=request.op_offload,
        full_windows=request.swa_full,
        experts_on_cpu=request.n_cpu_moe,
        overrides=_overrides(request.override_tensor, len(rooms)),
        split=request.tensor_split,
    )


def default_context(runtime: str, trained: int, rooms: Sequence[Room], own: Mapping[str, Any]) -> int:
    """Where nobody asks for one; for Ollama what the model's Modelfile says, else what all GPUs' memory allows.

    Ollama cuts what is longer than the model was trained for (llm/server.go).
    """
    if runtime != "ollama":
        return min(DEFAULT_CONTEXT, trained)
    memory = sum(room.capacity_bytes for room in rooms)
    usual = next(tokens for least, tokens in _OLLAMA_CONTEXTS if memory >= least)
    return min(int(own.get("num_ctx", 0)) or usual, trained)


def _overrides(patterns: tuple[str, ...], devices: int) -> tuple[tuple[str, str], ...]:
    """PATTERN=DEVICE as llama.cpp writes it, with the devices as numbers."""
    places = {"CPU": devices, **{f"CUDA{n}": n for n in range(devices)}}
    pairs = []
    for text in ",".join(patterns).split(",") if patterns else ():
        pattern, equals, device = text.rpartition("=")
        if not equals or device.upper() not in places:
            hint = f"write PATTERN=DEVICE, with one of {', '.join(places)}"
            raise UserError(f"{text!r} is not a tensor override", hint)
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(f"{pattern!r} is not a valid pattern: {error}", "it is a regular expression") from error
        pairs.append((pattern, str(places[device.upper()])))
    return tuple(pairs)


def _notes(request: FitRequest, found: FoundModel, setup: Setup) -> Iterator[str]:
    """What a user should know of the model, the settings and the memory."""
    settings, gpus, experts = setup.settings, setup.hardware.rooms, Hyper(found.blueprint).experts
    trained = trained_context(found.blueprint)
    yield from found.notes
    if request.ubatch and request.batch is None and request.ubatch > BATCH:
        yield f"a micro-batch of {request.ubatch} needs a batch at least as large; assuming -b {request.ubatch}"
    if settings.slot_context > trained:
        yield f"the context of a slot is {settings.slot_context:,} tokens; the model was trained for {trained:,}"
    if request.n_cpu_moe and not experts:
        yield "--n-cpu-moe has no effect: the model has no experts"
    if request.gpu_layers and not gpus:
        yield "--gpu-layers has no effect: there is no GPU"
    yield from setup.hardware.memory_notes
    if why := setup.memory().estimated:
        yield f"compute buffers are estimated: {why}"
    if experts and gpus and not settings.fuses:  # newer builds take more only for experts, and only on GPUs
        both = (setup.memory(settings._replace(fuses=fuses)).needs[:-1] for fuses in (False, True))
        more = max(newer.compute - older.compute for older, newer in zip(*both, strict=True))
        kept = f"keep {more / MIB:,.0f} MiB more for fused kernels on CUDA"
        if more >= _WORTH_A_WORD:
            yield f"builds of llama.cpp after b{UNFUSED_UNTIL} {kept}"


class _Gguf:
    """A setup, and what follows from the answers to it."""

    def __init__(self, request: FitRequest, found: FoundModel, setup: Setup) -> None:
        self._request, self._found, self._setup = request, found, setup
        self._ollama = request.runtime == "ollama"
        self._sharing = setup.settings.slots if self._ollama else 1  # Ollama's setting is the context of one slot
        self._everything = found.blueprint.count("block_count") + 1
        self._as_quant = cache(partial(as_quant, found.blueprint))
        self._tight = False

    def report(self, notes: tuple[str, ...]) -> FitReport:
        """The whole answer."""
        setup, found = self._setup, self._found
        devices, host = shown_needs(setup)
        placed = self._placed_settings(setup)
        is_open = self._request.gpu_layers is None
        changed = None if placed or not is_open else self._runnable()
        verdict = verdict_of(devices, host, layers_fit=is_open and bool(placed or changed))
        smaller = [] if FITS[verdict] is not False else list(self._smaller_quants())
        next_quant = None
        if smaller and smaller[-1][1].settings == setup.settings:
            mix, other = smaller[-1]
            on_gpus = sum(need.total for need in other.memory().needs[:-1])
            next_quant = QuantShown(name=mix.name, weights_bytes=other.blueprint.weights_bytes, gpu_bytes=on_gpus)
        runs_so = {"partly": placed, "does_not_fit": None}.get(verdict, setup.settings)
        set_layers = setup.settings.gpu_layers
        self._tight = verdict == "tight"
        if self._tight:
            notes = (*notes, _TIGHT_IN_OLLAMA if self._ollama else _TIGHT)
        lines = self._lines(runs_so) if runs_so else self._changed_lines(changed) if changed else {}
        needed = sum(d.total_bytes for d in (*devices, host))
        room = sum(r.usable_bytes for r in setup.hardware.rooms) if devices else None
        return FitReport(
            unslow_version=__version__,
            model=_model_shown(found),
            runtime=self._request.runtime,
            settings=_settings_shown(setup.settings),
            verdict=verdict,
            fits=FITS[verdict],
            devices=devices,
            host=host,
            gpu_layers=0 if not devices else self._everything if set_layers < 0 else min(set_layers, self._everything),
            all_gpu_layers=self._everything,
            max_gpu_layers=most_layers(setup),
            max_context=None if verdict == "cannot_tell" else self._most_context(setup),
            kv=shown_cache(setup),
            next_quant=next_quant,
            least_cpu_moe=placed.experts_on_cpu or None if placed and FITS[verdict] is False else None,
            **lines,
            ways=tuple(self._ways(placed, changed, smaller)) if FITS[verdict] is False else (),
            rule_of_thumb=rule_of_thumb(found.parameters, found.quant, room, needed),
            notes=notes,
        )

    def _placed_settings(self, setup: Setup) -> Settings | None:
        """As much on the GPUs as fits, whatever number of layers was asked for; Ollama moves whole layers only."""
        free = setup._replace(settings=setup.settings._replace(gpu_layers=-1))
        return fitting_settings(free, experts_may_move=not self._ollama)

    def _runnable(self) -> Runnable | None:
        """With what a plan may change too: the type of the cache, the micro-batch, slots that nobody asked for."""
        asked, packed = self._setup, self._packed_cache
        able, may_shrink = OLLAMA_ABILITIES if self._ollama else EVERYTHING, self._request.ubatch is None
        found = find_runnable(asked, packed, able, may_shrink_batch=may_shrink)
        if found or self._ollama or self._request.parallel:
            return found
        one = asked._replace(settings=asked.settings._replace(slots=1, outputs=1, unified=False))
        packed = packed and packed._replace(slots=1, outputs=1, unified=False)
        return find_runnable(one, packed, able, may_shrink_batch=may_shrink)

    def _changed_lines(self, changed: Runnable) -> dict[str, Any]:
        exact = bool(changed.settings.overrides or changed.settings.split)  # which llama.cpp's fit must not undo
        lines = lines_of(self._request, self._found, changed.settings, tight=exact, without_gpus=changed.without_gpus)
        return {"command": "\n".join(lines), "commands": lines}

    def _changed_words(self, changed: Runnable) -> str:
        settings, placing = changed.settings, changed.placing
        words = changed.changes(self._setup.settings)
        if settings.overrides:
            moved = placing.apart + bool(placing.pieces)
            some = f"{'expert' if settings.experts_on_cpu else 'feed-forward'} matrices of {moved} layers"
            words.append(f"{settings.gpu_layers} of {self._everything} layers offloaded except {some}: much slower")
        elif self._setup.hardware.rooms and not changed.without_gpus:
            words.append(self._placement_words(settings))
        return f"the same context with {', '.join(words)}"

    def _most_context(self, setup: Setup) -> int | None:
        """In the count that the runtime's own setting has."""
        most = most_context(setup)
        return most // self._sharing if most else most

    def _lines(self, settings: Settings, *, other_file: bool = False) -> dict[str, Any]:
        """What to type, as the fields of a report; another file than the one that was read has no name yet."""
        found = self._found._replace(requantised=True) if other_file else self._found
        lines = lines_of(self._request, found, settings, tight=self._tight)
        return {"command": "\n".join(lines), "commands": lines}

    def _ways(
        self, placed: Settings | None, changed: Runnable | None, smaller: Sequence[tuple[Mix, Setup]]
    ) -> Iterator[WayShown]:
        """What would fit instead, by what is lost: context first, then a little quality, speed, and much quality."""
        if changed:
            yield WayShown(what=self._changed_words(changed), **self._changed_lines(changed))
        whole = []
        for quant, setup in smaller[:1]:
            what = f"{self._quant_words(quant, setup.settings)}, the largest common quant that fits"
            whole.append(WayShown(what=what, **self._lines(setup.settings, other_file=True)))
        is_coarse = bool(smaller) and smaller[0][0].bits_per_weight < _COARSE_BITS
        yield from self._less_cache()
        yield from () if is_coarse else whole
        if placed:
            yield WayShown(what=self._placement_words(placed), **self._lines(placed))
        else:
            yield from self._less_and_partly(same_context=not changed)
        yield from whole if is_coarse else ()

    def _less_cache(self) -> Iterator[WayShown]:
        """A shorter context, a q8_0 cache, or both, with the weights where they were asked for."""
        settings, packed = self._setup.settings, self._packed_cache
        shorter = self._most_context(self._setup) or 0
        if shorter >= _SHORTEST_USEFUL:
            lines = self._lines(settings._replace(context=shorter * self._sharing))
            yield WayShown(what=f"a context of {shorter:,} tokens", **lines)
        if packed and self._setup.left_or_lacking(packed) >= 0:
            yield WayShown(what=_SAME_CONTEXT_PACKED, **self._lines(packed))
        elif packed:
            longer = self._most_context(self._setup._replace(settings=packed)) or 0
            if longer > max(shorter, _SHORTEST_USEFUL):
                lines = self._lines(packed._replace(context=longer * self._sharing))
                yield WayShown(what=f"a context of {longer:,} tokens with a q8_0 KV cache", **lines)

    def _less_and_partly(self, *, same_context: bool) -> Iterator[WayShown]:
        """Where GPUs and host together do not hold what is asked for: less of it, as much as fits on the GPUs."""
        asked, packed = self._setup, self._packed_cache
        if not asked.hardware.rooms:  # then all of it is on the host anyway
            return
        tokens = asked.settings.context // self._sharing
        less: list[tuple[str, Settings]] = [(_SAME_CONTEXT_PACKED, packed)] if packed and same_context else []
        while (tokens := tokens // 2) >= _SHORTEST_USEFUL:
            less.append((f"a context of {tokens:,} tokens", asked.settings._replace(context=tokens * self._sharing)))
        for what, settings in less:
            if placed := self._placed_settings(asked._replace(settings=settings)):
                yield WayShown(what=f"{what}, with {self._placement_words(placed)}", **self._lines(placed))
                break
        # With less than this, most trials would be in vain
        room = asked.hardware.usable_bytes - len(asked.hardware.rooms) * asked.margin_bytes
        for quant, settings in product(self._quants_below(room), self._caches):
            other = asked._replace(blueprint=self._as_quant(quant.name), settings=settings)
            if other.weights_and_cache_bytes <= room and (placed := self._placed_settings(other)):
                what = f"{self._quant_words(quant, placed)}, with {self._placement_words(placed)}"
                yield WayShown(what=what, **self._lines(placed, other_file=True))
                break

    def _placement_words(self, settings: Settings) -> str:
        layers, experts = settings.gpu_layers, settings.experts_on_cpu
        if not 0 <= layers < self._everything:
            split = f"the experts of {experts} layers in host memory, the rest on the GPU"
            return split if experts else "all layers offloaded"
        bare = " without their experts" if experts else ""
        return f"{layers} of {self._everything} layers{bare} offloaded, the rest in host memory: much slower"

    def _quant_words(self, quant: Mix, settings: Settings) -> str:
        bits = quant.bits_per_weight
        loss = "" if bits >= _COARSE_BITS else f" ({'some' if bits >= _RUINOUS_BITS else 'large'} quality loss)"
        return f"{quant.name}{loss}{'' if settings.key_type == self._setup.settings.key_type else ' in a q8_0 cache'}"

    @property
    def _caches(self) -> list[Settings]:
        """The settings as asked and, where that loses nothing, with a q8_0 cache."""
        return [self._setup.settings, *([self._packed_cache] if self._packed_cache else [])]

    @cached_property
    def _packed_cache(self) -> Settings | None:
        """The same settings with a q8_0 cache, where llama.cpp takes that and answers are as good."""
        return packed_cache(self._setup, self._found.quant, self._found.parameters)

    def _smaller_quants(self) -> Iterator[tuple[Mix, Setup]]:
        """The usual quants below this one that fit whole in a q8_0 cache, down to the first that fits as asked."""
        most = max(self._setup.left_or_lacking(settings) for settings in self._caches)
        for quant in self._quants_below(self._found.blueprint.weights_bytes + most):
            other = self._setup._replace(blueprint=self._as_quant(quant.name))
            fitting = (settings for settings in self._caches if other.left_or_lacking(settings) >= 0)
            if settings := next(fitting, None):
                yield quant, other._replace(settings=settings)
                if settings == self._setup.settings:
                    return

    def _quants_below(self, most_bytes: float) -> Iterator[Mix]:
        """The usual quants that are smaller than this one and, by their bits, no larger than so much."""
        bits = 8 * self._found.blueprint.weights_bytes / max(1, self._found.parameters)
        enough = bits * min(1, most_bytes / self._found.blueprint.weights_bytes + _ROUGH)
        quants = mixes_from_large_to_small()
        yield from (m for m in quants if m.bits_per_weight < enough and m.name != self._found.quant)


def lines_of(
    request: FitRequest, found: FoundModel, settings: Settings, *, tight: bool = False, without_gpus: bool = False
) -> tuple[str, ...]:
    """What to type to run the model so, by the writer of the runtime's commands that every verb has."""
    source, ollama = found.source, request.runtime == "ollama"
    is_file = not found.requantised and Path(source).suffix == ".gguf" and "://" not in source
    name = found.name_in_ollama(request.model) if ollama else ""
    changes = _changes(request, settings, tight=tight)
    if without_gpus and not ollama:  # for which a number of 0 layers means the same
        changes.append(Knob.DEVICE.to("none"))
    if ollama and is_file:
        changes = [Knob.MODEL_FILE.to(str(Path(source).absolute())), *changes]
    model = Model(
        name=reported_fact(name, "given") if name else NOT_LOOKED,
        path=reported_fact(source if is_file else "MODEL.gguf", "given"),
    )
    spelled = commands_for(changes, CaseView(Case(model=model)), name=request.runtime)
    left = (f"{change.knob.replace('_', ' ')} {change.value}: {why}" for change, why in spelled.left_out)
    return (*spelled.lines, *(labelled_line(Place.HAND, f"not in these commands: {what}") for what in left))


def _changes(request: FitRequest, settings: Settings, *, tight: bool) -> list[Change]:
    """All that memory was counted with and the runtime does not do by itself; `tight` leaves nothing to its fit."""
    ollama = request.runtime == "ollama"
    usual_slots = (settings.slots, settings.unified) == ((1, False) if ollama else (SERVER_SLOTS, True))
    shared = settings.unified and settings.slots > 1 and not usual_slots
    key, value = settings.key_type.lower(), settings.value_type.lower()
    told_flash = request.flash_attention != "auto" or value not in ("f32", "f16", "bf16")
    overrides = request.override_tensor or tuple(f"{pattern}=CPU" for pattern, _ in settings.overrides)
    wanted: tuple[tuple[Knob, Setting], ...] = (
        (Knob.CONTEXT_LENGTH, settings.context),
        (Knob.PARALLEL, None if usual_slots else settings.slots),
        (Knob.KV_UNIFIED, True if shared else None),
        (Knob.LOGICAL_BATCH, settings.batch if settings.batch != BATCH and not ollama else None),
        (Knob.BATCH, settings.micro_batch if settings.micro_batch != MICRO_BATCH or ollama else None),
        (Knob.KV_CACHE_TYPE, key if key != "f16" or value != key else None),
        (Knob.VALUE_CACHE_TYPE, value if value != key else None),
        (Knob.FLASH_ATTENTION, request.flash_attention != "off" if told_flash else None),
        (Knob.KV_OFFLOAD, None if settings.cache_on_gpu else False),
        (Knob.PROMPT_CACHE, "swa-full" if settings.full_windows else None),
        (Knob.GPU_LAYERS, settings.gpu_layers if settings.gpu_layers >= 0 or tight else None),
        (Knob.FIT, False if tight and not ollama else None),  # Ollama's number of layers turns its fit off
        (Knob.EXPERTS_ON_CPU, settings.experts_on_cpu or None),
        (Knob.TENSOR_OVERRIDE, ",".join(overrides) if overrides else None),
        (Knob.TENSOR_SPLIT, ",".join(f"{share:g}" for share in settings.split) if settings.split else None),
        (Knob.OP_OFFLOAD, None if settings.offload_ops else False),
    )
    return [knob.to(setting) for knob, setting in wanted if setting is not None]


def _model_shown(found: FoundModel) -> ModelShown:
    plan = found.blueprint
    return ModelShown(
        name=found.name, architecture=plan.architecture, quant=found.quant, source=found.source,
        parameters=found.parameters, weights_bytes=plan.weights_bytes, file_bytes=plan.file_bytes,
        layers=plan.count("block_count"), context_trained=plan.count("context_length"),
        stands_for=found.stands_for, estimated_as=found.estimate.mix.name if found.estimate else "",
        size_off=found.estimate.off if found.estimate else 0.0,
    )  # fmt: skip


def _settings_shown(settings: Settings) -> dict[str, str | int | bool]:
    return {
        "context": settings.whole_context,
        "context_per_slot": settings.slot_context,
        "slots": settings.slots,
        "kv_unified": settings.unified,
        "kv_type": settings.key_type.lower(),
        "kv_type_v": settings.value_type.lower(),
        "batch": settings.used_batch,
        "ubatch": settings.used_micro_batch,
        "outputs": settings.most_outputs,
        "flash_attention": {True: "on", False: "off", None: "auto"}[settings.flash_attention],
        "kv_offload": settings.cache_on_gpu,
    }
