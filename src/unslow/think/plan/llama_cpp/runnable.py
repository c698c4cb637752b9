"""Any way in which a model runs at its quant and context, where it does not as it was asked for.

`fit`, `predict` and `plan` all ask here, so none of them finds no room where another one does.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from unslow.facts.values import MIB
from unslow.think.fit.gguf import fitting_settings
from unslow.think.hardware import Hardware, Processors
from unslow.think.memory.llama_cpp.hyperparameters import Hyper, Settings
from unslow.think.memory.llama_cpp.need import refusal
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Pricing, SearchCount
from unslow.think.plan.llama_cpp.question import Abilities
from unslow.think.plan.llama_cpp.search import Search
from unslow.think.plan.quality import is_equal_quality, quality_cost
from unslow.think.setup import Setup
from unslow.think.speed.question import USUAL_HOST

MARGIN_BYTES = 256 * MIB
"""What a plan leaves free on each GPU: all buffers are laid out exactly, and the first prompt takes 84 to 202 MiB
beside them on an H200; llama.cpp's own margin of a GiB is for what it does not know."""
_PACKED = "Q8_0"
_ANY_CHIP = Chip(bytes_per_s=1e12, flops_per_s=5e13, matrix_flops_per_s=1e14)
"""The search looks at quick placings first, but whether one fits has nothing to do with speed."""


class Runnable(NamedTuple):
    """Settings with which all memories hold a model."""

    settings: Settings
    placing: Placing
    without_gpus: bool = False  # Whether llama.cpp must not see the GPUs, which have not even room for its buffers

    def changes(self, asked: Settings) -> list[str]:
        """What is other than asked for, in words, beside where the weights lie."""
        settings = self.settings
        words = [f"a {settings.cache_types} cache"] if settings.key_type != asked.key_type else []
        words += [f"a micro-batch of {settings.micro_batch}"] if settings.micro_batch != asked.micro_batch else []
        words += ["one slot"] if settings.slots != asked.slots else []
        words += ["the KV cache in host memory"] if settings.cache_on_gpu != asked.cache_on_gpu else []
        return [*words, "no GPU, which cannot even hold its buffers"] if self.without_gpus else words


def packed_cache(setup: Setup, quant: str, parameters: int) -> Settings | None:
    """The same settings with a q8_0 cache, where llama.cpp takes that and answers are as good."""
    asked, plan = setup.settings, setup.blueprint
    settings = asked._replace(key_type=_PACKED, value_type=_PACKED, flash_attention=True)
    if (asked.key_type, asked.value_type) != ("F16", "F16") or refusal(Hyper(plan), settings):
        return None
    costs = (quality_cost(quant, kind, kind, parameters, plan.architecture) for kind in (_PACKED, "F16"))
    return settings if is_equal_quality(*costs) else None


def find_runnable(
    setup: Setup, packed: Settings | None, able: Abilities, *, may_shrink_batch: bool = True
) -> Runnable | None:
    """As asked; else with a q8_0 cache and a smaller micro-batch; else with single matrices, or all, on the host."""
    caches = [setup.settings, *([packed] if packed else [])]
    if not any(setup._replace(settings=settings).may_fit for settings in caches):
        return None
    sizes = [size for size in able.micro_batches if size < setup.settings.micro_batch] if may_shrink_batch else []
    smaller = [caches[-1]._replace(micro_batch=size) for size in reversed(sizes)]
    for settings in (*caches, *smaller):
        found = fitting_settings(setup._replace(settings=settings), experts_may_move=able.apart)
        if found:
            layers = setup.blueprint.count("block_count")
            whole = 0 if found.gpu_layers < 0 else max(0, layers + 1 - found.gpu_layers)
            return Runnable(found, Placing(min(whole, layers), max(0, found.experts_on_cpu - whole)))
    if not setup.hardware.rooms:
        return None
    if searched := _search_placing(setup, caches, sizes, able):
        return searched
    alone = setup._replace(hardware=setup.hardware.without_gpus())
    ways = (*caches, *smaller) if alone.hardware.host_room else ()
    fitting = next((settings for settings in ways if alone.left_or_lacking(settings) >= 0), None)
    if fitting is None:
        return None
    return Runnable(fitting._replace(gpu_layers=0), Placing(setup.blueprint.count("block_count")), without_gpus=True)


def _search_placing(setup: Setup, caches: Sequence[Settings], sizes: Sequence[int], able: Abilities) -> Runnable | None:
    """The first placing that fits, of the matrices of single layers too, and with the KV cache in host memory."""
    # The same memories: `fit`, which knows no speeds, and a plan, which does, must find the same way
    usual = Processors(int(float(USUAL_HOST.threads)), float(USUAL_HOST.bytes_per_s))
    rooms, cuda = setup.hardware.rooms, SpeedSetting("cuda")
    chips = (_ANY_CHIP,) * len(rooms)
    hardware = Hardware(rooms, setup.hardware.host_room, chips=chips, setting=cuda, processors=usual)
    pieces, margin_bytes = Pieces(setup.blueprint), min(setup.margin_bytes, MARGIN_BYTES)
    for settings in caches:
        if not setup._replace(settings=settings).may_fit:
            continue
        search = Search(Pricing(pieces, hardware, Work()), margin_bytes, 1, SearchCount(), able)
        search.same = inf
        micro_batches = (*sizes, settings.micro_batch)
        found = search.best(settings, micro_batches, (True, False))
        if not found and search.counted.unproved:  # many tries were for larger buffers, which are quicker
            found = search.best(settings, (min(micro_batches),), (True, False))
        if found:
            return Runnable(found.settings, found.placing)
    return None
