"""Questions before a purchase: a second GPU, 16 or 24 GB, a Mac or a PC, a CPU or a GPU."""

from docs._build.figures.asking import SYSTEM, Answer, asked, cell, middle, speed, table, times

from unslow.buy.devices import devices
from unslow.buy.report import RigShown
from unslow.commands.devices import DevicesRequest
from unslow.show.units import span

_CARD = "RTX 3090"
_SHARED = (
    ("qwen3-8b", _CARD), ("qwen3-32b", _CARD), ("qwen3-32b", "RTX 5060 Ti 16GB"), ("llama-3.3-70b", _CARD),
    ("gpt-oss-120b", _CARD),
)  # fmt: skip
_DEPTH = 8192
_SLOW_RAM, _FAST_RAM = 40e9, 90e9
"""What two channels deliver of DDR4-3200 and of DDR5-6000, about four fifths and more of 51.2 and 96 GB/s."""


def second_gpu() -> Answer:
    """Does a second GPU help."""
    small, shared = (_gained("qwen3-8b", split=split) for split in ("layer", "tensor"))
    words = (
        f"It helps if the model does not fit on one card: a 70B model on two {_CARD} is "
        f"{times(_gained('llama-3.3-70b'))} as fast as on one. If it already fits on one, two with llama.cpp's default "
        f"layer split reach {small:.2f} times the speed, because they work one after the other; tensor parallel (`-sm "
        f"tensor`, still experimental) reaches about {shared:.2f} times."
    )
    head = ("model", "card", "one", "two, layer split", "two, tensor parallel")
    return Answer(words, table(head, [_pair(*case) for case in _SHARED]))


def _gained(name: str, split: str = "layer") -> float:
    return middle(name, f"2x {_CARD}", depth=_DEPTH, split=split) / middle(name, _CARD, depth=_DEPTH)


def _pair(name: str, card: str) -> tuple[str, ...]:
    quant = None if name.startswith("gpt-oss") else "Q4_K_M"
    one, two = (speed(name, rig, quant, depth=_DEPTH) for rig in (card, f"2x {card}"))
    shared = speed(name, f"2x {card}", quant, depth=_DEPTH, split="tensor")
    together = cell(shared) if two.fits == "whole" else "-"
    return name, card, cell(one), cell(two), together


def sixteen_or_24() -> Answer:
    """16 or 24 GB."""
    models = ("qwen3-14b", "gpt-oss-20b", "mistral-small-3.2-24b", "gemma-3-27b", "qwen3-30b-a3b", "qwen3-32b")
    cards = ("RTX 5060 Ti 16GB", "RTX 5080", "RTX 3090", "RTX 4090")
    quants = {"gpt-oss-20b": None}
    found = {m: [speed(m, card, quants.get(m, "Q4_K_M"), depth=_DEPTH) for card in cards] for m in models}
    both = [m for m in models if found[m][0].fits == found[m][2].fits == "whole"]
    only = [m for m in models if found[m][0].fits != "whole" and found[m][2].fits == "whole"]
    dense = found["qwen3-32b"]
    gain = dense[2].speed.decode_tokens_per_s.mid / dense[0].speed.decode_tokens_per_s.mid
    words = (
        f"Of these models, 16 GB hold {len(both)} and 24 GB hold {len(both) + len(only)} in four bits with {_DEPTH:,} "
        "tokens of context. The others spill to the host on 16 GB, which slows a 32B model down by a factor of "
        f"{gain:.0f}. If you want models of 24B and more, memory size comes first; if both cards hold a model, the "
        "one with the higher memory bandwidth wins."
    )
    return Answer(words, table(("model", *cards), [(m, *map(cell, row)) for m, row in found.items()]))


def mac_or_pc() -> Answer:
    """A Mac or a PC."""
    names = (
        "RTX 3090",
        "2x RTX 3090",
        "RTX 5090",
        "M4 Pro 48GB",
        "M4 Max 128GB",
        "M3 Ultra 256GB",
        "Strix Halo",
        "DGX Spark",
    )
    rigs = devices(SYSTEM, DevicesRequest(names=names, model="qwen3-32b", prompt=_DEPTH)).devices
    card = middle("qwen3-32b", "RTX 5090") / middle("qwen3-32b", "M4 Max 128GB")
    large = middle("gpt-oss-120b", "M4 Max 128GB", None) / middle("gpt-oss-120b", "RTX 5090", None)
    words = (
        "A PC for models that fit on its card, a Mac or another machine with a large unified memory for those that do "
        f"not: an RTX 5090 runs a 32B model {times(card)} as fast as an M4 Max, and the M4 Max runs gpt-oss-120b "
        f"{times(large)} as fast as that card with its experts in ordinary RAM. With long prompts, all machines with "
        "unified memory take longer than a card."
    )
    head = ("device", "qwen3-8b", "qwen3-32b", "gpt-oss-120b", "llama-3.3-70b", "first token, 8,192", "price", "W")
    return Answer(words, table(head, [_bought(rig) for rig in rigs]))


def _bought(rig: RigShown) -> tuple[str, ...]:
    rates = (cell(asked(m, rig.name, q)) for m, q in (("qwen3-8b", "Q4_K_M"), ("qwen3-32b", "Q4_K_M"),
             ("gpt-oss-120b", None), ("llama-3.3-70b", "Q4_K_M")))  # fmt: skip
    price = rig.price
    paid = f"{price.amount:,.0f} ({price.kind} {price.date[:4]})" if price else "?"
    first = span(rig.speed.first_token_s.mid) if rig.speed else "-"
    return rig.name, *rates, first, paid, f"{rig.tdp_w:.0f}" if rig.tdp_w else "?"


def cpu_or_gpu() -> Answer:
    """A new CPU or a new GPU."""
    cases = (("qwen3-8b", "RTX 3060"), ("qwen3-32b", "RTX 3060"), ("gpt-oss-120b", "RTX 3060"))
    rows = [_renewed(*case) for case in cases]
    whole, spilled = (_gain(*case) for case in cases[:2])
    words = (
        f"A GPU, unless a part of the model is in RAM: faster RAM makes a model that fits on the card {whole:.2f} "
        f"times as fast, and one that spills {spilled:.1f} times. A card that holds the whole model beats both. What "
        "counts in a CPU is memory bandwidth, not cores."
    )
    head = ("model", "RTX 3060, slow RAM", "RTX 3060, fast RAM", "RTX 3090, slow RAM")
    return Answer(words, table(head, rows))


def _renewed(name: str, card: str) -> tuple[str, ...]:
    quant = None if name.startswith("gpt-oss") else "Q4_K_M"
    before, faster = (speed(name, card, quant, ram_bandwidth=ram) for ram in (_SLOW_RAM, _FAST_RAM))
    return name, cell(before), cell(faster), cell(speed(name, _CARD, quant, ram_bandwidth=_SLOW_RAM))


def _gain(name: str, card: str) -> float:
    return middle(name, card, ram_bandwidth=_FAST_RAM) / middle(name, card, ram_bandwidth=_SLOW_RAM)
