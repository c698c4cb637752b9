"""Models by their published shapes, and what reading their GGUF files answers."""

from typing import Any, NamedTuple

from unslow.facts.units import MIB


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

    @property
    def file_mib(self) -> float:
        """All tensors."""
        return self.layers_mib + self.table_mib + self.output_mib

    @property
    def layer_mib(self) -> float:
        """One repeating layer."""
        return self.layers_mib / self.layers

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
        each = round(self.layer_mib * MIB)
        table, output = round(self.table_mib * MIB), round(self.output_mib * MIB)
        named = {"general.architecture": "llama", "general.name": self.name, "general.file_type": self.file_type}
        total = each * self.layers + table + output
        return {
            "path": path,
            "file_bytes": total + 4 * MIB,
            "metadata": named | {f"llama.{key}": value for key, value in own.items()},
            "array_lengths": {"tokenizer.ggml.tokens": self.vocabulary},
            "tensors": {
                "count": 9 * self.layers + 3,
                "elements": self.parameters,
                "bytes": total,
                "layer_bytes": [each] * self.layers,
                "expert_bytes": 0,
                "token_table_bytes": table,
                "layer_table_bytes": 0,
                "output_bytes": output,
                "type_bytes": {_TYPES[self.file_type]: total},
            },
        }


_TYPES = {15: "Q4_K"}
# The first two as llama.cpp printed them in recordings; the others follow from the shapes in their config.json and the
# bits of Q4_K_M (tables in Q4_K, output and half of the values and down projections in Q6_K).
LLAMA_8B = Shape("Llama 3.1 8B", 8_030_261_248, 32, 4096, 14336, 32, 8, 128256, 3992.5, 281.81, 410.98)
LLAMA_70B = Shape("Llama 3.3 70B", 70_553_706_496, 80, 8192, 28672, 64, 8, 128256, 39157.0, 563.62, 821.95)
QWEN_32B = Shape("Qwen2.5 32B", 32_763_876_352, 64, 5120, 27648, 40, 8, 152064, 17899.0, 417.66, 609.08, 32768)
QWEN_14B = Shape("Qwen2.5 14B", 14_770_033_664, 48, 5120, 13824, 40, 8, 152064, 7539.0, 417.66, 609.08, 32768)
SMOLLM_135M = Shape(
    "SmolLM2 135M", 134_515_008, 30, 576, 1536, 9, 3, 49152, 59.1, 22.15, 22.15, 8192, head_width=64
)  # fmt: skip
