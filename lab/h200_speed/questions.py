"""What a run of a plan asks, in the terms of the prediction, and what was learned of the machine it ran on."""

from typing import Any

from lab.h200_speed.models import named

from unslow.catalog.devices import find_device
from unslow.facts.model import Blueprint
from unslow.think.physics.chip import Chip, SpeedSetting, type_class_of_model
from unslow.think.physics.placement import element_bytes
from unslow.think.speed.load import model_load, totals
from unslow.think.speed.question import Host, SpeedQuestion, core_flops_per_s, gpu_chip, host_chip
from unslow.think.speed.rows import on_gpu, placed_on_host

DEVICE, FAMILY = "H200 SXM", "hopper"
YEAR = 2026.8
HOST_BYTES_PER_S = 120e9
"""What reading RAM reached there: 105 to 130 GB/s (runs `micro`)."""
HOST_CLOCK_HZ = 3.6e9
"""A Xeon with AMX, of which the name tells no number: as labelled of most of them."""
HOST_FAMILY = "h200 host"
"""The processor beside it is learned on its own, as a calibration of that machine would."""
LINK_BYTES_PER_S = 7.5e9
"""From ordinary memory, in which a mapped file lies: 6.4 and 8.2 GB/s (runs `link`)."""
PINNED_BYTES_PER_S = 50e9
"""From memory that it can copy from directly, about (PCIe 5 x16)."""
_ALL = 99


def question(model: str, said: dict[str, Any]) -> SpeedQuestion:
    """The question of one test: `model` is STEM@QUANT, `said` the settings of a run, each one number."""
    return question_of(named(model.replace("@BF16", "@F16")).blueprint, said)


def question_of(plan: Blueprint, said: dict[str, Any]) -> SpeedQuestion:
    """The same of a model by its tensors."""
    load, setting = model_load(plan), _setting(said, type_class_of_model(plan))
    per_element, tokens = element_bytes(said.get("kv", "f16")), float(said.get("sequences") or 1)
    whole = SpeedQuestion(None, _h200(), setting, YEAR, _depth(said), per_element, tokens)
    chip = host_chip(HOST_BYTES_PER_S, float(said.get("threads", 16)), core_flops_per_s(HOST_CLOCK_HZ))
    if said.get("cpu_only"):
        alone = setting._replace(backend="cpu", family=HOST_FAMILY, device="", tiles=True, server=True)
        return whole._replace(host=Host(totals(load), chip, alone))
    layers = None if said.get("gpu_layers", _ALL) >= _ALL else said["gpu_layers"]
    moe = min(said.get("cpu_moe", 0), len(load.layers))
    host = placed_on_host(load, layers, moe, chip, setting._replace(server=True), HOST_FAMILY)
    link = PINNED_BYTES_PER_S if said.get("pinned") else LINK_BYTES_PER_S
    host = host._replace(link_bytes_per_s=link) if host else None
    return whole._replace(totals=on_gpu(load, layers, moe), host=host)


def _setting(said: dict[str, Any], types: str) -> SpeedSetting:
    return SpeedSetting(
        "cuda",
        FAMILY,
        DEVICE,
        types,
        runtime="transformers" if said.get("runtime") == "transformers" else "",
        fused=bool(said.get("flash", 1)),
        packed_cache=said.get("kv", "f16") != "f16",
        graphs=said.get("graphs", True),
    )


def _h200() -> Chip:
    device = find_device("NVIDIA H200")
    if device is None:
        raise LookupError("H200")
    return gpu_chip(device)


def _depth(said: dict[str, Any]) -> float:
    """In the middle of what is generated; where a prompt begins."""
    if said.get("kind") == "prefill":
        return float(said.get("depth", 0))
    before = said.get("prompt", 0) if said.get("sequences") else said.get("depth", 0)
    return float(before) + float(said.get("generate", 64)) / 2
