"""The questions that every guide to slow inference asks, answered from the facts."""

from collections.abc import Callable
from typing import Literal

from unslow.facts.values import GIB, Known, MissingFactError, Unknown
from unslow.think.case.speed import Prediction
from unslow.think.case.telemetry import is_awake, is_held_back_by_heat
from unslow.think.case.view import CaseView
from unslow.think.judge.normal_for_this_hardware import reaches_achievable
from unslow.think.report import ChecklistItem
from unslow.think.speed.question import rounded_rate

Answer = tuple[bool | None, str]
AS_FAST = "Is it as fast as this hardware allows?"
_THROTTLE = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown"}
_BUSY_ENOUGH, _HARDLY, _NOT_IDLE = 0.8, 0.3, 0.05
"""Of the time: a GPU that works less than the second computes little of what is generated, whatever was expected; what
works less than the third was not asked for anything."""
_COOL_C = 80  # Below it no card gives up clocks for the heat of its chip; above it the driver's reasons have to tell


def checklist(case: CaseView, achievable: Prediction | None) -> tuple[ChecklistItem, ...]:
    """Every question with its answer; a missing fact answers with a question mark and the reason."""
    of_gpus: dict[str, Callable[[CaseView], Answer]] = {
        "Is the whole model on the GPU?": _on_gpu,
        "Is the GPU busy during decode?": lambda c: _busy(c, achievable),
        "Is the GPU's temperature under control?": _cool,
        "Do weights and KV cache fit in VRAM?": _fits,
        "Does the runtime see the GPU?": _gpu_build,
    }
    of_any: dict[str, Callable[[CaseView], Answer]] = {
        "Is flash attention on?": _flash_attention,
        "Is the CPU free of other work?": _cpu_free,
        AS_FAST: lambda c: _as_expected(c, achievable),
    }
    items = []
    for question, answer in (of_gpus | of_any).items():
        try:
            lacks_gpu = question in of_gpus and not case.machine.gpus.need()
            good, because = (None, "there is no GPU") if lacks_gpu else answer(case)
        except MissingFactError as error:
            good, because = None, error.unknown.why
        state: Literal["ok", "bad", "unknown"] = "unknown" if good is None else "ok" if good else "bad"
        items.append(ChecklistItem(item=question, state=state, because=because))
    return tuple(items)


def _on_gpu(case: CaseView) -> Answer:
    if case.runtime.state.value_or("loaded") == "failed":
        return None, "the model did not load"
    if case.gpus.visible_to_runtime is False or case.placement.uses_no_gpu:
        return False, "the runtime does not use the GPU"
    if case.runtime.memory.vram_share.value_or(0.0) == 1:
        return True, "all layers"
    split = case.placement.split
    if split and split.fact != "runtime.placement.gpu_layers":
        return False, split.words
    layers = case.placement.layers
    counted = f"{layers.on_gpu}/{layers.total} layers"
    if any(case.placement.sent_to_cpu):
        return False, f"{counted}, but a tensor override keeps some tensors on the CPU"
    left = case.placement.layers_on_host
    partly = f", {left} only partly" if left and layers.on_gpu == layers.total else ""
    return not left, f"{counted}{partly}"


def _busy(case: CaseView, achievable: Prediction | None) -> Answer:
    if not isinstance(case.run.gpus, Known):
        # One look at the driver, of a GPU that was at work then: an idle one tells nothing
        once = max((gpu.busy.value_or(0.0) for gpu in case.gpus.in_use if is_awake(gpu)), default=0.0)
        if once >= _NOT_IDLE:
            return once >= _BUSY_ENOUGH, f"{once:.0%} busy when the driver was queried"
    loads, traffic = case.run.gpus.need(), case.run.traffic
    if isinstance(traffic, Known) and not traffic.value.running and traffic.value.tokens_per_s.value_or(None) == 0.0:
        return None, "no tokens were generated"
    busy = max((g.busy.need() for g in loads), default=0.0)
    fast = achievable is not None and case.sharing.rate_among_others.value_or(0) >= achievable.tokens_per_s.low
    good = None if fast and busy < _HARDLY else busy >= _BUSY_ENOUGH or fast
    return good, f"{busy:.0%} busy on average"


def _cool(case: CaseView) -> Answer:
    loaded = case.telemetry.loaded_gpus
    hot = next((gpu for gpu in loaded if is_held_back_by_heat(gpu)), None)
    if hot:
        power = f"{hot.power_w.need():.0f} of {hot.gpu.power_limit_w.need():.0f} W"
        return False, f"{hot.temperature_c.need():.0f} °C at {power}, and {hot.busy.need():.0%} busy"
    warmest = max((gpu.temperature_c.value_or(0.0) for gpu in loaded), default=0.0)
    if 0 < warmest < _COOL_C and not isinstance(case.run.gpus, Known):
        return True, f"{warmest:.0f} °C under load"
    loads = case.run.gpus.need()
    reasons = {r for g in loads for r in g.event_reasons.need()} & _THROTTLE
    hottest = max((g.temperature_max_c.value_or(0) for g in loads), default=0)
    said = ", ".join(sorted(reasons)) or "no throttle reason set under load"
    return not reasons, f"{hottest:.0f} °C, {said}"


def _fits(case: CaseView) -> Answer:
    if case.vram.buffers("kv", on_gpu=False) and not case.placement.layers_on_host:
        return False, "the KV cache is in host memory while the weights are on the GPU"
    if _is_loaded_on_gpus(case):
        return True, "it is loaded, and its engine keeps both on the GPU"
    demand = case.memory.demand()
    said = f"{demand.asked / GIB:.1f} GiB needed, {demand.available / GIB:.1f} GiB free"
    return demand.asked <= demand.available, said


def _gpu_build(case: CaseView) -> Answer:
    sees = case.gpus.visible_to_runtime
    if sees is None and _is_loaded_on_gpus(case):
        return True, "it is loaded, and its engine runs on GPUs only"
    return sees, {True: "yes", False: "no", None: "unknown; llama-server shows it with -lv 4"}[sees]


def _is_loaded_on_gpus(case: CaseView) -> bool:
    """Whether an engine that runs on GPUs alone has its model, and none of it was told to stay with the host."""
    loaded = case.runtime.state.value_or("") in ("loaded", "asleep")
    return loaded and case.placement.computes_all_on_gpus and not case.runtime.placement.cpu_offload_bytes.value_or(0)


def _flash_attention(case: CaseView) -> Answer:
    on = case.runtime.compute.flash_attention.need()
    return on, "on" if on else "off: attention is slower in long contexts and needs a larger compute buffer"


def _cpu_free(case: CaseView) -> Answer:
    cores, busiest = case.machine.cpu.logical_cpus.need(), case.machine.load.busiest
    if isinstance(case.run.others_cpus, Unknown) and isinstance(busiest, Known):
        own = case.runtime.process.pid.value_or(None)
        used = sum(process.cpus for process in busiest.value if process.pid != own)
        return used < cores / 10, f"other processes use {used:.1f} of {cores} CPUs now"
    others = case.run.others_cpus.need()
    return others < cores / 10, f"other processes used {others:.1f} of {cores} CPUs"


def _as_expected(case: CaseView, achievable: Prediction | None) -> Answer:
    rate = case.sharing.rate_among_others.need()
    if achievable is None:
        return None, "no expected speed"
    low, _, high = achievable.tokens_per_s
    words = f"{rounded_rate(rate)} tok/s, {rounded_rate(low)} to {rounded_rate(high)} expected"
    return reaches_achievable(rate, low), words
