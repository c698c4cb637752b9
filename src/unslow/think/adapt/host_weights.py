"""Weights that lie in the host's memory while a GPU computes, and the link that they would have to cross."""

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.gpu_load import BUSY
from unslow.think.adapt.overrides import SentAway, bytes_of_layers_on_host, layers_without_experts, sent_away
from unslow.think.adapt.placement import computes_all_on_gpus, counted_layers, fetches_what_lacks_room
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import buffers_of, gpus_used
from unslow.think.instructions import spelled_out
from unslow.think.physics.pcie import link_bytes_per_s

USUAL_LANES = 16
FASTEST_BYTES_PER_S = link_bytes_per_s(5, USUAL_LANES)
"""What any link of today copies at most: where nobody looked, a copy takes at least as long as over this one."""
ASLEEP = 2
"""The highest generation that a link falls to while its GPU rests."""
SHOW_LINK = "while a prompt is read: {gpu_link}"


def host_weights_bytes(case: Case) -> float:
    """Bytes of weights in the host's memory, the token table apart; MissingFactError where nothing tells."""
    if computes_all_on_gpus(case):
        left = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False)) if fetches_what_lacks_room(case) else 0
        return float(case.runtime.cpu_offload_bytes.value_or(left))
    return _left_to_the_cpu(case)


def _left_to_the_cpu(case: Case) -> float:
    """The same of a runtime that computes on the CPU what is not on a GPU."""
    runtime, model = case.runtime, case.model
    on_host, on_gpu = (sum(b.bytes for b in buffers_of(case, "model", on_gpu=side)) for side in (False, True))
    if on_host and (on_gpu or not model.weights_bytes.value_or(0)):
        return max(0.0, on_host - model.token_table_bytes.value_or(0))
    away = sent_away(case)
    sent = _sent_bytes(case, away)
    if sent is not None:
        return sent
    if isinstance(runtime.size_bytes, Known) and isinstance(runtime.size_vram_bytes, Known) and not away.of_layers:
        return float(max(0, runtime.size_bytes.value - runtime.size_vram_bytes.value))
    weights = model.weights_bytes
    if not isinstance(weights, Known) or away.of_layers:
        raise missing("how many bytes of weights lie in the host's memory", spelled_out("{placement}", case))
    if isinstance(runtime.vram_share, Known):
        return weights.value * (1 - runtime.vram_share.value)
    if remarks_on(case, Topic.EXPERTS_ON_CPU):
        return float(model.expert_bytes.value_or(weights.value))
    layers = counted_layers(case)
    return weights.value * max(0, layers.total - layers.on_gpu) / max(1, layers.total)


def _sent_bytes(case: Case, away: SentAway) -> float | None:
    """What settings send to the host by name, beside layers that lie there as a whole; None where they tell nothing.

    They come before what the runtime counts, which takes a layer for one on the GPU though its experts are elsewhere.
    """
    if not away.of_layers:
        return None
    runtime, model = case.runtime, case.model
    whole = max(0, runtime.layers.value_or(0) - runtime.gpu_layers.value_or(runtime.layers.value_or(0)))
    exact = bytes_of_layers_on_host(case, whole)
    if exact is not None or away.others or not away.experts:
        return exact
    experts, layers = model.expert_bytes.value_or(model.weights_bytes.value_or(0)), model.layers.value_or(0)
    part = layers_without_experts(case, layers) if layers else None
    return float(experts * part / layers if part is not None else experts) or None


def host_link_bytes_per_s(case: Case) -> float | None:
    """What the link between host and GPU copies, by the best that was seen of it; None where nobody looked."""
    rates = []
    for gpu in gpus_used(case):
        seen = next((g for g in case.run.gpus.value_or(()) if g.index == gpu.index), None)
        generation = (seen.pcie_generation_max_seen.value_or(0) if seen else 0) or _generation_awake(gpu)
        lanes = (seen.pcie_width_max_seen.value_or(0) if seen else 0) or gpu.pcie_width.value_or(0)
        if generation and lanes:
            rates.append(link_bytes_per_s(generation, lanes))
    return max(rates, default=None)


def _generation_awake(gpu: Gpu) -> int:
    """The link's generation at work: one that was read while the GPU rested has fallen asleep, and says nothing."""
    rests = "gpu_idle" in gpu.event_reasons.value_or([]) or (isinstance(gpu.busy, Known) and gpu.busy.value < BUSY)
    now = gpu.pcie_generation.value_or(0)
    if rests and isinstance(gpu.pcie_generation_max, Known):
        return max(now, gpu.pcie_generation_max.value)
    return 0 if rests and now <= ASLEEP else now
