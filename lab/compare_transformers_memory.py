"""Compare what `unslow` computes for Transformers with what was measured and recorded.

    python lab/compare_transformers_memory.py            a row for each run, then the errors together

Reads `data/transformers_memory_h200.jsonl` (measure_transformers_memory.py, on one NVIDIA H200) and
`data/transformers_layouts.jsonl` (record_transformers_layouts.py, without a GPU).
"""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unslow.catalog.weight_parts import parts_of_shape, plain_storage, total_bytes
from unslow.facts.model import HfShape, LayerKind
from unslow.facts.values import MIB
from unslow.think.memory.transformers import (
    TransformersSettings,
    balanced_limits,
    cache_bytes,
    modules_of,
    place_modules,
    prompt_peak,
    token_peak,
)

DATA = Path(__file__).parent / "data"
KINDS = {
    "sliding_attention": LayerKind.WINDOW,
    "full_attention": LayerKind.FULL,
    "linear_attention": LayerKind.RECURRENT,
}
DTYPE_BYTES = {"bf16": 2, "fp32": 4}


class Compared(NamedTuple):
    """One figure: what, computed, measured."""

    what: str
    name: str
    computed: int
    measured: int

    @property
    def error(self) -> float:
        """How far off, as a share."""
        return self.computed / self.measured - 1


def main() -> None:
    """Print every comparison, and the errors by kind."""
    found = [*measured(), *recorded_caches()]
    for row in found:
        print(f"{row.what:8} {row.computed / MIB:10.1f} {row.measured / MIB:10.1f} MiB {row.error:+7.2%}  {row.name}")
    for what in dict.fromkeys(row.what for row in found):
        errors = [abs(row.error) for row in found if row.what == what]
        print(f"{what:8} {len(errors)} rows, median {statistics.median(errors):.2%}, largest {max(errors):.2%}")
    maps = list(recorded_maps())
    print(f"maps     {sum(same for _, same in maps)} of {len(maps)} as recorded")
    for name, same in maps:
        if not same:
            print(f"         differs: {name}")


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of a file."""
    return [json.loads(line) for line in (DATA / file).read_text().splitlines()]


def measured() -> Iterator[Compared]:
    """Weights, caches and peaks on the GPU."""
    weights = 0
    for row in rows("transformers_memory_h200.jsonl"):
        if row["kind"] == "weights":
            shape = shape_of(row["config"], row["settings"])
            weights = total_bytes(parts_of_shape(shape, plain_storage(DTYPE_BYTES[row["dtype"]])))
            yield Compared("weights", f"{row['model']} {row['dtype']}", weights, row["allocated_bytes"])
        if row["kind"] == "run" and "error" not in row:
            yield from of_run(row, weights)
        if row["kind"] == "all_logits":
            shape, settings = shape_of(row["config"], row["settings"]), settings_of(row)._replace(all_logits=True)
            kept = cache_bytes(shape, settings, range(shape.layers), after_prompt=True)
            peak = kept + prompt_peak(shape, settings)
            yield Compared(
                "logits", f"{row['model']} {row['dtype']} batch {row['batch']}", peak, row["forward_peak_bytes"]
            )


def of_run(row: dict[str, Any], weights: int) -> Iterator[Compared]:
    """The cache, the peaks, and everything together."""
    shape, settings = shape_of(row["config"], row["settings"]), settings_of(row)
    layers = range(shape.layers)
    name = " ".join(str(row[k]) for k in ("model", "dtype", "attention", "cache", "batch", "prompt"))
    name += " padded" if row["padded"] else ""
    yield Compared("cache", name, cache_bytes(shape, settings, layers), row["cache_bytes"])
    prompt = cache_bytes(shape, settings, layers, after_prompt=True) + prompt_peak(shape, settings)
    yield Compared("prompt", name, prompt, row["prefill_peak_bytes"])
    if row["cache"] == "dynamic":
        # A static cache stays with the model from call to call, as long as the longest call: such rows are not alone.
        peak = max(prompt, cache_bytes(shape, settings, layers) + token_peak(shape, settings))
        yield Compared("generate", name, peak, row["generate_peak_bytes"])
        yield Compared("total", name, weights + peak, weights + row["generate_peak_bytes"])


def recorded_caches() -> Iterator[Compared]:
    """Caches of tiny models of many architectures, layer by layer."""
    for row in rows("transformers_layouts.jsonl"):
        if row["kind"] != "cache" or "error" in row:
            continue
        shape, settings = shape_of(row["config"], row["settings"]), settings_of({**row, "dtype": "fp32"})
        name = f"{row['config']} {row['cache']} batch {row['batch']}"
        after = cache_bytes(shape, settings, range(shape.layers), after_prompt=True)
        yield Compared("layouts", name, after, sum(row["after_prefill_bytes"]))
        yield Compared("layouts", name, cache_bytes(shape, settings, range(shape.layers)), sum(row["bytes"]))


def recorded_maps() -> Iterator[tuple[str, bool]]:
    """Device maps of Transformers itself, and whether the same ones are computed."""
    for row in rows("transformers_layouts.jsonl"):
        if row["kind"] != "map":
            continue
        shape = shape_of("LlamaConfig", {**row["settings"], "tie_word_embeddings": row["tied"]})
        modules = modules_of(shape, parts_of_shape(shape, plain_storage(row["dtype_bytes"])))
        places = place_modules(modules, balanced_limits(row["how"], modules, row["cards"]), row["host"])
        names = ["model.embed_tokens", *(f"model.layers.{n}" for n in range(shape.layers)), "model.norm", "lm_head"]
        devices = [*(str(n) for n in range(len(row["cards"]))), "cpu", "disk"]
        expected = [lookup(row["placed"], name) for name in names[: len(modules)]]
        yield f"{row['how']} {row['cards']} tied {row['tied']}", [devices[place] for place in places] == expected


def lookup(placed_at: dict[str, str], name: str) -> str:
    """The device of a module, which a map may state for what it lies in."""
    return next(placed_at[key] for key in (name, name.rpartition(".")[0], "model", "") if key in placed_at)


def shape_of(config: str, settings: dict[str, Any]) -> HfShape:
    """The shape that a made-up configuration stands for."""
    kinds = settings.get("layer_types") or (
        ["sliding_attention"] * settings["num_hidden_layers"] if config == "MistralConfig" else []
    )
    experts = config in {"Qwen3MoeConfig", "GptOssConfig", "DeepseekV3Config", "Qwen3NextConfig"}
    latent = config == "DeepseekV3Config"
    return HfShape(
        layers=settings["num_hidden_layers"],
        width=settings["hidden_size"],
        vocabulary=settings["vocab_size"],
        heads=settings["num_attention_heads"],
        kv_heads=settings["num_key_value_heads"],
        key_length=settings["qk_nope_head_dim"] + settings["qk_rope_head_dim"] if latent else settings["head_dim"],
        value_length=settings["v_head_dim"] if latent else settings["head_dim"],
        feed_forward=settings["intermediate_size"],
        tied=bool(settings.get("tie_word_embeddings")),
        kinds=tuple(KINDS[kind] for kind in kinds),
        window=settings.get("sliding_window") or 0,
        experts=settings["num_experts"] if experts else 0,
        experts_used=settings["num_experts_per_tok"] if experts else 0,
        expert_width=settings["moe_intermediate_size"] if experts else 0,
        kv_rank=settings["kv_lora_rank"] if latent else 0,
        rope_length=settings["qk_rope_head_dim"] if latent else 0,
        head_norms=config in {"Gemma3TextConfig", "Qwen3MoeConfig"},
        norms=4 if config == "Gemma3TextConfig" else 2,
        state=values(settings) * settings.get("linear_key_head_dim", 0),
        convolution=2 * settings.get("linear_num_key_heads", 0) * settings.get("linear_key_head_dim", 0)
        + values(settings),
    )


def values(settings: dict[str, Any]) -> int:
    """The values of all heads of a gated delta net, where there is one."""
    return int(settings.get("linear_num_value_heads", 0) * settings.get("linear_value_head_dim", 0))


def settings_of(row: dict[str, Any]) -> TransformersSettings:
    """What was asked for."""
    return TransformersSettings(
        prompt_tokens=row["prompt"],
        new_tokens=row.get("new_tokens", 1),
        batch=row["batch"],
        cache=row.get("cache", "dynamic"),
        attention=row.get("attention", "sdpa"),
        padded=bool(row.get("padded")),
        dtype_bytes=DTYPE_BYTES[row["dtype"]],
    )


if __name__ == "__main__":
    main()
