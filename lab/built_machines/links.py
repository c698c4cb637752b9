"""Links: PCIe that carries too little for what has to cross it, and links that only look slow."""

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.llama_server import Server
from lab.built_machines.nvidia import Card
from lab.built_machines.parts import RTX_4060_TI, RTX_4090, answers, on_card, one_card
from lab.built_machines.shapes import QWEN_32B
from lab.built_machines.sources import LINK_ASLEEP, RISER

from unslow.facts.run import LongPrompt, Run
from unslow.facts.values import measured_fact


def machines() -> tuple[Built, ...]:
    """All of them."""
    riser = RTX_4060_TI._replace(busy=45, generation=1, generation_max=4, width=1, width_max=8)
    healthy = RTX_4060_TI._replace(busy=45)
    asleep = RTX_4090._replace(busy=0, mhz=210, state=8, watts=14, celsius=35, generation=1, reasons=1)
    split = on_card(RTX_4060_TI, QWEN_32B, 46, answered=answers(5.2, 4096, 6.0), busy=True)
    waiting = split._replace(answered=answers(5.2, 4096, 180.0))
    return (
        Built(
            "rtx_4060_ti_x1_riser", "weights_spill_to_ram",
            "a 32B model in part on an RTX 4060 Ti behind a riser of one lane, which 5 GB of weights cross often",
            RISER, _read(riser, waiting, 4096, 180.0),
            also=("prefill_pcie_bound", "pcie_link_degraded"),
        ),
        Built(
            "rtx_4060_ti_full_link", "weights_spill_to_ram",
            "the same with all eight lanes of generation 4", RISER, _read(healthy, split, 4096, 6.0),
            also=("prefill_pcie_bound",),
        ),
        Built(
            "rtx_4090_link_asleep", "",
            "an RTX 4090 that was looked at while idle: link at generation 1, clocks low", LINK_ASLEEP,
            _read(asleep, on_card(RTX_4090, answered=answers(131.0)), 4096, 0.55), "normal",
        ),
    )  # fmt: skip


def _read(card: Card, server: Server, tokens: int, seconds: float) -> Write:
    """The machine with a long prompt timed."""
    prompt = measured_fact(LongPrompt(tokens=tokens, seconds=seconds), "a prompt that fills several micro-batches")
    return snapshot(one_card(card, server), Run(long_prompt=prompt))
