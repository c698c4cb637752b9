"""Transformers without compilation: tokens per second of a made-up model on the GPU.

Started with a run of the plan as JSON; builds the model, waits for a line on its standard input where `early` is set,
then prints one row for decode and one for prefill.
"""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from lab.h200_speed.models import named
from lab.h200_speed.plan import Run

from unslow.catalog.models import Shape, model_at

transformers = importlib.import_module("transformers")

CONFIGS = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
START_TOKENS = 16


def built(architecture: str, shape: Shape, dtype: Any) -> Any:
    """The model with random weights, on the device."""
    config = getattr(transformers, CONFIGS[architecture])(
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        head_dim=shape.key_length or shape.width // int(str(shape.heads)),
        intermediate_size=shape.feed_forward,
        vocab_size=shape.vocabulary,
        tie_word_embeddings=bool(shape.tied),
        max_position_embeddings=shape.context_trained,
    )
    torch.set_default_dtype(dtype)
    with torch.device(DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def seconds(act: Callable[[], Any]) -> float:
    """How long it takes, until the device has nothing left to do."""
    _settle()
    began = time.perf_counter()
    act()
    _settle()
    return time.perf_counter() - began


def _settle() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def decode(model: Any, run: Run, vocabulary: int) -> dict[str, Any]:
    """The rate between a long and a short generation, so that the prompt does not count."""
    batch, count = max(1, int(str(run.sequences))), int(str(run.generate))
    start = max(START_TOKENS, int(str(run.depth)))
    ids = torch.randint(0, vocabulary, (batch, start), device=DEVICE)

    def go(tokens: int) -> float:
        settings = {"max_new_tokens": tokens, "do_sample": False, "use_cache": True}
        return seconds(lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **settings))

    go(count)
    samples = [(count - 1) * batch / (go(count) - go(1)) for _ in range(run.repeat)]
    return {"test": "decode", "n_gen": count, "n_depth": start, "batch": batch, **_rate(samples)}


def prefill(model: Any, run: Run, vocabulary: int) -> dict[str, Any]:
    """The rate of one pass over the prompt."""
    count = int(str(run.prompt))
    ids = torch.randint(0, vocabulary, (1, count), device=DEVICE)
    once = [seconds(lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1)) for _ in range(run.repeat + 1)]
    return {"test": "prefill", "n_prompt": count, **_rate([count / s for s in once[1:]])}


def _rate(samples: list[float]) -> dict[str, Any]:
    return {"avg_ts": statistics.mean(samples), "samples_ts": samples}


def main() -> None:
    """Build, wait, measure."""
    run = msgspec.json.decode(sys.argv[1], type=Run)
    model = named(run.model)
    known = model_at(model.stem)
    began = time.perf_counter()
    made = built(known.architecture, known.shape, DTYPES[model.quant])
    about = {
        "torch": torch.__version__, "transformers": transformers.__version__, "build_s": time.perf_counter() - began,
        "attention": made.config._attn_implementation,  # noqa: SLF001 (no other way to ask)
        "parameters": sum(p.numel() for p in made.parameters()),
    }  # fmt: skip
    if run.early:
        print("ready", flush=True)
        sys.stdin.readline()
    with torch.inference_mode():
        print(json.dumps({**about, **decode(made, run, known.shape.vocabulary)}), flush=True)
        if run.prompt:
            print(json.dumps({**about, **prefill(made, run, known.shape.vocabulary)}), flush=True)


if __name__ == "__main__":
    main()
