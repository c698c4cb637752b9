"""A model of Transformers as far as it is looked at, without torch: tensors of shapes, devices and types."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "vocab_size": 1000,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip


@dataclass(eq=False)
class Tensor:
    shape: tuple[int, ...]
    dtype: str = "torch.bfloat16"
    device: str = "cpu"
    width: int = 2

    def numel(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    def element_size(self) -> int:
        return self.width


class Config:
    is_encoder_decoder = False

    def __init__(self, **changes: Any) -> None:
        self._name_or_path = "org/tiny"
        self._attn_implementation = "sdpa"
        self._raw = CONFIG | changes

    def to_json_string(self, *, use_diff: bool) -> str:
        assert not use_diff
        return json.dumps(self._raw)


@dataclass
class Hook:
    hooks: list[Callable[..., None]]
    hook: Callable[..., None]

    def remove(self) -> None:
        self.hooks.remove(self.hook)


@dataclass
class Model:
    """Generates nothing: every step calls the hooks, and the answer has the shape that was asked for."""

    devices: tuple[str, ...] = ("cpu", "cpu")
    config: Any = field(default_factory=Config)
    generation_config: Any = field(default_factory=lambda: SimpleNamespace(use_cache=True, cache_implementation=None))
    gives_back: bool = True
    fails: bool = False
    hooks: list[Callable[..., None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Tensor((1000, 64), device=self.devices[0])
        self.output = Tensor((1000, 64), device=self.devices[-1])

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield "model.embed_tokens.weight", self.table
        for number, device in enumerate(self.devices):
            yield f"model.layers.{number}.self_attn.q_proj.weight", Tensor((64, 64), device=device)
            yield f"model.layers.{number}.mlp.up_proj.weight", Tensor((176, 64), device=device)
        yield "lm_head.weight", self.output

    def get_input_embeddings(self) -> Any:
        return SimpleNamespace(weight=self.table)

    def get_output_embeddings(self) -> Any:
        return SimpleNamespace(weight=self.output)

    def register_forward_pre_hook(self, hook: Callable[..., None]) -> Hook:
        self.hooks.append(hook)
        return Hook(self.hooks, hook)

    def generate(self, input_ids: Any = None, *, max_new_tokens: int = 8, **_more: Any) -> Tensor:
        """Stands for `GenerationMixin.generate`."""
        for _ in range(max_new_tokens):
            for hook in tuple(self.hooks):
                hook(self, ())
            if self.fails:
                raise RuntimeError("out of memory")
        read = input_ids.shape[1] if input_ids is not None and self.gives_back else 0
        return Tensor((input_ids.shape[0] if input_ids is not None else 1, read + max_new_tokens))
