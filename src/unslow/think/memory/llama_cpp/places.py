"""Which backend's memory each tensor goes to when llama.cpp loads a model."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.settings import Settings

_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
_INPUT = re.compile(r"(token_embd|position_embd|token_types|per_layer_token_embd)\b(?!_norm)")
"""Tables that are only looked up: they stay on the host."""


class Places:
    """The backends by number: GPUs first, the host last."""

    def __init__(self, hyper: Hyper, settings: Settings, shares: Sequence[float]) -> None:
        self._settings = settings
        self.host = len(shares)
        self._overrides = [(re.compile(pattern), int(backend)) for pattern, backend in settings.overrides]
        self.layers = _layer_places(hyper.all_layers, settings.gpu_layers, shares)
        """For each layer, and at the end for the output."""

    def layer(self, layer: int) -> int:
        """Where a layer's weights go, unless a pattern says otherwise."""
        return self.layers[layer]

    def cache(self, layer: int) -> int:
        """Where a layer's keys and values go: with the layer, or to the host."""
        return self.layers[layer] if self._settings.cache_on_gpu else self.host

    def tensor(self, name: str) -> int:
        """Where a tensor of this name goes."""
        match = _LAYER.match(name)
        for pattern, backend in self._overrides:
            if pattern.search(name):
                return backend
        if match is None:
            return self.host if _INPUT.match(name) else self.layers[-1]
        layer = int(match[1])
        if layer < self._settings.experts_on_cpu and _EXPERTS.search(name):
            return self.host
        return self.layers[layer] if layer < len(self.layers) else self.host


def _layer_places(layers: int, gpu_layers: int, shares: Sequence[float]) -> list[int]:
    """The first layers on the host, the others and the output on the GPUs by their shares."""
    host, total = len(shares), sum(shares)
    wanted = layers + 1 if gpu_layers < 0 else min(gpu_layers, layers + 1)
    if not wanted or not total:
        return [host] * (layers + 1)
    bounds = [part / total for part in accumulate(shares)]
    start = layers + 1 - wanted
    on_gpus = (min(bisect_right(bounds, n / wanted), host - 1) for n in range(wanted))
    return [*[host] * start, *on_gpus]
