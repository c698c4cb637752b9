"""What runs now on llama.cpp or what is built on it: its settings, what lies in memory, and its own line, changed."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec

from unslow.commands._command_lines import commands_for
from unslow.commands.models.find import FoundModel
from unslow.commands.plan.gguf import ABILITIES
from unslow.commands.plan.running import seen_model, settings_given
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.look.system import System
from unslow.page.speeds import range_of
from unslow.page.view import MemoryBar, WhatIf
from unslow.page.what_if import memory_view
from unslow.page.what_if.gguf import GgufAnswers, PricedWork, PriceFactors, Speeds, Subject, asked_now, host_bar
from unslow.page.what_if.memory_view import AskedSettings
from unslow.page.what_if.placed_layers import assumed_gpu_layers, without_own_vram
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.fit.answers import shown_memory, verdict_of
from unslow.think.fit.report import MemoryShown
from unslow.think.hardware import Hardware, Room, threads_by_itself
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.memory.llama_cpp.need import Need, refusal
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing, patterns
from unslow.think.plan.llama_cpp.question import Current
from unslow.think.plan.llama_cpp.running import RunningServer, current_of
from unslow.think.plan.running import given_back, gpus_at_work, seen_hardware, seen_memory
from unslow.think.report import Range
from unslow.think.setup import SAME_MEMORY, Setup

REPORTED = "the buffer sizes in the server's log"
_WHERE = "run unslow on the machine itself"
_MOST_CONTEXT = 2**27  # More than any model was trained for; a log may claim anything
_MOST_SCALED = 4.0
"""A prediction that is so many times another is of something else than settings: then prices stay as they are."""
_NUMBER = re.compile(r"(?<!\d)(\d+)$")


def seen_subject(system: System | None, case: CaseView) -> Subject | Unknown:
    """The subject, or what is missing for it; `system` is the machine that it runs on, None where that is elsewhere."""
    found = seen_model(system, case)
    if isinstance(found, Unknown):
        return found
    gpus = () if settings_given(case).get("device", "") == "none" else gpus_at_work(case)
    memory = seen_memory(case, gpus)
    if gpus and not memory.rooms:
        return Unknown("the VRAM size of its GPUs is unknown", _WHERE)
    if not memory.rooms and memory.host_room is None:
        return Unknown("the memory size of the machine is unknown", _WHERE)
    try:
        subject = _subject(case, found, gpus, memory)
    except UserError as error:  # numbers that no model has
        return Unknown(error.message, error.hint)
    if found.notes and "catalog" in found.notes[-1]:
        source = "the tensors of the catalog model with its name or shape, laid out as llama.cpp does"
        return subject._replace(source=source)
    return subject


def _subject(case: CaseView, found: FoundModel, gpus: tuple[Gpu, ...], memory: Hardware) -> Subject:
    pieces, count = Pieces(found.blueprint), len(memory.rooms)
    current = current_of(RunningServer(case, pieces, threads_by_itself(case.machine) or 1, on_gpus=bool(count)))
    told, hardware = settings_given(case), _with_speed(case, gpus, memory, current)
    base = _base(case, pieces, current, count)._replace(split=_split(told, count))
    setup = Setup(found.blueprint, hardware or memory, base)
    usual = Work()
    work = usual._replace(kept=max(0, int(case.speed.depth - usual.depth)))
    on_host = current.whole + current.apart if current.apart else 0
    subject = Subject(
        found,
        setup,
        asked_now(found, setup),
        others=tuple(other_programs_on(case, gpu) for gpu in gpus),
        priced=PricedWork(current.threads, work, on_host) if hardware else None,
        unified="kv_unified" in told and base.unified,
        rotates=case.memory.rotates_cache,
        notes=found.notes,
        gpus=gpus,
    )
    if placed := assumed_gpu_layers(case, GgufAnswers(subject)):
        layers, note = placed
        subject = subject._replace(now=subject.now._replace(gpu_layers=layers), notes=(note, *subject.notes))
    subject = without_own_vram(case, GgufAnswers(subject))
    return subject._replace(command=partial(command_lines, case, subject.now))


def _base(case: CaseView, pieces: Pieces, current: Current, gpus: int) -> Settings:
    settings, first = current.settings, current.whole + current.apart if current.apart else 0
    host, everything = str(gpus), pieces.blueprint.count("block_count") + 1
    layers = everything - current.whole
    if current.whole >= len(pieces.layers):
        layers = 1 if case.runtime.placement.gpu_layers.value_or(0) > 0 else 0
    moved = () if pieces.is_sparse or not first else patterns(Placing(0, first), pieces)
    return settings._replace(
        context=max(1, min(settings.context, _MOST_CONTEXT)),
        slots=min(settings.slots, 256),
        gpu_layers=-1 if not gpus or layers >= everything else layers,
        experts_on_cpu=first if pieces.is_sparse else 0,
        overrides=tuple((pattern, host) for pattern in moved),
        fuses=case.memory.keeps_fused_inputs or False,
    )


def _split(told: dict[str, str], gpus: int) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in told.get("tensor_split", "").replace("/", ",").split(",") if share)
    except ValueError:
        return ()
    sound = len(shares) == gpus > 1 and all(0 <= share < _MOST_CONTEXT for share in shares) and sum(shares) > 0
    return shares if sound else ()


def _with_speed(case: CaseView, gpus: tuple[Gpu, ...], memory: Hardware, current: Current) -> Hardware | None:
    """None if the speed of the hardware is unknown."""
    cpu = case.machine.cpu
    if not gpus and not cpu.physical_cores.value_or(cpu.logical_cpus.value_or(0)):
        return None
    try:
        return seen_hardware(case, gpus, memory)._replace(pinned=current.pinned)
    except MissingFactError:
        return None


def other_programs_on(case: CaseView, gpu: Gpu) -> tuple[memory_view.OtherProgram, ...]:
    """The programs that hold memory of a GPU and are not the runtime."""
    found, others = [], case.vram.other_processes
    for process in gpu.processes.value_or([]):
        if process in others:
            name = process.name.value_or("").replace("\\", "/").rpartition("/")[2].strip()[:60]
            size = process.vram_bytes
            held = int(size.value) if isinstance(size, Known) else None
            found.append(memory_view.OtherProgram(name or f"process {process.pid}", held))
    return tuple(found)


def command_lines(case: CaseView, now: AskedSettings, asked: AskedSettings, settings: Settings) -> str:
    """The lines to type; empty where nothing differs, or where it is another file."""
    if asked.quant != now.quant:
        return ""
    changes = []
    if (asked.context, asked.slots) != (now.context, now.slots):
        changes.append(Knob.CONTEXT_LENGTH.to(settings.context))
    if asked.slots != now.slots:
        changes.append(Knob.PARALLEL.to(asked.slots))
    if asked.kv_type != now.kv_type:
        changes.append(Knob.KV_CACHE_TYPE.to(asked.kv_type))
        if settings.value_type not in ("F16", "BF16", "F32"):
            changes.append(Knob.FLASH_ATTENTION.to(value=True))
    pinned = isinstance(case.runtime.placement.gpu_layers_set, Known) or settings.gpu_layers < 0
    if asked.gpu_layers != now.gpu_layers or (changes and not pinned):  # its own fit would choose anew
        changes.append(Knob.GPU_LAYERS.to(asked.gpu_layers))
    try:
        spelled = commands_for(changes, case) if changes else None
    except UserError:  # a runtime that has no words at all
        return ""
    return "\n".join(spelled.lines) if spelled else ""


def cache_types(case: CaseView, found: FoundModel, base: Settings) -> list[str]:
    """The types that its runtime can be told, and with which llama.cpp starts."""
    name = case.runtime.name.value_or("")
    able = ABILITIES.get({"Ollama": "ollama", "LM Studio": "lm_studio"}.get(name, "llama.cpp"), ABILITIES["llama.cpp"])
    return startable_cache_types(found, base, able.cache_types)


def startable_cache_types(found: FoundModel, base: Settings, kinds: tuple[str, ...]) -> list[str]:
    """The types of cache with which llama.cpp starts."""
    hyper = hyper_of(found.blueprint)
    return [kind.lower() for kind in kinds if not refusal(hyper, base._replace(key_type=kind, value_type=kind))]


def now_of(case: CaseView, answers: GgufAnswers) -> tuple[WhatIf, str]:
    """What is there, with the speed that the report expects of it, and how that is known."""
    subject = answers.subject
    laid = answers.answer(subject.now)
    if case.runtime.state.value_or("loaded") == "failed":
        return laid, subject.source
    parts = reported_parts(case, len(subject.gpus))
    if parts is None:
        whole = answers.layout(subject.now)
        return _running_what_if(case, laid, answers, whole.devices, whole.host), subject.source
    bars, devices, host = _as_reported(case, subject, parts)
    return _running_what_if(case, msgspec.structs.replace(laid, bars=bars), answers, devices, host), REPORTED


def _running_what_if(
    case: CaseView, laid: WhatIf, answers: GgufAnswers, devices: Sequence[MemoryShown], host: MemoryShown
) -> WhatIf:
    """With the verdict and speed of something that runs, even where it should not fit."""
    decode = expected_range(case.speed.predict()) or laid.decode_tokens_per_s
    prefill = expected_range(case.speed.predict_prefill()) or laid.prefill_tokens_per_s
    layers = answers.layers(answers.subject.now)
    verdict = memory_view.verdict_with(verdict_of(devices, host, layers_fit=False), layers, devices)
    if verdict == "does_not_fit":
        said, decode, prefill = memory_view.overfull_words(devices, host), None, None
    else:
        said = memory_view.what_if_summary(verdict, devices, host, layers, decode)
    return msgspec.structs.replace(
        laid, verdict=verdict, summary=said, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill
    )


def expected_of(case: CaseView, price: Speeds | None) -> PriceFactors:
    """What the report expects of what runs, of answers and of prompts, as multiples of their prices."""
    if price is None:
        return PriceFactors()
    factors: list[Range | None] = []
    for found, mid in ((case.speed.predict(), price.decode.mid), (case.speed.predict_prefill(), price.prefill.mid)):
        expected, by = expected_range(found), None
        if expected and mid and 1 / _MOST_SCALED <= expected.mid / mid <= _MOST_SCALED:
            by = Range(low=expected.low / mid, mid=expected.mid / mid, high=expected.high / mid)
        factors.append(by)
    return PriceFactors(price.group, *factors)


def expected_range(found: Prediction | Unknown) -> Range | None:
    """Tokens per second; None where nothing can be predicted."""
    return None if isinstance(found, Unknown) else range_of(found.tokens_per_s)


def reported_parts(case: CaseView, gpus: int) -> list[Need] | None:
    """What lies on each GPU and at the end with the host; None where not all kinds of buffers were told."""
    buffers = case.runtime.memory.buffers
    if not isinstance(buffers, Known):
        return None
    kinds = {buffer.kind for buffer in buffers.value}

    devices = {buffer.device for buffer in buffers.value if buffer.on_gpu}
    names = sorted(devices, key=lambda name: (int(found[1][:6]) if (found := _NUMBER.search(name)) else 0, name))
    if not {"model", "compute"} <= kinds or not kinds & {"kv", "state"} or len(names) not in (0, gpus):
        return None
    groups = [[b for b in buffers.value if b.on_gpu and b.device == name] for name in names or [""] * gpus]
    parts = []
    for group in (*groups, [b for b in buffers.value if not b.on_gpu]):
        sizes = Counter[str]()
        for buffer in group:
            sizes[buffer.kind] += int(buffer.bytes)
        parts.append(Need(sizes["model"], sizes["kv"] + sizes["state"], sizes["compute"] + sizes["output"]))
    return parts


def _as_reported(
    case: CaseView, subject: Subject, parts: list[Need]
) -> tuple[tuple[MemoryBar, ...], list[MemoryShown], MemoryShown]:
    hardware = subject.hardware
    *own, of_host = parts
    shared = hardware.is_unified
    bars, devices = [], []
    for n, (room, part, held) in enumerate(zip(hardware.rooms, own, given_back(case, subject.gpus), strict=True)):
        beside = max(0, int(held) - sum(part)) if sum(part) and room.context_bytes else 0
        both = Need(*map(sum, zip(part, of_host, strict=True))) if shared and not n else part
        had, kept, short = room, beside, shown_memory(part, room, beside).lacking_bytes
        if 0 < short <= room.reserve_bytes + beside:  # what runs shows that the reserve is smaller
            kept = max(0, beside - short)
            had = room._replace(reserve_bytes=room.reserve_bytes - max(0, short - beside))
        asked = memory_view.AskedBytes(both, kept, 0, sum(of_host) if shared and not n else 0)
        bars.append(memory_view.bar_of(had, asked, subject.others[n]))
        devices.append(shown_memory(part, had, kept, margin=int((had, kept) != (room, beside))))
    left = hardware.host_room
    if shared:  # what a GPU leaves of a memory that is the host's too
        room = hardware.rooms[0]
        left = Room(SAME_MEMORY, room.capacity_bytes, others_bytes=room.others_bytes + sum(own[0]))
    host = shown_memory(of_host, left)
    return (*bars, *(() if shared else (host_bar(hardware.host_room, of_host),))), devices, host
