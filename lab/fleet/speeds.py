"""How fast a healthy server is: by this program's own physics, for as many requests as it answers at once."""

from functools import cache
from typing import NamedTuple

from lab.fleet.engine import Engine
from lab.fleet.machines import Card, Gpu, memory_bytes

from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer
from unslow.look.system.live import LiveSystem

_RAM_BYTES_PER_S = 2e11
_ACTIVATIONS = 2.5e9
"""Bytes that vLLM keeps for activations and graphs on each GPU, about."""


class Served(NamedTuple):
    """A model as it is served."""

    catalogue: str
    """Its name in the catalogue."""
    name: str
    """The one that clients use."""
    quant: str | None
    layers: int
    kv_heads: int
    head_size: int
    """By its config.json."""

    @property
    def cache_bytes(self) -> float:
        """Of one token, in 16 bits."""
        return 4.0 * self.layers * self.kv_heads * self.head_size


LLAMA_8B = Served("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "bf16", 32, 8, 128)
LLAMA_70B = Served("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", "bf16", 80, 8, 128)
QWEN_8B = Served("qwen3-8b", "Qwen/Qwen3-8B", "bf16", 36, 8, 128)
QWEN_32B = Served("qwen3-32b", "Qwen/Qwen3-32B", "bf16", 64, 8, 128)
GPT_OSS_120B = Served("gpt-oss-120b", "openai/gpt-oss-120b", None, 36, 8, 64)


class Speed(NamedTuple):
    """What each of the requests gets, and what a prompt takes."""

    step_s: float
    prompt_tokens_per_s: float
    weights_bytes: float


@cache
def speed(model: Served, card: Card, gpus: int, users: int, runtime: str = "vLLM", depth: int = 1000) -> Speed:
    """By the same prediction as `unslow predict` gives; LookupError where it gives none."""
    request = PredictRequest(
        model=model.catalogue, quant=model.quant, devices=(card.name,), gpus=gpus, depth=depth, batch=users,
        runtime="llama.cpp" if runtime == "llama.cpp" else "vllm", split="tensor" if gpus > 1 else "layer",
        prompt=1024, ram_bandwidth=_RAM_BYTES_PER_S, ram_bytes=2**39,
    )  # fmt: skip
    told = answer(LiveSystem(), request)
    if told.decode is None or told.prefill is None:
        raise LookupError(f"{model.catalogue} on {gpus} x {card.name}: {told.reason}")
    return Speed(told.decode.step_s, told.prefill.tokens_per_s.mid, float(told.model.weights_bytes))


def healthy_engine(
    model: Served, gpus: tuple[Gpu, ...], users: int, runtime: str = "vLLM", noise: float = 1.0
) -> Engine:
    """A server at work on these GPUs; `noise` times as slow as the middle of the prediction."""
    card, asked = gpus[0].card, Engine(model.name)
    known = speed(model, card, len(gpus), users, runtime)
    computed = asked.prompt_tokens * (1 - asked.hits)
    # what the prompts of the others take of the time of an answer, where each asks again when it has its answer
    own_s = computed / known.prompt_tokens_per_s
    prompts = (users - 1) * own_s / (own_s + known.step_s * asked.answer_tokens)
    room = len(gpus) * (0.92 * memory_bytes(card.name) - _ACTIVATIONS) - known.weights_bytes
    return asked._replace(
        running=float(users),
        gap_s=known.step_s * (1 + prompts) * noise,
        prefill_s=1.5 * computed / known.prompt_tokens_per_s,
        cache_tokens=max(30_000.0, room / model.cache_bytes),
        runtime=runtime,
        ranks=len(gpus),
    )
