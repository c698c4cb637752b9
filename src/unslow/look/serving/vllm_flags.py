"""How vLLM is told things: its flags, old and new, their variables, and the facts that they are.

As in vllm/engine/arg_utils.py and vllm/envs.py; spellings that a later version took away stay here for older ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Known, first_known, reported
from unslow.look.command_line import Setting
from unslow.look.serving.arguments import Flag, Flags, switch
from unslow.look.serving.given import Given

PROGRAM = "vLLM"


FLAGS = Flags(
    {
        # where and what
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "socket": Flag(("--uds",)),
        "root_path": Flag(("--root-path",)),
        "certificate": Flag(("--ssl-certfile",)),
        "api_key": Flag(("--api-key",), ("VLLM_API_KEY",), secret=True, several=True),
        "hub_token": Flag(("--hf-token",), secret=True),
        "model": Flag(("--model", "--model-tag")),
        "served_name": Flag(("--served-model-name",)),
        "download_folder": Flag(("--download-dir",)),
        "revision": Flag(("--revision",)),
        # memory
        "memory_fraction": Flag(("--gpu-memory-utilization",)),
        "kv_bytes": Flag(("--kv-cache-memory-bytes", "--kv-cache-memory")),
        "kv_blocks": Flag(("--num-gpu-blocks-override",)),
        "kv_type": Flag(("--kv-cache-dtype",)),
        "cpu_offload": Flag(("--cpu-offload-gb",)),
        "swap_space": Flag(("--swap-space",)),
        "block_size": Flag(("--block-size",)),
        "context": Flag(("--max-model-len",)),
        "cpu_kv": Flag((), ("VLLM_CPU_KVCACHE_SPACE",)),
        "binding": Flag((), ("VLLM_CPU_OMP_THREADS_BIND",)),
        "threads": Flag((), ("OMP_NUM_THREADS",)),
        # work
        "sequences": Flag(("--max-num-seqs",)),
        "batched_tokens": Flag(("--max-num-batched-tokens",)),
        "chunked": switch("--enable-chunked-prefill"),
        "prefix_cache": switch("--enable-prefix-caching"),
        "eager": switch("--enforce-eager"),
        "optimisation": Flag(("-O", "--optimization-level")),
        "unoptimised": switch("-O0"),
        "attention": Flag(("--attention-backend",), ("VLLM_ATTENTION_BACKEND",)),
        "attention_config": Flag(("--attention-config.backend", "-ac.backend")),
        "moe_backend": Flag(("--moe-backend",)),
        "tensor_parallel": Flag(("--tensor-parallel-size", "-tp")),
        "pipeline_parallel": Flag(("--pipeline-parallel-size", "-pp")),
        "data_parallel": Flag(("--data-parallel-size", "-dp")),
        "expert_parallel": switch("--enable-expert-parallel", "-ep"),
        "device": Flag(("--device",)),
        # weights
        "quantization": Flag(("--quantization", "-q")),
        "dtype": Flag(("--dtype",)),
        "load_format": Flag(("--load-format",)),
        # drafting
        "speculative": Flag(("--speculative-config", "-sc")),
        "draft_model": Flag(("--speculative-model",)),
        "draft_tokens": Flag(("--num-speculative-tokens",)),
        # what it writes
        "no_statistics": switch("--disable-log-stats"),
    }
)

SHARED = frozenset({
    "--host", "--port", "--uds", "--root-path", "--ssl-certfile", "--api-key", "--hf-token", "--model", "--revision",
    "--device", "--dtype", "--load-format", "--block-size", "--quantization", "--kv-cache-dtype", "--cpu-offload-gb",
    "--attention-backend", "--download-dir", "--served-model-name", "--moe-backend", "--swap-space",
    "-O", "-tp", "-pp", "-dp", "-ep", "-q", "-sc",
})  # fmt: skip
"""Flags that other programs have too."""


def told(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = Given(PROGRAM, FLAGS, settings, complete)
    kv_type, length = given.text("kv_type"), given.number("context")
    facts: dict[str, Any] = {
        "context_set": length,
        "context_length": length if isinstance(length, Known) else given.missing("context"),
        "kv_type_k": kv_type,
        "kv_type_v": kv_type,
        "gpu_memory_fraction": given.share("memory_fraction"),
        "cpu_offload_bytes": given.gibibytes("cpu_offload", default=0),
        "max_sequences": given.number("sequences"),
        "max_batched_tokens": given.number("batched_tokens"),
        "prompt_cache": given.truth("prefix_cache"),
        "eager": _eager(given),
        "attention": first_known(given.text("attention"), given.text("attention_config")),
        "tensor_parallel": given.number("tensor_parallel", default=1),
        "pipeline_parallel": given.number("pipeline_parallel", default=1),
        "device_set": given.text("device"),
        "quantization": given.text("quantization"),
        "weights_type": given.text("dtype"),
        **({"kv_blocks_set": given.number("kv_blocks")} if "kv_blocks" in settings else {}),
        **_drafting(given),
        **_threads(given),
    }
    return Runtime(**facts)


def _eager(given: Given) -> Fact[bool]:
    """Without graphs by its own switch, or by the lowest level of optimisation."""
    level = given.settings.get("optimisation")
    if level and level.value == "0":
        return reported(value=True, source=level.source)
    lowest = given.truth("unoptimised")
    return lowest if isinstance(lowest, Known) else given.truth("eager", default=False)


def _threads(given: Given) -> dict[str, Fact[Any]]:
    """On a CPU: while it binds threads to cores, their number is its own, and its log tells it."""
    binding = given.settings.get("binding")
    unbound = binding is not None and binding.value == "nobind" and "threads" in given.settings
    return {"threads": given.number("threads")} if unbound else {}


def _drafting(given: Given) -> dict[str, Fact[Any]]:
    way: Fact[Any] = first_known(given.text("draft_model"), given.within("speculative", "method", "model"))
    tokens: Fact[Any] = given.within("speculative", "num_speculative_tokens")
    known = isinstance(tokens, Known) and type(tokens.value) is int and 0 < tokens.value < 1000  # noqa: PLR2004
    return {
        "speculative": reported(str(way.value), way.source) if isinstance(way, Known) else way,
        "draft_tokens": tokens if known else given.number("draft_tokens"),
    }


def model_of(command: Sequence[str], settings: Mapping[str, Setting]) -> str:
    """The model as it was written: a folder, or a name in a hub; empty where there is none."""
    if "model" in settings:
        return settings["model"].value
    words = list(command)
    start = words.index("serve") if "serve" in words[:6] else -1
    return next(FLAGS.positional(words[start:]), "") if start >= 0 else ""
