"""From a row that was understood to the question about speed: what lies where."""

from unslow.think.physics.chip import Chip, Setting
from unslow.think.physics.interconnect import LAYER
from unslow.think.speed.chips import USUAL_HOST, cpu_chip, gpu_chip, has_peers
from unslow.think.speed.load import LayerLoad, ModelLoad
from unslow.think.speed.question import Host, Question
from unslow.think.speed.rows import Asked
from unslow.think.speed.totals import Totals, layer_totals, totals

USUAL_FAMILY = "ddr5"


def question_of(asked: Asked) -> Question:
    """The question of a row."""
    return _on_cpu(asked) if asked.setting.backend == "cpu" else _on_gpus(asked)


def _on_cpu(asked: Asked) -> Question:
    chip = cpu_chip(asked.device, asked.threads)
    return _common(asked, chip)._replace(host=Host(totals(asked.load), chip, asked.setting))


def _on_gpus(asked: Asked) -> Question:
    placed = (asked.load, asked.gpu_layers, asked.experts_on_cpu)
    return _common(asked, gpu_chip(asked.device))._replace(
        totals=on_gpu(*placed),
        gpus=float(asked.gpus),
        split=asked.split,
        peers=has_peers(asked.device) or asked.split == LAYER,
        host=placed_on_host(*placed, USUAL_HOST, asked.setting),
    )


def _common(asked: Asked, chip: Chip) -> Question:
    return Question(None, chip, asked.setting, asked.year, asked.depth, asked.element_bytes, tokens=asked.conversations)


def on_gpu(load: ModelLoad, gpu_layers: int | None, experts_on_cpu: int = 0) -> Totals:
    """The part of a model on GPUs: the output first, then the last layers, as llama.cpp places them."""
    count = _gpu_layers(load, gpu_layers)
    first = _first_layer(load, count)
    layers = [_without_experts(x) if i < experts_on_cpu else x for i, x in enumerate(load.layers)][first:]
    return layer_totals(load, layers, with_output=count > 0)


def placed_on_host(
    load: ModelLoad,
    gpu_layers: int | None,
    experts_on_cpu: int,
    chip: Chip,
    setting: Setting,
    family: str = USUAL_FAMILY,
) -> Host | None:
    """The rest, which the CPU computes; None where nothing is left. `family` is the CPU's."""
    count = _gpu_layers(load, gpu_layers)
    first = _first_layer(load, count)
    experts = [_only_experts(x) for x in load.layers[first:experts_on_cpu] if x.expert_bytes]
    if count > 0 and not first and not experts:
        return None
    whole = layer_totals(load, load.layers[:first], with_output=count == 0)
    part = layer_totals(load, experts, with_output=False)
    both = whole.and_also(part)
    crossings = 2.0 * len(experts) + (1.0 if first else 0.0)
    return Host(both, chip, setting._replace(backend="cpu", family=family, device="", beside_gpu=True), crossings)


def _first_layer(load: ModelLoad, count: int) -> int:
    """The first layer on a GPU: the output goes there before any layer does, and counts as one."""
    return len(load.layers) if not count else len(load.layers) + 1 - count


def _gpu_layers(load: ModelLoad, asked: int | None) -> int:
    """Layers on GPUs, the output counted as one."""
    every = len(load.layers) + 1
    return every if asked is None else min(asked, every)


def _without_experts(layer: LayerLoad) -> LayerLoad:
    return layer._replace(expert_bytes=0.0, expert_weights=0.0, expert_kinds={})


def _only_experts(layer: LayerLoad) -> LayerLoad:
    return LayerLoad(
        expert_bytes=layer.expert_bytes, expert_weights=layer.expert_weights, expert_kinds=layer.expert_kinds
    )
