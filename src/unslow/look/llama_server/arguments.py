"""The command line and the environment of llama-server, as settings by meaning.

A flag on the command line beats its environment variable; the last of several flags counts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

COMMAND = "command line"
ENVIRONMENT = "environment"
ON = ("on", "enabled", "true", "1")
OFF = ("off", "disabled", "false", "0")


class Flag(NamedTuple):
    """How a setting is spelled; a switch takes no value, and its opposites turn it off."""

    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    switch: bool = False
    opposites: tuple[str, ...] = ()


class Setting(NamedTuple):
    """A value as it was written, and where."""

    value: str
    source: str


FLAGS: dict[str, Flag] = {
    "model": Flag(("-m", "--model"), ("LLAMA_ARG_MODEL",)),
    "repository": Flag(("-hf", "-hfr", "--hf-repo"), ("LLAMA_ARG_HF_REPO",)),
    "gpu_layers": Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), ("LLAMA_ARG_N_GPU_LAYERS",)),
    "context": Flag(("-c", "--ctx-size"), ("LLAMA_ARG_CTX_SIZE",)),
    "threads": Flag(("-t", "--threads"), ("LLAMA_ARG_THREADS",)),
    "threads_batch": Flag(("-tb", "--threads-batch")),
    "batch": Flag(("-b", "--batch-size"), ("LLAMA_ARG_BATCH",)),
    "ubatch": Flag(("-ub", "--ubatch-size"), ("LLAMA_ARG_UBATCH",)),
    "flash_attention": Flag(("-fa", "--flash-attn"), ("LLAMA_ARG_FLASH_ATTN",)),
    "kv_type_k": Flag(("-ctk", "--cache-type-k"), ("LLAMA_ARG_CACHE_TYPE_K",)),
    "kv_type_v": Flag(("-ctv", "--cache-type-v"), ("LLAMA_ARG_CACHE_TYPE_V",)),
    "slots": Flag(("-np", "--parallel"), ("LLAMA_ARG_N_PARALLEL",)),
    "kv_unified": Flag(
        ("-kvu", "--kv-unified"), ("LLAMA_ARG_KV_UNIFIED",), switch=True, opposites=("-no-kvu", "--no-kv-unified")
    ),
    "kv_offload": Flag(
        ("-kvo", "--kv-offload"), ("LLAMA_ARG_KV_OFFLOAD",), switch=True, opposites=("-nkvo", "--no-kv-offload")
    ),
    "fit": Flag(("-fit", "--fit"), ("LLAMA_ARG_FIT",)),
    "fit_margin": Flag(("-fitt", "--fit-target"), ("LLAMA_ARG_FIT_TARGET",)),
    "override": Flag(("-ot", "--override-tensor"), ("LLAMA_ARG_OVERRIDE_TENSOR",)),
    "n_cpu_moe": Flag(("-ncmoe", "--n-cpu-moe"), ("LLAMA_ARG_N_CPU_MOE",)),
    "cpu_moe": Flag(("-cmoe", "--cpu-moe"), ("LLAMA_ARG_CPU_MOE",), switch=True),
    "device": Flag(("-dev", "--device"), ("LLAMA_ARG_DEVICE",)),
    "main_gpu": Flag(("-mg", "--main-gpu"), ("LLAMA_ARG_MAIN_GPU",)),
    "split_mode": Flag(("-sm", "--split-mode"), ("LLAMA_ARG_SPLIT_MODE",)),
    "tensor_split": Flag(("-ts", "--tensor-split"), ("LLAMA_ARG_TENSOR_SPLIT",)),
    "log_file": Flag(("--log-file",), ("LLAMA_ARG_LOG_FILE", "LLAMA_LOG_FILE")),
    "log_level": Flag(("-lv", "--verbosity", "--log-verbosity"), ("LLAMA_ARG_LOG_VERBOSITY", "LLAMA_LOG_VERBOSITY")),
    "host": Flag(("--host",), ("LLAMA_ARG_HOST",)),
    "port": Flag(("--port",), ("LLAMA_ARG_PORT",)),
    "api_key": Flag(("--api-key",), ("LLAMA_API_KEY",)),
    "hub_token": Flag(("-hft", "--hf-token"), ("HF_TOKEN",)),
    "api_prefix": Flag(("--api-prefix",), ("LLAMA_ARG_API_PREFIX",)),
    "certificate": Flag(("--ssl-cert-file",), ("LLAMA_ARG_SSL_CERT_FILE",)),
}
_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings + flag.opposites}
_REPEATABLE = ("override",)
_SECRET = ("api_key", "hub_token")


def parse_settings(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting that was given, by name."""
    settings = {name: s for name, flag in FLAGS.items() if (s := _from_environment(flag, environment))}
    return settings | _from_command(command)


class Spelled(NamedTuple):
    """A known flag on a command line: which, the words it takes up, and its value."""

    name: str
    start: int
    end: int
    value: str


def spelled_flags(command: Sequence[str]) -> list[Spelled]:
    """The known flags of a command line, in order."""
    found, at = [], 1
    while at < len(command):
        word, equals, attached = command[at].partition("=")
        word = word.replace("_", "-") if word.startswith("--") else word
        name = _BY_SPELLING.get(word)
        if name is None:
            at += 1
            continue
        value, end = _value(FLAGS[name], word, command, at, attached if equals else None)
        found.append(Spelled(name, at, end, value))
        at = end
    return found


def _value(flag: Flag, word: str, command: Sequence[str], at: int, attached: str | None) -> tuple[str, int]:
    following = command[at + 1] if at + 1 < len(command) else ""
    if flag.switch:
        return ("off" if word in flag.opposites else "on"), at + 1
    if attached is not None:
        return attached, at + 1
    if word in FLAGS["flash_attention"].spellings and following not in (*ON, *OFF, "auto", "-1"):
        return "on", at + 1  # before b6325 the flag stood alone
    return following, min(at + 2, len(command))


def _from_command(command: Sequence[str]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for name, start, end, value in spelled_flags(command):
        source = COMMAND if name in _SECRET else f"{COMMAND}: {' '.join(command[start:end])}"
        before = f"{settings[name].value}," if name in _REPEATABLE and name in settings else ""
        settings[name] = Setting(before + value, source)
    if "log_level" not in settings and {"-v", "--verbose", "--log-verbose"} & set(command):
        settings["log_level"] = Setting("2147483647", f"{COMMAND}: -v")
    return settings


def _from_environment(flag: Flag, environment: Mapping[str, str]) -> Setting | None:
    for variable in flag.variables:
        if flag.opposites and variable.replace("LLAMA_ARG_", "LLAMA_ARG_NO_") in environment:
            return Setting("off", f"{ENVIRONMENT}: {variable.replace('LLAMA_ARG_', 'LLAMA_ARG_NO_')}")
        if variable in environment:
            return Setting(environment[variable], f"{ENVIRONMENT}: {variable}")
    return None
