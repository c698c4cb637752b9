"""Models by their published shapes, and what reading their GGUF files answers."""

from typing import Any, NamedTuple

from unslow.facts.values import MIB


class Shape(NamedTuple):
    """A dense model as llama.cpp's quantised file of it holds it; sizes are those that llama.cpp prints on loading."""

    name: str
    parameters: int
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int
    layers_mib: float
    """All repeating layers together."""
    table_mib: float
    output_mib: float
    context: int = 131072
    quant: str = "Q4_K - Medium"
    file_type: int = 15
    head_width: int = 128
    architecture: str = "llama"
    experts: tuple[int, int, int] = (0, 0, 0)
    """How many there are, how many of them compute, and how wide each is; none in a dense model."""

    @property
    def file_mib(self) -> float:
        """All tensors."""
        return self.layers_mib + self.table_mib + self.output_mib

    @property
    def layer_mib(self) -> float:
        """One repeating layer."""
        return self.layers_mib / self.layers

    @property
    def expert_bytes(self) -> int:
        """What the experts take of all repeating layers, all of one type."""
        count, _, width = self.experts
        share = 3 * self.layers * count * width * self.width / self.parameters if count else 0.0
        return round(share * self.file_mib * MIB)

    def kv_mib(self, tokens: int) -> float:
        """The cache of so many tokens in 16 bits."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_width * tokens / MIB

    def gguf(self, path: str) -> dict[str, Any]:
        """The header of its file, as the reader of GGUF files answers."""
        own = {
            "context_length": self.context,
            "embedding_length": self.width,
            "block_count": self.layers,
            "feed_forward_length": self.hidden,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_width,
            "attention.value_length": self.head_width,
            "vocab_size": self.vocabulary,
        }
        if self.experts[0]:
            names = ("expert_count", "expert_used_count", "expert_feed_forward_length")
            own |= dict(zip(names, self.experts, strict=True))
        each = round(self.layer_mib * MIB)
        table, output = round(self.table_mib * MIB), round(self.output_mib * MIB)
        kind = self.architecture
        named = {"general.architecture": kind, "general.name": self.name, "general.file_type": self.file_type}
        total = each * self.layers + table + output
        return {
            "path": path,
            "file_bytes": total + 4 * MIB,
            "metadata": named | {f"{kind}.{key}": value for key, value in own.items()},
            "array_lengths": {"tokenizer.ggml.tokens": self.vocabulary},
            "tensors": {
                "count": 9 * self.layers + 3,
                "elements": self.parameters,
                "bytes": total,
                "layer_bytes": [each] * self.layers,
                "expert_bytes": self.expert_bytes,
                "token_table_bytes": table,
                "layer_table_bytes": 0,
                "output_bytes": output,
                "type_bytes": {_TYPES[self.file_type]: total},
            },
        }


_TYPES = {7: "Q8_0", 15: "Q4_K", 18: "Q6_K", 38: "MXFP4"}
# The first two as llama.cpp printed them in recordings; the others follow from the shapes in their config.json and the
# bits of Q4_K_M (tables in Q4_K, output and half of the values and down projections in Q6_K).
LLAMA_8B = Shape("Llama 3.1 8B", 8_030_261_248, 32, 4096, 14336, 32, 8, 128256, 3992.5, 281.81, 410.98)
LLAMA_70B = Shape("Llama 3.3 70B", 70_553_706_496, 80, 8192, 28672, 64, 8, 128256, 39157.0, 563.62, 821.95)
QWEN_32B = Shape("Qwen2.5 32B", 32_763_876_352, 64, 5120, 27648, 40, 8, 152064, 17899.0, 417.66, 609.08, 32768)
QWEN_14B = Shape("Qwen2.5 14B", 14_770_033_664, 48, 5120, 13824, 40, 8, 152064, 7539.0, 417.66, 609.08, 32768)
SMOLLM_135M = Shape(
    "SmolLM2 135M", 134_515_008, 30, 576, 1536, 9, 3, 49152, 59.1, 22.15, 22.15, 8192, head_width=64
)  # fmt: skip
LLAMA_3B = Shape("Llama 3.2 3B", 3_212_749_888, 28, 3072, 8192, 24, 8, 128256, 1610.0, 308.23, 308.23)
LLAMA_1B = Shape(
    "Llama 3.2 1B", 1_235_814_432, 16, 2048, 8192, 32, 8, 128256, 562.0, 205.49, 205.49, head_width=64
)  # fmt: skip
QWEN_CODER_480B = Shape(
    "Qwen3 Coder 480B A35B", 480_154_875_392, 62, 6144, 8192, 96, 8, 151936, 374_180.0, 730.0, 730.0, 262144, "Q6_K",
    18, architecture="qwen3moe", experts=(160, 8, 2560),
)  # fmt: skip
GPT_OSS_120B = Shape(
    "GPT OSS 120B", 116_829_156_672, 36, 2880, 2880, 64, 8, 201088, 60_150.0, 1104.6, 1104.6, 131072, "MXFP4 MoE", 38,
    64, "gpt-oss", (128, 4, 2880),
)  # fmt: skip
