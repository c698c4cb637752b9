"""Whether a build has code for each of the GPUs that a runtime may use."""

import re
from typing import NamedTuple

from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.gpu_match import gpus_named
from unslow.think.adapt.vram import gpu_places, gpus_of, gpus_used, seen_gpus

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
"""What makes ROCm take a GPU for another."""


class Card(NamedTuple):
    """A GPU with its place in `machine.gpus`, its architecture, and the fact of it that says so.

    `runs` is None where the architecture is unknown, or where an override says that it is another.
    """

    place: int
    gpu: Gpu
    own: str
    fact: str
    runs: bool | None


def cards_of(case: Case) -> list[Card]:
    """The GPUs that the runtime uses or that settings leave to it; of two makers those that the build is for.

    None where nothing tells what the build was compiled for.
    """
    built = case.runtime.build_architectures.value_or([])
    used, overridden = gpus_used(case), OVERRIDE in case.runtime.environment.value_or({})
    cards = [_card(place, gpu, built, overridden=overridden) for place, gpu in gpu_places(case) if gpu in used]
    for_amd = any(target.startswith("gfx") for target in built)
    same_maker = [card for card in cards if not card.own or card.own.startswith("gfx") == for_amd]
    return (same_maker or cards) if built else []


def names_of(case: Case, cards: list[Card]) -> list[str]:
    """What the runtime calls these, such as CUDA0; none where it does not list each of them."""
    seen, gpus, wanted = seen_gpus(case), gpus_of(case), [card.gpu for card in cards]
    alike = [(device.name, gpus_named(case, [device], seen, gpus)) for device in seen]
    named = [name for name, found in alike if found and all(gpu in wanted for gpu in found)]
    return named if len(named) == len(wanted) else []


def _card(place: int, gpu: Gpu, built: list[str], *, overridden: bool) -> Card:
    own, fact = _architecture(gpu)
    unknown = not own or (own.startswith("gfx") and overridden)
    return Card(place, gpu, own, fact, None if unknown else _runs(own, built))


def _architecture(gpu: Gpu) -> tuple[str, str]:
    if isinstance(gpu.compute_capability, Known):
        return gpu.compute_capability.value, "compute_capability"
    return gpu.architecture.value_or(""), "architecture"


def _runs(own: str, built: list[str]) -> bool:
    """Whether any of the build's architectures runs on it: gfx targets must match, CUDA's must not be newer.

    Newer GPUs may still run what is compiled at load, older ones never.
    """
    if own.startswith("gfx"):
        return own in {target.split(":")[0] for target in built}
    digits = [int(found[0]) for found in (re.search(r"\d+", target) for target in built) if found]
    capability = re.fullmatch(r"(\d{1,2})\.(\d)", own)
    return not digits or not capability or min(digits) <= int(capability[1] + capability[2]) * _scale(digits)


def _scale(digits: list[int]) -> int:
    """llama.cpp writes 8.6 as 860, others as 86."""
    return 10 if min(digits) >= 300 else 1  # noqa: PLR2004 (no CUDA GPU is older than 3.0, none yet is 30.0)
