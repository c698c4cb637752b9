"""Record what needs no GPU to be true: the size of Transformers' caches, and where its device maps put modules.

    python lab/record_transformers_layouts.py OUT.jsonl      on any machine with PyTorch, Transformers and Accelerate

Caches are filled by tiny models of many architectures and counted; maps are computed by Transformers itself for models
on the meta device, with a given memory for each card. `compare_transformers_memory.py` reads the rows.
"""

import argparse
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

transformers = importlib.import_module("transformers")

WINDOW = 16
TINY = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 512}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
           "first_k_dense_replace": 1}  # fmt: skip
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 48, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12,
          "head_dim": 8, "num_key_value_heads": 4}  # fmt: skip
LINEAR = {"layer_types": ["linear_attention"] * 3 + ["full_attention"], "linear_num_value_heads": 4, "head_dim": 16,
          "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
          "linear_conv_kernel_dim": 4}  # fmt: skip
ALTERNATE = ["sliding_attention", "full_attention"] * 2
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "LlamaConfig": TINY,
    "MistralConfig": {**TINY, "sliding_window": WINDOW},
    "Gemma3TextConfig": {
        **TINY,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
    "GptOssConfig": {**TINY, **EXPERTS, "sliding_window": WINDOW, "layer_types": ALTERNATE},
    "Qwen3MoeConfig": {**TINY, **EXPERTS},
    "DeepseekV3Config": {**TINY, **EXPERTS, **LATENT},
    "Qwen3NextConfig": {**TINY, **EXPERTS, **LINEAR},
}
MAPPED = {**TINY, "num_hidden_layers": 12, "vocab_size": 4096}


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser(description="Record caches and device maps.")
    parser.add_argument("out", type=Path)
    with parser.parse_args().out.open("w") as out:
        for row in (*caches(), *maps()):
            out.write(json.dumps(row) + "\n")


def caches() -> Iterator[dict[str, Any]]:
    """The storage of each layer's cache after a prompt and after some tokens more."""
    for kind, settings in ARCHITECTURES.items():
        for cache_kind, batch, prompt in (("dynamic", 2, 40), ("dynamic", 1, 12), ("static", 2, 40)):
            config = getattr(transformers, kind)(**settings, use_cache=True)
            row = {"kind": "cache", "config": kind, "settings": settings, "cache": cache_kind, "batch": batch}
            try:
                row |= {"prompt": prompt, "new_tokens": 4, **filled(config, cache_kind, batch, prompt)}
            except Exception as error:  # noqa: BLE001 (an architecture that has no such cache is a fact too)
                row["error"] = f"{type(error).__name__}: {error}"[:200]
            yield row


def filled(config: Any, cache_kind: str, batch: int, prompt: int) -> dict[str, Any]:
    """What the cache holds after the prompt, and after three tokens more."""
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    longest = prompt + 4
    cache = (
        transformers.DynamicCache(config=config)
        if cache_kind == "dynamic"
        else transformers.StaticCache(config=config, max_cache_len=longest)
    )
    ids = torch.randint(1, config.vocab_size, (batch, prompt))
    with torch.inference_mode():
        token = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
        after = held(cache)
        for _ in range(3):
            token = model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
    return {"after_prefill_bytes": after, "bytes": held(cache)}


def held(cache: Any) -> list[int]:
    """The storage of each layer."""
    return [sum({t.data_ptr(): t.nbytes() for t in storages(layer)}.values()) for layer in cache.layers]


def storages(layer: Any) -> Iterator[Any]:
    """What lies behind the tensors of a layer, which may be single ones or lists of them."""
    for name in ("keys", "values", "conv_states", "recurrent_states"):
        state = getattr(layer, name, None)
        several = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else [state]
        yield from (tensor.untyped_storage() for tensor in several if tensor is not None)


def maps() -> Iterator[dict[str, Any]]:
    """Where modules go, for cards of several sizes; the host's memory is named last."""
    accelerate = importlib.import_module("transformers.integrations.accelerate")
    for tied in (False, True):
        config = transformers.LlamaConfig(**MAPPED, tie_word_embeddings=tied)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        total = sum(p.numel() * p.element_size() for p in model.parameters())
        cards = ((0.5,), (1.5,), (0.7, 0.7), (0.4, 0.4, 0.4), (2.0, 2.0), (0.3, 1.1), (0.25, 0.25))
        for shares in cards:
            for how in ("auto", "sequential"):
                memory: dict[int | str, int] = {n: int(share * total) for n, share in enumerate(shares)}
                memory["cpu"] = int(0.6 * total)
                placed = accelerate._get_device_map(model, how, dict(memory), None)  # noqa: SLF001 (there is no other way)
                yield {"kind": "map", "how": how, "tied": tied, "settings": MAPPED, "dtype_bytes": 2,
                       "cards": [memory[n] for n in range(len(shares))], "host": memory["cpu"],
                       "placed": {name: str(device) for name, device in placed.items()}}  # fmt: skip


if __name__ == "__main__":
    main()
