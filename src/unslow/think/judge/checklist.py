"""The questions that every guide to slow inference asks, answered from the facts."""

from collections.abc import Callable
from typing import Literal

from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, MissingFactError, Unknown
from unslow.think.case.demand import read_demand
from unslow.think.case.gpus import is_awake, is_held_back_by_heat, loaded_gpus
from unslow.think.case.overrides import sent_away
from unslow.think.case.placement import computes_all_on_gpus, counted_layers, layers_left_on_host, seen_split
from unslow.think.case.prediction import Prediction
from unslow.think.case.slowness import rate_among_others
from unslow.think.case.vram import buffers_of, gpus_used, runtime_sees_gpu, whole_on_gpu
from unslow.think.judge.normal_for_this_hardware import reached
from unslow.think.report import ChecklistItem
from unslow.think.speed.question import rounded_rate

Answer = tuple[bool | None, str]
AS_FAST = "Is it as fast as this hardware allows?"
_THROTTLE = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown"}
_BUSY_ENOUGH, _HARDLY, _NOT_IDLE = 0.8, 0.3, 0.05
"""Of the time: a GPU that works less than the second computes little of what is generated, whatever was expected; what
works less than the third was not asked for anything."""
_COOL_C = 80  # Below it no card gives up clocks for the heat of its chip; above it the driver's reasons have to tell


def checklist(case: Case, achievable: Prediction | None) -> tuple[ChecklistItem, ...]:
    """Every question with its answer; a missing fact answers with a question mark and the reason."""
    of_gpus: dict[str, Callable[[Case], Answer]] = {
        "Is the whole model on the GPU?": _on_gpu,
        "Is the GPU busy while tokens are generated?": lambda c: _busy(c, achievable),
        "Is the GPU's temperature under control?": _cool,
        "Do weights and KV cache fit into the GPU's memory?": _fits,
        "Does the runtime see the GPU?": _gpu_build,
    }
    of_any: dict[str, Callable[[Case], Answer]] = {
        "Is flash attention on?": _flash_attention,
        "Is the CPU free for the model?": _cpu_free,
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


def _on_gpu(case: Case) -> Answer:
    if case.runtime.state.value_or("loaded") == "failed":
        return None, "it did not load"
    if runtime_sees_gpu(case) is False:
        return False, "the runtime uses no GPU"
    if whole_on_gpu(case):
        return True, "all of it"
    split = seen_split(case)
    if split and split.fact != "runtime.gpu_layers":
        return False, split.words
    layers = counted_layers(case)
    counted = f"{layers.on_gpu}/{layers.total} layers"
    if any(sent_away(case)):
        return False, f"{counted}, but a setting places tensors on the CPU by name"
    left = layers_left_on_host(case)
    partly = f", {left} of them only in part" if left and layers.on_gpu == layers.total else ""
    return not left, f"{counted}{partly}"


def _busy(case: Case, achievable: Prediction | None) -> Answer:
    if not isinstance(case.run.gpus, Known):
        # One look at the driver, of a GPU that was at work then: an idle one tells nothing
        once = max((gpu.busy.value_or(0.0) for gpu in gpus_used(case) if is_awake(gpu)), default=0.0)
        if once >= _NOT_IDLE:
            return once >= _BUSY_ENOUGH, f"{once:.0%} busy when the driver was asked"
    loads, traffic = case.run.gpus.need(), case.run.traffic
    if isinstance(traffic, Known) and not traffic.value.running and traffic.value.tokens_per_s.value_or(None) == 0.0:
        return None, "no tokens were generated"
    busy = max((g.busy.need() for g in loads), default=0.0)
    fast = achievable is not None and rate_among_others(case).value_or(0) >= achievable.tokens_per_s.low
    good = None if fast and busy < _HARDLY else busy >= _BUSY_ENOUGH or fast
    return good, f"{busy:.0%} busy on average"


def _cool(case: Case) -> Answer:
    loaded = loaded_gpus(case)
    hot = next((gpu for gpu in loaded if is_held_back_by_heat(gpu)), None)
    if hot:
        power = f"{hot.power_w.need():.0f} of {hot.gpu.power_limit_w.need():.0f} W"
        return False, f"{hot.temperature_c.need():.0f} °C at {power}, and {hot.busy.need():.0%} busy"
    warmest = max((gpu.temperature_c.value_or(0.0) for gpu in loaded), default=0.0)
    if 0 < warmest < _COOL_C and not isinstance(case.run.gpus, Known):
        return True, f"{warmest:.0f} °C at work"
    loads = case.run.gpus.need()
    reasons = {r for g in loads for r in g.event_reasons.need()} & _THROTTLE
    hottest = max((g.temperature_max_c.value_or(0) for g in loads), default=0)
    said = ", ".join(sorted(reasons)) or "no slowdown reason set under load"
    return not reasons, f"{hottest:.0f} °C, {said}"


def _fits(case: Case) -> Answer:
    if buffers_of(case, "kv", on_gpu=False) and not layers_left_on_host(case):
        return False, "the KV cache lies in the host's memory while the weights are on the GPU"
    if _is_loaded_on_gpus(case):
        return True, "it is loaded, and its engine keeps both on GPUs alone"
    demand = read_demand(case)
    said = f"{demand.asked / GIB:.1f} GiB asked, {demand.available / GIB:.1f} GiB free"
    return demand.asked <= demand.available, said


def _gpu_build(case: Case) -> Answer:
    sees = runtime_sees_gpu(case)
    if sees is None and _is_loaded_on_gpus(case):
        return True, "it is loaded, and its engine computes on GPUs alone"
    return sees, {True: "yes", False: "no", None: "nothing tells; restart it with -lv 4"}[sees]


def _is_loaded_on_gpus(case: Case) -> bool:
    """Whether an engine that runs on GPUs alone has its model, and none of it was told to stay with the host."""
    loaded = case.runtime.state.value_or("") in ("loaded", "asleep")
    return loaded and computes_all_on_gpus(case) and not case.runtime.cpu_offload_bytes.value_or(0)


def _flash_attention(case: Case) -> Answer:
    on = case.runtime.flash_attention.need()
    return on, "on" if on else "off: attention costs more at depth, and needs a larger compute buffer"


def _cpu_free(case: Case) -> Answer:
    cores, busiest = case.machine.cpu.logical_cpus.need(), case.machine.load.busiest
    if isinstance(case.run.others_cpus, Unknown) and isinstance(busiest, Known):
        own = case.runtime.pid.value_or(None)
        used = sum(process.cpus for process in busiest.value if process.pid != own)
        return used < cores / 10, f"other processes use {used:.1f} of {cores} CPUs now"
    others = case.run.others_cpus.need()
    return others < cores / 10, f"other processes used {others:.1f} of {cores} CPUs"


def _as_expected(case: Case, achievable: Prediction | None) -> Answer:
    rate = rate_among_others(case).need()
    if achievable is None:
        return None, "no prediction"
    low, _, high = achievable.tokens_per_s
    return reached(rate, low), f"{rounded_rate(rate)} tok/s, {rounded_rate(low)} to {rounded_rate(high)} expected"
