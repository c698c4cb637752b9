"""One case as the physics takes it (model, hardware, what lies where, software), and the speed to expect of it."""

from typing import NamedTuple

from unslow.catalog.devices import Device
from unslow.catalog.learned_speed import spread_of
from unslow.catalog.quants import quants
from unslow.catalog.weight_parts import total_bytes
from unslow.commands._hardware import HardwareRequest, named_hardware
from unslow.commands.models.find import FoundModel, FoundShape
from unslow.commands.predict import BACKENDS, RUNTIMES, PredictRequest
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint
from unslow.facts.values import GIB, Unknown
from unslow.think.blueprints import made_up
from unslow.think.case.physics import has_tiles, is_server, multiplies_wide
from unslow.think.fit.safetensors import vllm_answer
from unslow.think.hardware import NEWEST_YEAR, Hardware
from unslow.think.memo import remember_once
from unslow.think.memory import vllm
from unslow.think.memory.llama_cpp.hyperparameters import CELLS_PADDING, Hyper, Settings
from unslow.think.physics.chip import SpeedSetting, type_class, type_class_of_model
from unslow.think.physics.placement import SPLIT_BY_LAYER, SPLIT_BY_TENSOR
from unslow.think.physics.terms import Interval, inverse_interval
from unslow.think.plan.llama_cpp.question import EVERYTHING
from unslow.think.plan.llama_cpp.question import OLLAMA as OLLAMA_ABILITIES
from unslow.think.plan.llama_cpp.runnable import Runnable, find_runnable, packed_cache
from unslow.think.setup import Setup
from unslow.think.speed import question as speed
from unslow.think.speed.load import hf_load, model_load
from unslow.think.speed.named_models import mix_of, named_model
from unslow.think.speed.report import BasisShown
from unslow.think.speed.rows import AskedRow, group_of, question_of

_SHORTEST_CONTEXT = 4096
HALF_BYTES = 2.0
_CACHE_BYTES = {"fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "auto": 2.0}


class Placement(NamedTuple):
    """What lies on the GPUs, in the count of llama.cpp: the repeating layers, and the output as one more."""

    gpu_layers: int
    all_layers: int
    experts_on_cpu: int = 0
    chosen: bool = False  # Whether this program chose it


class Case(NamedTuple):
    """A question with all that was decided on the way to it."""

    asked: AskedRow
    question: speed.SpeedQuestion
    group: str
    trust: speed.Trust
    placement: Placement
    setup: Setup | None  # The same as it lies in memory; None where nothing tells how much there is
    request: PredictRequest  # As asked, but for what had to change so that it runs at all
    changed: str = ""  # What that was, in words

    @property
    def fits(self) -> bool | None:
        """Whether the memory holds this placement; None where nothing tells."""
        return bool(self.changed) or self.holds(self.setup.settings.slots) if self.setup else None

    def holds(self, conversations: int) -> bool | None:
        """Whether the memory holds so many conversations with this placement; None where nothing tells."""
        if self.setup is None:
            return None
        placement = self.placement
        layers = -1 if placement.gpu_layers >= placement.all_layers else placement.gpu_layers
        settings = self.setup.settings._replace(gpu_layers=layers, experts_on_cpu=placement.experts_on_cpu)
        context = settings.context // settings.slots * conversations
        several = settings._replace(context=context, slots=conversations, outputs=conversations)
        return self.setup.left(several) >= 0


class Speeds(NamedTuple):
    """What is expected of a case, in intervals as wide as it is trusted."""

    decode: speed.Outcome
    prefill: Interval  # Tokens of a prompt per second

    def first_token_s(self, request: PredictRequest) -> Interval:
        """The first token comes when the prompt is read and one step is done."""
        pairs = zip(inverse_interval(self.prefill), inverse_interval(self.decode.rate), strict=True)
        return Interval(*(read * request.prompt + step * request.batch for read, step in pairs))


class ExpectedSpeeds(NamedTuple):
    """Tokens per second of one conversation."""

    decode: Interval
    ceiling_tokens_per_s: float  # What bandwidth alone would allow
    gpu_layers: int | None  # How many layers find room on the GPUs; None for all

    @property
    def in_part(self) -> bool:
        """Whether only a part of the model finds room on the GPUs."""
        return self.gpu_layers is not None


def case_of(found: FoundModel, hardware: Hardware, request: PredictRequest) -> Case | Unknown:
    """The case, or why it can't run."""
    backend = backend_of(hardware.device, request)
    hardware = hardware._replace(rooms=()) if backend == "cpu" else hardware
    if found.shape and (lacking := _lacking_for_vllm(found.shape, hardware, request)) > 0:
        return Unknown(
            f"it does not fit: {request.runtime} needs {lacking / GIB:.1f} GiB more",
            f"`unslow fit {request.model} --runtime {request.runtime}` says what fits; llama.cpp can use host memory",
        )
    setup = None if found.shape else setup_of(found.blueprint, hardware, request, backend)
    runs, changed = _placement(found, setup, request, backend), ""
    if isinstance(runs, Unknown):
        return runs
    placement = _placement_of(runs, found.blueprint) if isinstance(runs, Runnable) else runs
    if setup and isinstance(runs, Runnable):
        settings = runs.settings
        moved = ["some matrices in host memory"] if settings.overrides else []
        changed = " and ".join(runs.changes(setup.settings) + moved) or "another split of the GPUs"
        request = request._replace(kv_type=settings.key_type.lower(), ubatch=settings.micro_batch)
        taken = {name: getattr(settings, name) for name in ("key_type", "value_type", "micro_batch", "flash_attention")}
        setup = setup._replace(settings=setup.settings._replace(**taken))
    asked = _asked_row(found, hardware, request, backend, placement)
    question = question_of(asked)
    if question.host:  # the one that is really there in place of the usual one
        chip = hardware.processors.chip(request.threads or hardware.processors.cores)
        alone = question.totals is None  # the processors compute everything
        question = question._replace(host=question.host._replace(chip=chip), chip=chip if alone else question.chip)
    trust = speed.trust_in(hardware.device, asked.setting)
    return Case(asked, question, group_of(asked), trust, placement, setup, request, changed)


def backend_of(device: Device, request: PredictRequest) -> str:
    """What was asked for, else what the device's maker is best served by."""
    if device.kind == "cpu":
        return "cpu"
    if request.backend:
        return BACKENDS[request.backend]
    if device.vendor == "AMD" and not request.is_llama_cpp:
        return "rocm"  # others do not run on Vulkan
    return speed.usual_backend(device)


def setup_of(plan: Blueprint, hardware: Hardware, request: PredictRequest, backend: str) -> Setup | None:
    """What it asks of the memory there is; None where nothing tells how much that is."""
    if not hardware.rooms and (backend != "cpu" or hardware.host_room is None):
        return None
    tokens = max(_SHORTEST_CONTEXT, request.depth + CELLS_PADDING)
    kind = request.kv_type.upper() if request.is_llama_cpp else "F16"
    settings = Settings(
        context=tokens * request.batch,
        micro_batch=request.ubatch,
        batch=request.ubatch if request.runtime == "ollama" else max(2048, request.ubatch),
        slots=request.batch,
        key_type=kind,
        value_type=kind,
        flash_attention=None if request.flash_attention else False,
        outputs=request.batch,
        experts_on_cpu=request.cpu_moe or 0,
    )
    return Setup(plan, hardware, settings).settle_attention()


def _placement(
    found: FoundModel, setup: Setup | None, request: PredictRequest, backend: str
) -> Placement | Runnable | Unknown:
    """As asked; else everything on the GPUs, or as much as fits, with other settings where none does with these."""
    plan = found.blueprint
    everything = plan.count("block_count") + 1
    if backend == "cpu" and (setup is None or setup.left() >= 0):
        return Placement(0, everything)
    layers = everything if request.gpu_layers is None else min(request.gpu_layers, everything)
    asked = Placement(layers, everything, (request.cpu_moe or 0) if Hyper(plan).experts else 0)
    if setup is None or (backend != "cpu" and (request.gpu_layers is not None or setup.left() >= 0)):
        return asked
    able = OLLAMA_ABILITIES if request.runtime == "ollama" else EVERYTHING
    able = able._replace(apart=able.apart and request.cpu_moe is None)
    runs = find_runnable(setup, packed_cache(setup, found.quant, found.parameters), able)
    if runs is None:
        *devices, host = setup.memory().needs
        lacking = max(0, sum(need.total for need in (*devices, host)) - setup.hardware.usable_bytes)
        where = "GPUs and host together are short of" if setup.hardware.rooms else "memory is short of"
        much = f"{lacking / GIB:.1f} GiB" if lacking > GIB / 10 else "a little"
        why = f"it does not fit: {where} {much}, and reading the rest from disk for every token is extremely slow"
        return Unknown(why, "choose a smaller quant or model; `unslow fit` says which one fits")
    settings = runs.settings
    if settings._replace(gpu_layers=-1, experts_on_cpu=0) != setup.settings._replace(gpu_layers=-1, experts_on_cpu=0):
        return runs
    layers = everything if settings.gpu_layers < 0 else settings.gpu_layers
    return Placement(layers, everything, settings.experts_on_cpu, chosen=settings != setup.settings)


def _placement_of(runs: Runnable, plan: Blueprint) -> Placement:
    """In whole layers, or experts of whole layers: one that leaves some of its matrices to the host counts as there."""
    everything, placing = plan.count("block_count") + 1, runs.placing
    if Hyper(plan).experts and (placing.apart or placing.pieces):
        return Placement(everything - placing.whole, everything, placing.first_complete, chosen=True)
    return Placement(max(0, everything - placing.first_complete), everything, runs.settings.experts_on_cpu, chosen=True)


def _lacking_for_vllm(model: FoundShape, hardware: Hardware, request: PredictRequest) -> int:
    """Bytes that the cards lack together for a conversation of this depth; only the weights count for others."""
    if not hardware.rooms:
        return 0
    settings = vllm.VllmSettings(max(_SHORTEST_CONTEXT, request.depth + CELLS_PADDING), packing=model.packing)
    if request.runtime == "vllm":
        return sum(d.lacking_bytes for d in vllm_answer(model.shape, model.parts, settings, hardware.rooms).devices)
    return total_bytes(model.parts) - sum(room.usable_bytes for room in hardware.rooms)


def _asked_row(
    found: FoundModel, hardware: Hardware, request: PredictRequest, backend: str, placement: Placement
) -> AskedRow:
    plan, hf = found.blueprint, found.shape
    setting = setting_of(plan, hardware, request, backend)
    if hf:
        setting = setting._replace(types=type_class(hf.quant))
        load = hf_load(hf.shape, hf.parts, setting.types)
    else:
        load = remember_once(plan, "load", lambda: model_load(plan))
    # As asked; else vLLM cuts every layer, where its heads can be shared by so many cards, and others take turns
    gpus, usual = hardware.device_count, SPLIT_BY_LAYER
    if request.runtime == "vllm" and hf and hf.shape.heads % gpus == 0:
        usual = SPLIT_BY_TENSOR
    return AskedRow(
        device=hardware.device,
        gpus=gpus,
        backend=backend,
        model=None,
        load=load,
        setting=setting,
        year=NEWEST_YEAR,
        kind="tg",
        tokens=0.0,
        start=float(request.depth),
        element_bytes=element_bytes(request.kv_type),
        micro_batch=float(request.ubatch),
        split=request.split or usual if gpus > 1 else SPLIT_BY_LAYER,
        gpu_layers=None if placement.gpu_layers >= placement.all_layers else placement.gpu_layers,
        experts_on_cpu=placement.experts_on_cpu,
        threads=float(request.threads or 0),
        conversations=float(request.batch),
    )


def setting_of(plan: Blueprint, hardware: Hardware, request: PredictRequest, backend: str) -> SpeedSetting:
    """The software on the device, as what was learned is looked up."""
    device, cpu = hardware.device, hardware.machine.cpu if hardware.machine else None
    return SpeedSetting(
        backend=backend,
        family=device.family if backend != "cpu" or device.kind == "cpu" else "",
        device=device.name,
        types=remember_once(plan, "types", lambda: type_class_of_model(plan)),
        runtime=RUNTIMES[request.runtime],
        fused=request.flash_attention,
        packed_cache=element_bytes(request.kv_type) < HALF_BYTES,
        linked=speed.has_links(device),
        wide_vectors=multiplies_wide(cpu) if cpu else speed.has_wide_vectors(hardware.named),
        tiles=bool(cpu and has_tiles(cpu)),
        server=is_server(cpu) if cpu else speed.is_server_by_name(hardware.named),
        graphs=request.graphs,
    )


def element_bytes(kv_type: str) -> float:
    """Of a key or a value."""
    kind = quants().get(kv_type.upper())
    return _CACHE_BYTES.get(kv_type, HALF_BYTES) if kind is None else kind.block_bytes / kind.block_elements


def speeds_of(case: Case, request: PredictRequest) -> Speeds:
    """By the physics, and by what was learned of such cases."""
    decode = speed.decode_outcome(case.question, case.group)
    prompt = speed.prefill_outcome(case.question, float(request.prompt), float(request.ubatch))
    rate = speed.widen_interval(decode.rate, case.trust.wider, decode.ceiling)
    return Speeds(decode._replace(rate=rate), speed.widen_interval(prompt.rate, case.trust.wider, prompt.ceiling))


def basis_of(case: Case) -> BasisShown:
    """The measurements that the interval of such a case comes from."""
    spread = spread_of(case.group, case.question.setting.backend)
    seen = f"{spread.configurations} configurations on {spread.devices} devices of this class ({case.group})"
    text = f"catalog: {seen}, median error {spread.median_error:.0%}"
    return BasisShown(
        kind="catalog", text=text, group=case.group, configurations=spread.configurations, devices=spread.devices,
        median_error=spread.median_error,
    )  # fmt: skip


def hardware_request(request: PredictRequest) -> HardwareRequest:
    """What of a request decides the hardware."""
    return HardwareRequest(
        request.devices, request.gpus, request.ram_bytes, request.ram_bandwidth, request.threads, request.backend,
        request.runtime, request.gpu_layers,
    )  # fmt: skip


def catalog_expectation(
    model_name: str, quant: str, device_name: str, *, gpus: int = 1, context: int = 0
) -> ExpectedSpeeds | Unknown:
    """What to expect with as much on the GPUs as fits, or why nothing can be."""
    try:
        request = PredictRequest.from_flags({"quant": quant or None, "depth": context})
        model = named_model(model_name)
        if model is None:
            return Unknown(f"unknown model {model_name!r}", "`unslow fit --list` lists them")
        hardware = named_hardware(device_name, gpus, hardware_request(request))
        if isinstance(hardware, Unknown):
            return hardware
        mix = mix_of(request.quant or model.published or "Q4_K_M")
        found = FoundModel(model.name, made_up(model, mix), mix, "catalogue", model.parameters)
        case = case_of(found, hardware, request)
        if isinstance(case, Unknown):
            return case
        decode = speeds_of(case, case.request).decode
        return ExpectedSpeeds(decode.rate, decode.ceiling, case.asked.gpu_layers)
    except UserError as error:
        return Unknown(error.message, error.hint)
