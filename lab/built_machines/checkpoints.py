"""Models as the config.json of their checkpoints has them."""

from typing import Any, NamedTuple

from unslow.facts.model import Model
from unslow.facts.values import reported_fact


class Checkpoint(NamedTuple):
    """A dense model with grouped heads: its published shape, and the bytes of one checkpoint of it."""

    name: str
    quant: str
    weights_bytes: int
    parameters: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    vocabulary: int
    head_width: int = 128

    def model(self) -> Model:
        """Its facts."""
        facts: dict[str, Any] = {
            "name": self.name, "quant": self.quant, "weights_bytes": self.weights_bytes,
            "parameters": self.parameters, "layers": self.layers, "width": self.width, "heads": self.heads,
            "kv_heads": self.kv_heads, "key_length": self.head_width, "value_length": self.head_width,
            "vocabulary": self.vocabulary, "experts": 0, "experts_used": 0,
        }  # fmt: skip
        known: dict[str, Any] = {name: reported_fact(value, "config.json") for name, value in facts.items()}
        return Model(**known)


LLAMA_1B = Checkpoint(
    "meta-llama/Llama-3.2-1B-Instruct", "bfloat16", 2_471_645_608, 1_235_814_400, 16, 2048, 32, 8, 128256, 64
)
LLAMA_3B = Checkpoint(
    "meta-llama/Llama-3.2-3B-Instruct", "bfloat16", 6_425_529_048, 3_212_749_824, 28, 3072, 24, 8, 128256
)
LLAMA_8B = Checkpoint(
    "meta-llama/Llama-3.1-8B-Instruct", "bfloat16", 16_060_556_376, 8_030_261_248, 32, 4096, 32, 8, 128256
)
LLAMA_70B = Checkpoint(
    "meta-llama/Llama-3.3-70B-Instruct", "bfloat16", 141_107_497_872, 70_553_706_496, 80, 8192, 64, 8, 128256
)
QWEN3_4B = Checkpoint("Qwen/Qwen3-4B-Instruct-2507", "bfloat16", 8_044_936_192, 4_022_468_096, 36, 2560, 32, 8, 151936)
QWEN3_8B = Checkpoint("Qwen/Qwen3-8B-FP8", "FP8", 9_440_000_000, 8_190_735_360, 36, 4096, 32, 8, 151936)
QWEN3_32B = Checkpoint("Qwen/Qwen3-32B-FP8", "FP8", 34_300_000_000, 32_762_123_264, 64, 5120, 64, 8, 151936)
QWEN_7B = Checkpoint("Qwen/Qwen2.5-7B-Instruct-AWQ", "AWQ", 5_570_000_000, 7_615_616_512, 28, 3584, 28, 4, 152064)
QWEN_14B = Checkpoint("Qwen/Qwen2.5-14B-Instruct", "bfloat16", 29_540_067_328, 14_770_033_664, 48, 5120, 40, 8, 152064)
QWEN_32B = Checkpoint("Qwen/Qwen2.5-32B-Instruct", "bfloat16", 65_527_752_704, 32_763_876_352, 64, 5120, 40, 8, 152064)
QWEN_72B = Checkpoint("Qwen/Qwen2.5-72B-Instruct", "bfloat16", 145_412_407_296, 72_706_203_648, 80, 8192, 64, 8, 152064)
MISTRAL_24B = Checkpoint(
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506", "bfloat16", 47_150_000_000, 23_572_403_200, 40, 5120, 32, 8, 131072
)
