"""How llama-server and what embeds it are told things: flags, variables, and a command line as settings.

As in common/arg.cpp of llama.cpp; spellings that a later version took away stay here for the older builds that run.
"""

from collections.abc import Mapping, Sequence

from unslow.look.command_line import COMMAND, ENVIRONMENT, Flag, Flags, Setting, switch

ON = ("on", "enabled", "true", "1")
OFF = ("off", "disabled", "false", "0")

_FLAGS = {
    # the model
    "model": Flag(("-m", "--model"), ("LLAMA_ARG_MODEL",)),
    "repository": Flag(("-hf", "-hfr", "--hf-repo"), ("LLAMA_ARG_HF_REPO",)),
    "repository_file": Flag(("-hff", "--hf-file"), ("LLAMA_ARG_HF_FILE",)),
    "model_url": Flag(("-mu", "--model-url"), ("LLAMA_ARG_MODEL_URL",)),
    "alias": Flag(("-a", "--alias"), ("LLAMA_ARG_ALIAS",)),
    # where it goes
    "gpu_layers": Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), ("LLAMA_ARG_N_GPU_LAYERS",)),
    "fit": Flag(("-fit", "--fit"), ("LLAMA_ARG_FIT",)),
    "fit_margin": Flag(("-fitt", "--fit-target"), ("LLAMA_ARG_FIT_TARGET",)),
    "fit_context": Flag(("-fitc", "--fit-ctx"), ("LLAMA_ARG_FIT_CTX",)),
    "override": Flag(("-ot", "--override-tensor"), ("LLAMA_ARG_OVERRIDE_TENSOR",)),
    "n_cpu_moe": Flag(("-ncmoe", "--n-cpu-moe"), ("LLAMA_ARG_N_CPU_MOE",)),
    "n_cpu_ffn": Flag(("-ncffn", "--n-cpu-ffn"), ("LLAMA_ARG_N_CPU_FFN",)),
    "cpu_moe": switch("-cmoe", "--cpu-moe", variable="LLAMA_ARG_CPU_MOE"),
    "device": Flag(("-dev", "--device"), ("LLAMA_ARG_DEVICE",)),
    "main_gpu": Flag(("-mg", "--main-gpu"), ("LLAMA_ARG_MAIN_GPU",)),
    "split_mode": Flag(("-sm", "--split-mode"), ("LLAMA_ARG_SPLIT_MODE",)),
    "tensor_split": Flag(("-ts", "--tensor-split"), ("LLAMA_ARG_TENSOR_SPLIT",)),
    "kv_offload": switch("-kvo", "--kv-offload", variable="LLAMA_ARG_KV_OFFLOAD", off=("-nkvo", "--no-kv-offload")),
    "op_offload": switch("--op-offload", off=("--no-op-offload",)),
    "repack": switch("--repack", variable="LLAMA_ARG_REPACK", off=("-nr", "--no-repack")),
    # how it is read
    "load_mode": Flag(("-lm", "--load-mode"), ("LLAMA_ARG_LOAD_MODE",)),
    "mlock": switch("--mlock", variable="LLAMA_ARG_MLOCK"),
    "mmap": switch("--mmap", variable="LLAMA_ARG_MMAP", off=("--no-mmap",)),
    "direct_io": switch("-dio", "--direct-io", variable="LLAMA_ARG_DIO", off=("-ndio", "--no-direct-io")),
    # context, cache, slots
    "context": Flag(("-c", "--ctx-size"), ("LLAMA_ARG_CTX_SIZE",)),
    "kv_type_k": Flag(("-ctk", "--cache-type-k"), ("LLAMA_ARG_CACHE_TYPE_K",)),
    "kv_type_v": Flag(("-ctv", "--cache-type-v"), ("LLAMA_ARG_CACHE_TYPE_V",)),
    # before b6325 the flag stood alone
    "flash_attention": Flag(
        ("-fa", "--flash-attn"),
        ("LLAMA_ARG_FLASH_ATTN",),
        least=0,
        further="|".join((*ON, *OFF, "auto", "-1")),
        alone="on",
    ),
    "slots": Flag(("-np", "--parallel"), ("LLAMA_ARG_N_PARALLEL",)),
    "kv_unified": switch("-kvu", "--kv-unified", variable="LLAMA_ARG_KV_UNIFIED", off=("-no-kvu", "--no-kv-unified")),
    "sleep_idle": Flag(("--sleep-idle-seconds",)),
    "swa_full": switch("--swa-full", variable="LLAMA_ARG_SWA_FULL"),
    "prompt_cache": switch("--cache-prompt", variable="LLAMA_ARG_CACHE_PROMPT", off=("--no-cache-prompt",)),
    "cache_reuse": Flag(("--cache-reuse",), ("LLAMA_ARG_CACHE_REUSE",)),
    "cache_ram": Flag(("-cram", "--cache-ram"), ("LLAMA_ARG_CACHE_RAM",)),
    # speed of the work itself
    "batch": Flag(("-b", "--batch-size"), ("LLAMA_ARG_BATCH",)),
    "ubatch": Flag(("-ub", "--ubatch-size"), ("LLAMA_ARG_UBATCH",)),
    "threads": Flag(("-t", "--threads"), ("LLAMA_ARG_THREADS",)),
    "threads_batch": Flag(("-tb", "--threads-batch")),
    "numa": Flag(("--numa",), ("LLAMA_ARG_NUMA",)),
    "cpu_range": Flag(("-Cr", "--cpu-range")),
    "cpu_mask": Flag(("-C", "--cpu-mask")),
    "priority": Flag(("--prio",)),
    "polling": Flag(("--poll",)),
    # drafting
    "draft_model": Flag(
        ("-md", "--model-draft", "--spec-draft-model"), ("LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_MODEL_DRAFT")
    ),
    "draft_repository": Flag(
        ("-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf"), ("LLAMA_ARG_SPEC_DRAFT_HF_REPO", "LLAMA_ARG_HFD_REPO")
    ),
    "draft_type": Flag(("--spec-type",), ("LLAMA_ARG_SPEC_TYPE",)),
    "draft_tokens": Flag(
        ("--spec-draft-n-max", "--draft", "--draft-n", "--draft-max"),
        ("LLAMA_ARG_SPEC_DRAFT_N_MAX", "LLAMA_ARG_DRAFT_MAX"),
    ),
    # sampling
    "top_k": Flag(("--top-k",), ("LLAMA_ARG_TOP_K",)),
    "grammar": Flag(("--grammar", "--grammar-file")),
    "schema": Flag(("-j", "--json-schema", "-jf", "--json-schema-file")),
    # what it tells, and where
    "log_file": Flag(("--log-file",), ("LLAMA_ARG_LOG_FILE", "LLAMA_LOG_FILE")),
    "log_level": Flag(("-lv", "--verbosity", "--log-verbosity"), ("LLAMA_ARG_LOG_VERBOSITY", "LLAMA_LOG_VERBOSITY")),
    "metrics": switch("--metrics", variable="LLAMA_ARG_ENDPOINT_METRICS"),
    "slots_endpoint": switch("--slots", variable="LLAMA_ARG_ENDPOINT_SLOTS", off=("--no-slots",)),
    "host": Flag(("--host",), ("LLAMA_ARG_HOST",)),
    "port": Flag(("--port",), ("LLAMA_ARG_PORT",)),
    "api_prefix": Flag(("--api-prefix",), ("LLAMA_ARG_API_PREFIX",)),
    "certificate": Flag(("--ssl-cert-file",), ("LLAMA_ARG_SSL_CERT_FILE",)),
    "api_key": Flag(("--api-key",), ("LLAMA_API_KEY",), secret=True),
    "api_key_file": Flag(("--api-key-file",), ("LLAMA_ARG_API_KEY_FILE",)),
    "hub_token": Flag(("-hft", "--hf-token"), ("HF_TOKEN",), secret=True),
    # many models
    "models_folder": Flag(("--models-dir",), ("LLAMA_ARG_MODELS_DIR",)),
    "models_preset": Flag(("--models-preset",), ("LLAMA_ARG_MODELS_PRESET",)),
    "models_most": Flag(("--models-max",), ("LLAMA_ARG_MODELS_MAX",)),
}
FLAGS = Flags(_FLAGS, only_flags=True)
find_flags, without_secrets = FLAGS.find_flags, FLAGS.without_secrets


def parse_settings(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting that was given, by name: flags beat variables; the last of several flags counts."""
    settings: dict[str, Setting] = {}
    for name, flag in FLAGS.items():
        for variable in reversed(flag.variables):  # the first counts
            opposite = variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
            if flag.opposites and opposite in environment:
                settings[name] = Setting("off", f"{ENVIRONMENT}: {opposite}")
            elif variable in environment:
                settings[name] = Setting(environment[variable], f"{ENVIRONMENT}: {variable}")
    given: dict[str, Setting] = {}
    for name, start, end, values in find_flags(command):
        source = COMMAND if FLAGS[name].secret else f"{COMMAND}: {' '.join(command[start:end])}"
        before = f"{given[name].value}," if name == "override" and name in given else ""
        given[name] = Setting(before + values[0], source)
    if "log_level" not in given and {"-v", "--verbose", "--log-verbose"} & set(command):
        given["log_level"] = Setting("2147483647", f"{COMMAND}: -v")
    return settings | given
