"""The memory that llama.cpp asks of each device and of the host for a model with given settings."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.blueprint import Blueprint
from unslow.facts.units import padded
from unslow.think.memory.llama_cpp.allocator import buffer_sizes
from unslow.think.memory.llama_cpp.backends import Backend, cpu_backend, cuda_backend
from unslow.think.memory.llama_cpp.build import Build, Kernels
from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.kernels import usable_kernels
from unslow.think.memory.llama_cpp.model_graph import build_graph
from unslow.think.memory.llama_cpp.node import Node, four
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.scheduler import scheduled
from unslow.think.memory.llama_cpp.settings import Settings


class Need(NamedTuple):
    """Bytes on one device, or on the host."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        """All three."""
        return self.weights + self.cache + self.compute


def memory_needs(blueprint: Blueprint, settings: Settings, shares: Sequence[float]) -> list[Need]:
    """The needs of the devices, whose free memory are the shares, and at the end of the host."""
    hyper = Hyper(blueprint)
    places = Places(hyper, settings, shares)
    backends = [*(cuda_backend(f"CUDA{n}") for n in range(len(shares))), cpu_backend()]
    kernels = usable_kernels(hyper, settings, places, backends)
    weights = weight_bytes(blueprint, places, backends)
    caches = cache_bytes(hyper, settings, places, kernels, len(backends))
    compute = compute_bytes(Build(hyper, settings, places, kernels), backends)
    return [Need(*parts) for parts in zip(weights, caches, compute, strict=True)]


def weight_bytes(blueprint: Blueprint, places: Places, backends: Sequence[Backend]) -> list[int]:
    """The weights of each backend; a tied table lies on the host and, as the output matrix, where the output is."""
    sums = [0] * len(backends)
    output = places.layers[-1]
    for tensor in blueprint.tensors:
        homes = {places.tensor(tensor.name)}
        if tensor.name == "token_embd.weight" and "output.weight" not in blueprint.by_name:
            homes.add(output)
        for home in homes:
            backend = backends[home]
            sums[home] += padded(backend.bytes_of(Node("none", tensor.type, four(tensor.shape))), backend.alignment)
    return sums


def cache_bytes(hyper: Hyper, settings: Settings, places: Places, kernels: Kernels, count: int) -> list[int]:
    """The caches of each backend."""
    sums = [0] * count
    for cache in layer_caches(hyper, settings, flash=kernels.flash_attention):
        sums[places.cache(cache.layer)] += cache.bytes
    return sums


def compute_bytes(build: Build, backends: Sequence[Backend]) -> list[int]:
    """The compute buffers of each backend."""
    build_graph(build)
    schedule = scheduled(build.graph.nodes, build.graph.leaves, backends, offload=build.settings.offload_ops)
    return buffer_sizes(schedule.nodes, build.graph.leaves, backends)
