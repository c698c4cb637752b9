"""The time of a step and of a prompt token in an engine that serves many (vLLM and its kin), in terms of its own.

Such an engine replays recorded graphs of compiled kernels, multiplies with matrix units from the first conversation on,
samples for all conversations at once on the GPU, and passes every token through one process that answers its users.
What llama.cpp's kernels cost is not charged to it. Its factors are learned from lab/data/vllm_h200_sweep.jsonl, a real
vLLM 0.26 on one H200 (`python -m lab.fit_speed --served`).
"""

from collections.abc import Iterator

from unslow.think.physics.chip import BYTES, HALF, NIBBLES, Chip, SpeedSetting, reading_bytes_per_s
from unslow.think.physics.decode import COMPUTE, LAUNCHES, READS, ROUND_TRIP, Amounts, by_kind, deviating
from unslow.think.physics.prefill import Prompt, link_terms
from unslow.think.physics.terms import Factor, Number, Term

DEVICE, SERVER = "device", "server"  # what works at the same time: the GPU, and the processes around it
MULTIPLIES_FP8 = frozenset({"ada", "hopper", "blackwell", "cdna3", "cdna4"})
"""Families whose matrix units multiply 8-bit floats; others unpack them first
(https://docs.vllm.ai/en/latest/features/quantization/fp8.html)."""


def serves_many(setting: SpeedSetting) -> bool:
    """Whether the engine is made for many conversations, as vLLM and its kin are."""
    return setting.runtime == "vllm"


def served_step_terms(amounts: Amounts, chip: Chip, setting: SpeedSetting) -> Iterator[Term]:
    """What a step costs that brings all conversations forward by a token.

    the longer of two sides, nearly, as the next step is prepared while this one is computed:
      the GPU:    weights / bandwidth x (1 + waste) + keys and values / bandwidth x (1 + waste)
                  + products of all conversations / matrix arithmetic + unpacking
                  + layers x what is left of launches + the step's own cost
      the server: scheduling a step + conversations x what a token costs that is decoded and sent
    """
    backend, read = setting.backend, amounts.dense_bytes + amounts.expert_bytes
    cache = amounts.cache_bytes / chip.bytes_per_s
    yield Term(READS, read / reading_bytes_per_s(read, chip), side=DEVICE)
    yield Term(READS, read / chip.bytes_per_s, deviating("served waste", setting), DEVICE)
    yield Term(READS, 2 * amounts.state_bytes / chip.bytes_per_s, side=DEVICE)  # read, and written again
    yield Term(READS, cache, side=DEVICE)
    unfused = () if setting.fused else (Factor(f"unfused/{backend}"),)
    yield Term(READS, cache, (*deviating("served cache waste", setting), *unfused), DEVICE)
    if setting.packed_cache:
        unpacked = amounts.cache_elements / chip.flops_per_s
        yield Term(COMPUTE, unpacked, (Factor(f"packed cache/{backend}"),), DEVICE)
    met = sum((amounts.met_kinds or by_kind(amounts, setting)).values())
    if setting.types != HALF:
        kind = "served fp8" if setting.types == BYTES else "served int4"
        yield Term(COMPUTE, met / chip.flops_per_s, deviating(kind, setting), DEVICE)
    products = 2 * sum(by_kind(amounts, setting).values()) * amounts.tokens
    yield Term(COMPUTE, products / chip.matrix_flops_per_s, (Factor(f"served batch/{backend}"),), DEVICE)
    for kind, count in (
        ("layer", amounts.layers),
        ("expert layer", amounts.expert_layers),
        ("state layer", amounts.state_layers),
    ):
        yield Term(LAUNCHES, count, (*deviating(f"served {kind}", setting)[:1], *_launches(setting)), DEVICE)
    yield Term(ROUND_TRIP, 1.0, (Factor(f"served step/{backend}"),), DEVICE)
    yield Term(ROUND_TRIP, amounts.tokens - 1, (Factor(f"served sampling/{backend}"),), DEVICE)
    host = (Factor("slow host"),) if setting.slow_host else ()
    yield Term(ROUND_TRIP, 1.0, (Factor(f"served schedule/{backend}"), *host), SERVER)
    yield Term(ROUND_TRIP, amounts.tokens, (Factor(f"served answer/{backend}"), *host), SERVER)


def served_prompt_terms(prompt: Prompt, chip: Chip, setting: SpeedSetting) -> Iterator[Term]:
    """What a prompt token costs: products, the weights that a batch shares, attention, and a batch's own cost."""
    amounts, backend, parts = prompt.amounts, setting.backend, prompt.parts
    used = deviating("served prompt", setting)
    if setting.types != HALF:
        multiplied = setting.types == BYTES and setting.family in MULTIPLIES_FP8
        used = (*used, Factor(f"served prompt types/{BYTES if multiplied else NIBBLES}"))  # the others are unpacked
    products = 2 * (prompt.token_weights + prompt.token_expert_weights) / parts
    yield Term(COMPUTE, products / chip.matrix_flops_per_s, used)
    shared = chip.bytes_per_s * prompt.micro_batch * parts
    yield Term(READS, (amounts.dense_bytes + amounts.expert_bytes) / shared)
    attention = 2 * prompt.attention_products / chip.matrix_flops_per_s
    yield Term(COMPUTE, attention, deviating("served prompt attention", setting))
    launched: tuple[tuple[str, Number], ...] = (
        ("served prompt layer", amounts.layers),
        ("served prompt expert layer", amounts.expert_layers),
    )
    for kind, count in launched:
        yield Term(LAUNCHES, count / prompt.micro_batch, (Factor(f"{kind}/{backend}"), *_launches(setting)))
    yield Term(ROUND_TRIP, 1 / prompt.micro_batch, (Factor(f"served prompt step/{backend}"),))
    yield Term(ROUND_TRIP, 1.0, (Factor(f"served prompt token/{backend}"),))  # parsed, checked, hashed
    yield from link_terms(prompt, setting)


def _launches(setting: SpeedSetting) -> tuple[Factor, ...]:
    """How a family deviates in its launches, which is a matter of its clocks and hosts, whatever runs on it."""
    host = (Factor("slow host"),) if setting.slow_host else ()
    return (*deviating("served launch", setting)[1:], *host)
