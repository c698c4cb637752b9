"""Measure what Transformers really takes on a GPU: weights, cache and peaks of made-up models of known shapes.

    python lab/measure_transformers_memory.py OUT.jsonl           on a machine with CUDA, about two minutes
    python lab/measure_transformers_memory.py --tiny OUT.jsonl    the same way through the code on a CPU, tiny shapes

Each row states the shape, what was asked, and what PyTorch's allocator and the driver then counted. Nothing is
downloaded: the weights are random and built from a configuration. `compare_transformers_memory.py` reads the rows.
"""

import argparse
import contextlib
import gc
import importlib
import itertools
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

transformers = importlib.import_module("transformers")

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
NEW_TOKENS = 6


class Made(NamedTuple):
    """A made-up model: the class of its configuration, what is set in it, and the dtypes to try."""

    kind: str
    settings: dict[str, Any]
    dtypes: tuple[str, ...] = ("bf16",)


class Ask(NamedTuple):
    """One thing to run."""

    attention: str
    cache: str
    batch: int
    prompt: int
    padded: bool = False


LLAMA_1B = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 131072,
}  # fmt: skip
LLAMA_8B = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
GEMMA_WINDOWED = {
    "hidden_size": 2560, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "intermediate_size": 10240, "vocab_size": 262208, "tie_word_embeddings": True, "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2, "max_position_embeddings": 131072,
}  # fmt: skip
QWEN_EXPERTS = {
    "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 64, "num_experts_per_tok": 8,
    "vocab_size": 151936, "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
MODELS = {
    "llama-1b": Made("LlamaConfig", LLAMA_1B, ("bf16", "fp32")),
    "gemma-windowed": Made("Gemma3TextConfig", GEMMA_WINDOWED),
    "qwen-experts": Made("Qwen3MoeConfig", QWEN_EXPERTS, ("bf16", "fp32")),
    "llama-8b": Made("LlamaConfig", LLAMA_8B),
}
SHRUNK = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
          "intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 8, "sliding_window": 16}  # fmt: skip


def main() -> None:
    """Run everything, one row to a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--budget", type=float, default=300, help="seconds after which no new case is begun")
    asked = parser.parse_args()
    end = time.monotonic() + asked.budget
    with asked.out.open("w") as out:
        for row in rows(tiny=asked.tiny):
            out.write(json.dumps(row) + "\n")
            out.flush()
            if time.monotonic() > end:
                out.write(json.dumps({"kind": "stopped", "why": f"{asked.budget} s are over"}) + "\n")
                break


def rows(*, tiny: bool) -> Iterator[dict[str, Any]]:
    """The machine, the sampler's sort, then each model."""
    yield from contexts()
    yield from sorts(tiny=tiny)
    for name, made in MODELS.items():
        for dtype in made.dtypes:
            settings = {**made.settings, **{k: v for k, v in SHRUNK.items() if tiny and k in made.settings}}
            yield from of_model(name, made.kind, settings, dtype, tiny=tiny)
    yield from loads(tiny=tiny)


def of_model(name: str, kind: str, settings: dict[str, Any], dtype: str, *, tiny: bool) -> Iterator[dict[str, Any]]:
    """The weights of one model, then its runs."""
    config = getattr(transformers, kind)(**settings, use_cache=True)
    before = allocated()
    model = build(config, dtype)
    about = {"model": name, "config": kind, "settings": settings, "dtype": dtype}
    counted = sum(p.numel() * p.element_size() for p in model.parameters())
    yield {
        "kind": "weights",
        **about,
        "parameter_bytes": counted,
        "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers()),
        "allocated_bytes": allocated() - before,
        "reserved_bytes": reserved(),
    }
    for ask in asks(name, dtype, tiny=tiny):
        yield {"kind": "run", **about, **ask._asdict(), **attempt(model, config, ask)}
    for batch, prompt in ((1, 1024), (4, 1024)):
        yield {
            "kind": "all_logits",
            **about,
            "batch": batch,
            "prompt": prompt,
            **attempt_all_logits(model, batch, prompt),
        }
    del model
    clean()


def asks(name: str, dtype: str, *, tiny: bool) -> Iterator[Ask]:
    """What is run on a model: prompts up to what its attention can take, both caches."""
    lengths = (24, 48) if tiny else (512, 2048, 8192)
    for prompt, batch, cache in itertools.product(lengths, (1, 4), ("dynamic", "static")):
        yield Ask("sdpa", cache, batch, prompt)
    for prompt, batch in itertools.product(lengths[:2], (1, 4)):
        yield Ask("eager", "dynamic", batch, prompt)
    if dtype == "bf16":
        yield Ask("sdpa", "dynamic", 4, lengths[1], padded=True)
        yield Ask("eager", "static", 1, lengths[1])
        yield Ask("sdpa", "dynamic", 32, lengths[0])
        yield Ask("sdpa", "static", 32, lengths[0])
        yield Ask("sdpa", "dynamic", 64, 16 if tiny else 128)
    if dtype == "bf16" and name in {"llama-1b", "llama-8b"}:
        yield Ask("sdpa", "dynamic", 1, 96 if tiny else 32768)


def build(config: Any, dtype: str) -> Any:
    """The model with random weights, on the device from the start."""
    with torch.device(DEVICE):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=DTYPES[dtype])
    model.eval()
    clean()
    return model


def attempt(model: Any, config: Any, ask: Ask) -> dict[str, Any]:
    """What a run took, or the error it met."""
    model.set_attn_implementation(ask.attention)
    try:
        with torch.inference_mode():
            steps = stepwise(model, config, ask)
        return {**steps, **generated(model, ask)}
    except torch.OutOfMemoryError as error:
        return {"error": str(error)[:200]}
    finally:
        clean()


def stepwise(model: Any, config: Any, ask: Ask) -> dict[str, Any]:
    """Prefill and decoding apart: the peak of each above what was there before, and the cache after each."""
    ids, mask = tokens(model, ask)
    cache = new_cache(config, ask)
    clean()
    before = restart()
    out = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1)
    prefill = peaks("prefill", before)
    token = out.logits[:, -1:].argmax(-1)
    del out
    prefill["cache_after_prefill_bytes"] = held(cache)
    restart()
    for _ in range(NEW_TOKENS - 1):
        mask = torch.cat((mask, mask.new_ones((ask.batch, 1))), dim=-1)
        out = model(input_ids=token, attention_mask=mask, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        del out
    return {**prefill, **peaks("decode", before), "cache_bytes": held(cache), "new_tokens": NEW_TOKENS}


def generated(model: Any, ask: Ask) -> dict[str, Any]:
    """The peak of `generate`, as people call it."""
    ids, mask = tokens(model, ask)
    clean()
    before = restart()
    model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False,
        pad_token_id=0, disable_compile=True, cache_implementation=None if ask.cache == "dynamic" else "static",
    )  # fmt: skip
    return peaks("generate", before)


def attempt_all_logits(model: Any, batch: int, prompt: int) -> dict[str, Any]:
    """The peak of a forward pass that keeps the logits of every position, as a bare call of the model does."""
    model.set_attn_implementation("sdpa")
    ids, _ = tokens(model, Ask("sdpa", "dynamic", batch, prompt))
    clean()
    before = restart()
    with torch.inference_mode():
        out = model(input_ids=ids, use_cache=True)
    taken = {**peaks("forward", before), "logits_dtype": str(out.logits.dtype)}
    del out
    clean()
    return taken


def tokens(model: Any, ask: Ask) -> tuple[torch.Tensor, torch.Tensor]:
    """A prompt and its mask; padded on the left by a quarter in the first row where that is asked."""
    ids = torch.randint(1, model.config.vocab_size, (ask.batch, ask.prompt), device=DEVICE)
    mask = torch.ones_like(ids)
    if ask.padded:
        mask[0, : ask.prompt // 4] = 0
    return ids, mask


def new_cache(config: Any, ask: Ask) -> Any:
    """An empty cache; the static one holds what will be generated."""
    if ask.cache == "dynamic":
        return transformers.DynamicCache(config=config)
    return transformers.StaticCache(config=config, max_cache_len=ask.prompt + NEW_TOKENS)


def held(cache: Any) -> int:
    """The storage that a cache holds: slices keep all of what they were cut from."""
    storages = {}
    for layer in cache.layers:
        for tensor in (layer.keys, layer.values):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def contexts() -> Iterator[dict[str, Any]]:
    """What the driver and the libraries take beside PyTorch's own memory."""
    about = {"torch": torch.__version__, "transformers": transformers.__version__, "device": "cpu"}
    if not CUDA:
        yield {"kind": "context", **about}
        return
    torch.zeros(1, device=DEVICE)
    about |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    yield {"kind": "context", "after": "a tensor", **about, **driver()}
    side = torch.ones((4096, 4096), device=DEVICE, dtype=torch.bfloat16)
    before = allocated()
    product = side @ side
    torch.cuda.synchronize()
    library = allocated() - before - product.numel() * product.element_size()
    yield {"kind": "context", "after": "a matrix product", **about, **driver(), "library_workspace_bytes": library}
    heads = torch.ones((1, 32, 1024, 128), device=DEVICE, dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    yield {"kind": "context", "after": "attention", **about, **driver()}
    del side, product, heads
    clean()


def driver() -> dict[str, int | str]:
    """Free and total memory as the driver tells this process, and as nvidia-smi tells of it."""
    free, total = torch.cuda.mem_get_info()
    told: dict[str, int | str] = {
        "free_bytes": free,
        "total_bytes": total,
        "reserved_bytes": reserved(),
        "beside_torch_bytes": total - free - reserved(),
    }
    for field, query in (
        ("smi_processes", "--query-compute-apps=pid,used_memory"),
        ("smi_total", "--query-gpu=memory.total,memory.used,memory.reserved"),
    ):
        with contextlib.suppress(OSError):
            told[field] = subprocess.run(
                ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False
            ).stdout.strip()
    return told


def sorts(*, tiny: bool) -> Iterator[dict[str, Any]]:
    """The peak of sampling from the logits of many requests, as servers warm up: with a sort, and without."""
    sizes = ((8, 512),) if tiny else ((256, 128256), (1024, 128256), (256, 201088), (1024, 151936), (64, 262208))
    ways: dict[str, Callable[[torch.Tensor], None]] = {"sort": sample_sorted, "no_sort": sample_plain}
    for (requests, vocabulary), (name, way) in itertools.product(sizes, ways.items()):
        clean()
        before = restart()
        logits = torch.randn((requests, vocabulary), device=DEVICE, dtype=torch.bfloat16)
        way(logits)
        del logits
        yield {
            "kind": "sampler",
            "way": name,
            "requests": requests,
            "vocabulary": vocabulary,
            **peaks("sampler", before),
        }
    clean()


def sample_sorted(raw: torch.Tensor) -> None:
    """Top-k and top-p by a sort of the whole vocabulary, then an exponential race: what servers did for long."""
    logits = raw.to(torch.float32)
    ordered, places = logits.sort(dim=-1, descending=False)
    cut = ordered < ordered[:, :1]
    ordered.masked_fill_(cut, -float("inf"))
    chances = ordered.softmax(dim=-1)
    total = torch.cumsum(chances, dim=-1, out=chances)
    low = total <= 0.1
    low[:, -1] = False
    ordered.masked_fill_(low, -float("inf"))
    logits = logits.scatter_(dim=-1, index=places, src=ordered)
    race(logits)


def sample_plain(raw: torch.Tensor) -> None:
    """The exponential race alone."""
    race(raw.to(torch.float32))


def race(logits: torch.Tensor) -> None:
    """One sample for each row."""
    chances = logits.softmax(dim=-1, dtype=torch.float32)
    times = torch.empty_like(chances)
    times.exponential_()
    chances.div_(times).argmax(dim=-1)


def loads(*, tiny: bool) -> Iterator[dict[str, Any]]:
    """What loading from a file peaks at, onto one device and with a map that leaves some on the host."""
    settings = {**LLAMA_1B, **{k: v for k, v in SHRUNK.items() if tiny and k in LLAMA_1B}}
    config = transformers.LlamaConfig(**settings)
    with tempfile.TemporaryDirectory() as folder:
        build(config, "bf16").save_pretrained(folder)
        clean()
        total = sum(f.stat().st_size for f in Path(folder).glob("*.safetensors"))
        share = {0: total // 2, "cpu": 64 * 2**30}
        ways: dict[str, dict[str, Any]] = {
            "whole": {"device_map": DEVICE},
            "half": {"device_map": "auto", "max_memory": share},
        }
        for name, how in ways.items():
            if name == "half" and not CUDA:
                continue
            before = restart()
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **how)
            row = {"kind": "load", "map": name, "file_bytes": total, "settings": settings, **peaks("load", before)}
            row |= {"allocated_bytes": allocated() - before, "reserved_bytes": reserved()}
            row["placed"] = {k: str(v) for k, v in getattr(model, "hf_device_map", {}).items()}
            yield row
            del model
            clean()


def clean() -> None:
    """Give back all that is not in use."""
    gc.collect()
    if CUDA:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def restart() -> int:
    """Begin a new peak; what is in use now."""
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    return allocated()


def peaks(name: str, before: int) -> dict[str, int]:
    """The peaks since `restart`, above what was in use then, and what the allocator reserved in all."""
    if not CUDA:
        return {f"{name}_peak_bytes": 0, f"{name}_reserved_bytes": 0}
    torch.cuda.synchronize()
    return {
        f"{name}_peak_bytes": torch.cuda.max_memory_allocated() - before,
        f"{name}_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def allocated() -> int:
    """What tensors take now."""
    return torch.cuda.memory_allocated() if CUDA else 0


def reserved() -> int:
    """What the allocator has from the driver now."""
    return torch.cuda.memory_reserved() if CUDA else 0


if __name__ == "__main__":
    main()
