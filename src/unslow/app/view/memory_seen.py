"""What runs on llama.cpp, or on what is built on it, as a subject of what-if questions."""

from typing import NamedTuple

from unslow.app.fit.models import Found
from unslow.app.plan.llama_cpp_plan import ABILITIES
from unslow.app.plan.running import settings_given
from unslow.app.plan.seen_model import seen_model
from unslow.app.view.memory_lines import line_of
from unslow.app.view.memory_llama import LlamaAnswers, Subject, asked_now, knobs_of
from unslow.app.view.memory_placed import placed_unseen, with_its_own
from unslow.app.view.memory_price import Priced
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.look.system import System
from unslow.think.adapt.exact import fuses_of, rotates_of
from unslow.think.adapt.vram import strangers
from unslow.think.adapt.work import depth_of
from unslow.think.hardware import Hardware, threads_by_itself
from unslow.think.memory.llama_cpp.hyper import hyper_of
from unslow.think.memory.llama_cpp.refusals import refusal
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing, patterns
from unslow.think.plan.llama_cpp.question import Current
from unslow.think.plan.llama_cpp.running import Seen, current_of
from unslow.think.seen_hardware import gpus_at_work, seen_hardware, seen_memory
from unslow.think.setup import Setup
from unslow.think.view.memory_bars import Stranger

_WHERE = "run unslow on the machine itself"
_MOST_CONTEXT = 2**27
"""More than any model was trained for; a log may claim anything."""


class SeenSubject(NamedTuple):
    """The subject, the GPUs of its rooms, and how its model is known."""

    subject: Subject
    gpus: tuple[Gpu, ...]
    source: str


def seen_subject(system: System | None, case: Case) -> SeenSubject | Unknown:
    """The subject, or what is missing for it; `system` is the machine that it runs on, None where that is elsewhere."""
    found = seen_model(system, case)
    if isinstance(found, Unknown):
        return found
    gpus = () if settings_given(case).get("device", "") == "none" else gpus_at_work(case)
    memory = seen_memory(case, gpus)
    if gpus and not memory.rooms:
        return Unknown("how much memory its GPUs have is not known", _WHERE)
    if not memory.rooms and memory.host_room is None:
        return Unknown("how much memory the machine has is not known", _WHERE)
    try:
        return SeenSubject(_subject(case, found, gpus, memory), gpus, _source(found))
    except UserError as error:  # numbers that no model has
        return Unknown(error.message, error.hint)


def _subject(case: Case, found: Found, gpus: tuple[Gpu, ...], memory: Hardware) -> Subject:
    pieces, count = Pieces(found.blueprint), len(memory.rooms)
    current = current_of(Seen(case, pieces, threads_by_itself(case.machine) or 1, on_gpus=bool(count)))
    told, hardware = settings_given(case), _with_speed(case, gpus, memory, current)
    base = _base(case, pieces, current, count)._replace(split=_split(told, count))
    setup = Setup(found.blueprint, hardware or memory, base)
    subject = Subject(
        found,
        setup,
        asked_now(found, setup),
        knobs_of(setup),
        strangers=tuple(strangers_on(case, gpu) for gpu in gpus),
        priced=_priced(case, current) if hardware else None,
        unified="kv_unified" in told and base.unified,
        rotates=rotates_of(case),
        notes=found.notes,
    )
    return _with_lines(case, _placed(case, gpus, subject))


def _placed(case: Case, gpus: tuple[Gpu, ...], subject: Subject) -> Subject:
    """The subject with its layers where they should lie, if nobody saw where they do, and its memory as its own."""
    placed = placed_unseen(case, gpus, LlamaAnswers(subject))
    if placed is not None:
        now = subject.now._replace(gpu_layers=placed.layers)
        subject = subject._replace(now=now, notes=(placed.note, *subject.notes))
    return with_its_own(case, gpus, LlamaAnswers(subject))


def _with_lines(case: Case, subject: Subject) -> Subject:
    return subject._replace(command=lambda asked, settings: line_of(case, subject.now, asked, settings))


def _base(case: Case, pieces: Pieces, current: Current, gpus: int) -> Settings:
    """The settings of now, with everything where it lies."""
    settings, first = current.settings, current.whole + current.apart if current.apart else 0
    host, everything = str(gpus), pieces.blueprint.count("block_count") + 1
    layers = everything - current.whole
    if current.whole >= len(pieces.layers):
        layers = 1 if case.runtime.gpu_layers.value_or(0) > 0 else 0
    moved = () if pieces.is_sparse or not first else patterns(Placing(0, first), pieces)
    return settings._replace(
        context=max(1, min(settings.context, _MOST_CONTEXT)),
        slots=min(settings.slots, 256),
        gpu_layers=-1 if not gpus or layers >= everything else layers,
        experts_on_cpu=first if pieces.is_sparse else 0,
        overrides=tuple((pattern, host) for pattern in moved),
        fuses=fuses_of(case) or False,
    )


def _split(told: dict[str, str], gpus: int) -> tuple[float, ...]:
    """The shares of several GPUs, where somebody wrote one for each."""
    try:
        shares = tuple(float(share) for share in told.get("tensor_split", "").replace("/", ",").split(",") if share)
    except ValueError:
        return ()
    sound = len(shares) == gpus > 1 and all(0 <= share < _MOST_CONTEXT for share in shares) and sum(shares) > 0
    return shares if sound else ()


def _with_speed(case: Case, gpus: tuple[Gpu, ...], memory: Hardware, current: Current) -> Hardware | None:
    """The hardware with its speed; None where nobody knows that."""
    cpu = case.machine.cpu
    if not gpus and not cpu.physical_cores.value_or(cpu.logical_cpus.value_or(0)):
        return None
    try:
        return seen_hardware(case, gpus, memory)._replace(pinned=current.pinned)
    except MissingFactError:
        return None


def _priced(case: Case, current: Current) -> Priced:
    usual = Work()
    work = usual._replace(kept=max(0, int(depth_of(case) - usual.depth)))
    return Priced(current.threads, work, current.whole + current.apart if current.apart else 0)


def cache_types(case: Case, found: Found, base: Settings) -> list[str]:
    """The types that its runtime can be told, and with which llama.cpp starts."""
    name = case.runtime.name.value_or("")
    able = ABILITIES.get({"Ollama": "ollama", "LM Studio": "lm_studio"}.get(name, "llama.cpp"), ABILITIES["llama.cpp"])
    return startable(found, base, able.cache_types)


def startable(found: Found, base: Settings, kinds: tuple[str, ...]) -> list[str]:
    """The types of cache with which llama.cpp starts."""
    hyper = hyper_of(found.blueprint)
    return [kind.lower() for kind in kinds if not refusal(hyper, base._replace(key_type=kind, value_type=kind))]


def strangers_on(case: Case, gpu: Gpu) -> tuple[Stranger, ...]:
    """The programs that hold memory of a GPU and are not the runtime."""
    listed, others = gpu.processes.value_or([]), strangers(case)
    return tuple(Stranger(_name(p), _held(p)) for p in listed if p in others)


def _name(process: GpuProcess) -> str:
    """The program's own name, without the folder that it lies in."""
    words = process.name.value_or("").replace("\\", "/").rpartition("/")[2].strip()
    return words[:60] or f"process {process.pid}"


def _held(process: GpuProcess) -> int | None:
    return int(process.vram_bytes.value) if isinstance(process.vram_bytes, Known) else None


def _source(found: Found) -> str:
    if found.notes and "catalogue" in found.notes[-1]:
        return "by the catalogue's tensors of a model of its name or shape, laid out as llama.cpp does"
    return "by its tensors, laid out as llama.cpp does"
