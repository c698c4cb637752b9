"""The ways to start a server that are tried."""

from typing import Any, NamedTuple

from unslow.facts.values import MIB


class Line(NamedTuple):
    """A way to start a server; `{model}` and `{folder}` are put in."""

    name: str
    flags: str
    environment: dict[str, str] = {}  # noqa: RUF012 (a default that nobody changes)
    settings: dict[str, Any] = {}  # noqa: RUF012
    """What the line means where the log does not tell it."""


LINES = (
    Line("plain", "-m {model}", settings={"kv_offload": True, "split_mode": "layer"}),
    Line("verbose", "-m {model} -lv 4", settings={"log_level": 4}),
    Line("two_slots", "-m {model} -c 4096 -np 2 -lv 4", settings={"context_set": 4096}),
    Line("shared_cache", "-m {model} -np 3 -kvu -c 3072 --metrics", settings={"metrics_endpoint": True}),
    Line("small_types", "-m {model} -c 2048 -ctk q8_0 -ctv q8_0 -fa on -b 256 -ub 128 -lv 4"),
    Line("no_flash", "-m {model} -c 2048 -fa off -ctk f32 -t 1 -tb 2 --top-k 10", settings={"top_k": 10}),
    Line(
        "environment",
        "-m {model} -t 2",
        {
            "LLAMA_ARG_CTX_SIZE": "2048",
            "LLAMA_ARG_N_PARALLEL": "1",
            "LLAMA_ARG_THREADS": "1",
            "LLAMA_ARG_FLASH_ATTN": "off",
            "LLAMA_ARG_UBATCH": "64",
            "LLAMA_ARG_NO_KV_OFFLOAD": "1",
        },
        {"kv_offload": False, "context_set": 2048},
    ),
    Line(
        "switches",
        "-m {model} -c 1024 -lm none --no-repack --no-op-offload -nkvo -cram 0 --no-cache-prompt -lv 4",
        settings={"repack": False, "op_offload": False, "kv_offload": False, "prompt_cache": False},
    ),
    Line(
        "locked",
        "-m {model} -c 1024 --api-key-file {folder}/keys --api-prefix /llm --host 0.0.0.0 --swa-full --cache-reuse 64"
        " --poll 0 -fit off -ngl 5 -dev none -sm none -ts 3,1 -mg 0 -fitt 512",
        settings={
            "swa_full": True,
            "cache_reuse": 64,
            "polling": 0,
            "fit": False,
            "gpu_layers_set": 5,
            "device_set": "none",
            "tensor_split": [3.0, 1.0],
            "fit_margin_bytes": 512 * MIB,
        },
    ),
    Line(
        "drafting",
        "-m {model} -c 1024 -md {model} --spec-type draft-simple --spec-draft-n-max 4 -lv 4",
        settings={"speculative": "draft-simple", "draft_tokens": 4},
    ),
    Line("router", "--models-dir {folder}/models -c 1024 -np 2 -t 1 -fa off", settings={"context_set": 1024}),
    Line("router_verbose", "--models-dir {folder}/models -c 2048 -ctk q8_0 -lv 4", settings={"context_set": 2048}),
)
