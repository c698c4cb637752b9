"""How llama-server and what embeds it are told things: flags, variables, and a command line as settings.

As in common/arg.cpp of llama.cpp; spellings that a later version took away stay here for the older builds that run.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unslow.look.command_line import COMMAND, ENVIRONMENT, GivenFlag, Setting, with_secrets_hidden

ON = ("on", "enabled", "true", "1")
OFF = ("off", "disabled", "false", "0")


class Flag(NamedTuple):
    """How a setting is spelled; a switch takes no value, and its opposites turn it off."""

    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    switch: bool = False
    opposites: tuple[str, ...] = ()


def _switch(spellings: tuple[str, ...], variable: str = "", opposites: tuple[str, ...] = ()) -> Flag:
    return Flag(spellings, (variable,) if variable else (), switch=True, opposites=opposites)


FLAGS: dict[str, Flag] = {
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
    "cpu_moe": _switch(("-cmoe", "--cpu-moe"), "LLAMA_ARG_CPU_MOE"),
    "device": Flag(("-dev", "--device"), ("LLAMA_ARG_DEVICE",)),
    "main_gpu": Flag(("-mg", "--main-gpu"), ("LLAMA_ARG_MAIN_GPU",)),
    "split_mode": Flag(("-sm", "--split-mode"), ("LLAMA_ARG_SPLIT_MODE",)),
    "tensor_split": Flag(("-ts", "--tensor-split"), ("LLAMA_ARG_TENSOR_SPLIT",)),
    "kv_offload": _switch(("-kvo", "--kv-offload"), "LLAMA_ARG_KV_OFFLOAD", ("-nkvo", "--no-kv-offload")),
    "op_offload": _switch(("--op-offload",), opposites=("--no-op-offload",)),
    "repack": _switch(("--repack",), "LLAMA_ARG_REPACK", ("-nr", "--no-repack")),
    # how it is read
    "load_mode": Flag(("-lm", "--load-mode"), ("LLAMA_ARG_LOAD_MODE",)),
    "mlock": _switch(("--mlock",), "LLAMA_ARG_MLOCK"),
    "mmap": _switch(("--mmap",), "LLAMA_ARG_MMAP", ("--no-mmap",)),
    "direct_io": _switch(("-dio", "--direct-io"), "LLAMA_ARG_DIO", ("-ndio", "--no-direct-io")),
    # context, cache, slots
    "context": Flag(("-c", "--ctx-size"), ("LLAMA_ARG_CTX_SIZE",)),
    "kv_type_k": Flag(("-ctk", "--cache-type-k"), ("LLAMA_ARG_CACHE_TYPE_K",)),
    "kv_type_v": Flag(("-ctv", "--cache-type-v"), ("LLAMA_ARG_CACHE_TYPE_V",)),
    "flash_attention": Flag(("-fa", "--flash-attn"), ("LLAMA_ARG_FLASH_ATTN",)),
    "slots": Flag(("-np", "--parallel"), ("LLAMA_ARG_N_PARALLEL",)),
    "kv_unified": _switch(("-kvu", "--kv-unified"), "LLAMA_ARG_KV_UNIFIED", ("-no-kvu", "--no-kv-unified")),
    "sleep_idle": Flag(("--sleep-idle-seconds",)),
    "swa_full": _switch(("--swa-full",), "LLAMA_ARG_SWA_FULL"),
    "prompt_cache": _switch(("--cache-prompt",), "LLAMA_ARG_CACHE_PROMPT", ("--no-cache-prompt",)),
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
    "metrics": _switch(("--metrics",), "LLAMA_ARG_ENDPOINT_METRICS"),
    "slots_endpoint": _switch(("--slots",), "LLAMA_ARG_ENDPOINT_SLOTS", ("--no-slots",)),
    "host": Flag(("--host",), ("LLAMA_ARG_HOST",)),
    "port": Flag(("--port",), ("LLAMA_ARG_PORT",)),
    "api_prefix": Flag(("--api-prefix",), ("LLAMA_ARG_API_PREFIX",)),
    "certificate": Flag(("--ssl-cert-file",), ("LLAMA_ARG_SSL_CERT_FILE",)),
    "api_key": Flag(("--api-key",), ("LLAMA_API_KEY",)),
    "api_key_file": Flag(("--api-key-file",), ("LLAMA_ARG_API_KEY_FILE",)),
    "hub_token": Flag(("-hft", "--hf-token"), ("HF_TOKEN",)),
    # many models
    "models_folder": Flag(("--models-dir",), ("LLAMA_ARG_MODELS_DIR",)),
    "models_preset": Flag(("--models-preset",), ("LLAMA_ARG_MODELS_PRESET",)),
    "models_most": Flag(("--models-max",), ("LLAMA_ARG_MODELS_MAX",)),
}
SECRET = ("api_key", "hub_token")  # Settings whose values are never shown


_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings + flag.opposites}


def parse_settings(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting that was given, by name.

    A flag on the command line beats its environment variable; the last of several flags counts.
    """
    settings: dict[str, Setting] = {}
    for name, flag in FLAGS.items():
        for variable in reversed(flag.variables):  # the first counts
            opposite = variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
            if flag.opposites and opposite in environment:
                settings[name] = Setting("off", f"{ENVIRONMENT}: {opposite}")
            elif variable in environment:
                settings[name] = Setting(environment[variable], f"{ENVIRONMENT}: {variable}")
    given: dict[str, Setting] = {}
    for name, start, end, value in find_flags(command):
        source = COMMAND if name in SECRET else f"{COMMAND}: {' '.join(command[start:end])}"
        before = f"{given[name].value}," if name == "override" and name in given else ""
        given[name] = Setting(before + value, source)
    if "log_level" not in given and {"-v", "--verbose", "--log-verbose"} & set(command):
        given["log_level"] = Setting("2147483647", f"{COMMAND}: -v")
    return settings | given


def find_flags(command: Sequence[str]) -> list[GivenFlag]:
    """The known flags of a command line, in order."""
    found, at = [], 1
    while at < len(command):
        word, equals, attached = command[at].partition("=")
        word = word.replace("_", "-") if word.startswith("--") else word
        name = _BY_SPELLING.get(word)
        if name is None:
            at += 1
            continue
        flag, end = FLAGS[name], at + 1
        value = command[end] if end < len(command) else ""
        if flag.switch:
            value = "off" if word in flag.opposites else "on"
        elif equals:
            value = attached
        elif word in FLAGS["flash_attention"].spellings and value not in (*ON, *OFF, "auto", "-1"):
            value = "on"  # before b6325 the flag stood alone
        else:
            end = min(at + 2, len(command))
        found.append(GivenFlag(name, at, end, value))
        at = end
    return found


def without_secrets(command: Sequence[str]) -> list[str]:
    """The command line as anybody may see it."""
    secrets = [flag for flag in find_flags(command) if flag.name in SECRET]
    # up to the next flag: llama-server takes no word without one, so what is left between may be a key too
    flags = [at for at, word in enumerate(command) if word.startswith("-")]
    ends = [next((at for at in flags if at >= secret.end), len(command)) for secret in secrets]
    return with_secrets_hidden(command, [(secret.start, end) for secret, end in zip(secrets, ends, strict=True)])
