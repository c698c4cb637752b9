"""How SGLang is told things: its flags and the facts that they are, as in sglang/srt/server_args.py."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.look.command_line import Setting
from unslow.look.serving.arguments import Flag, Flags, switch
from unslow.look.serving.given import Given

PROGRAM = "SGLang"


FLAGS = Flags(
    {
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "certificate": Flag(("--ssl-certfile",)),
        "api_key": Flag(("--api-key",), secret=True, several=True),
        "admin_key": Flag(("--admin-api-key",), secret=True, several=True),
        "model": Flag(("--model-path", "--model")),
        "served_name": Flag(("--served-model-name",)),
        "download_folder": Flag(("--download-dir",)),
        "memory_fraction": Flag(("--mem-fraction-static",)),
        "kv_type": Flag(("--kv-cache-dtype",)),
        "cpu_offload": Flag(("--cpu-offload-gb",)),
        "context": Flag(("--context-length",)),
        "sequences": Flag(("--max-running-requests",)),
        "batched_tokens": Flag(("--chunked-prefill-size",)),
        "no_prefix_cache": switch("--disable-radix-cache"),
        "no_graphs": switch("--disable-cuda-graph"),
        "compile": switch("--enable-torch-compile"),
        "attention": Flag(("--attention-backend",)),
        "moe_backend": Flag(("--moe-runner-backend",)),
        "tensor_parallel": Flag(("--tp-size", "--tp", "--tensor-parallel-size")),
        "pipeline_parallel": Flag(("--pp-size", "--pp", "--pipeline-parallel-size")),
        "data_parallel": Flag(("--dp-size", "--dp", "--data-parallel-size")),
        "device": Flag(("--device",)),
        "quantization": Flag(("--quantization",)),
        "dtype": Flag(("--dtype",)),
        "speculative": Flag(("--speculative-algorithm", "--speculative-algo")),
        "draft_model": Flag(("--speculative-draft-model-path", "--speculative-draft")),
        "draft_tokens": Flag(("--speculative-num-draft-tokens",)),
        "metrics": switch("--enable-metrics"),
    }
)

SHARED = frozenset({
    "--host", "--port", "--ssl-certfile", "--api-key", "--model-path", "--model", "--served-model-name", "--device",
    "--download-dir", "--dtype", "--quantization", "--kv-cache-dtype", "--cpu-offload-gb", "--attention-backend",
    "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--tp", "--pp", "--dp",
    "--context-length", "--enable-metrics",
})  # fmt: skip
"""Flags that other programs have too."""


def told(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the whole command line was seen, so that absence is a fact."""
    given = Given(PROGRAM, FLAGS, settings, complete)
    kv_type = given.text("kv_type")
    facts: dict[str, Any] = {
        "context_set": given.number("context"),
        "context_length": given.number("context"),
        "kv_type_k": kv_type,
        "kv_type_v": kv_type,
        "gpu_memory_fraction": given.share("memory_fraction"),
        "cpu_offload_bytes": given.gibibytes("cpu_offload", default=0),
        "max_sequences": given.number("sequences"),
        "max_batched_tokens": given.number("batched_tokens"),
        "prompt_cache": given.untruth("no_prefix_cache", default=True),
        "eager": given.truth("no_graphs", default=False),
        "attention": given.text("attention"),
        "tensor_parallel": given.number("tensor_parallel", default=1),
        "pipeline_parallel": given.number("pipeline_parallel", default=1),
        "device_set": given.text("device"),
        "quantization": given.text("quantization"),
        "weights_type": given.text("dtype"),
        "speculative": given.text("speculative"),
        "draft_tokens": given.number("draft_tokens"),
        "metrics_endpoint": given.truth("metrics", default=False),
    }
    return Runtime(**facts)
