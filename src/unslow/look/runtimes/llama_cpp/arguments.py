"""The command line and the environment of llama-server, as settings by meaning.

A flag on the command line beats its environment variable; the last of several flags counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import Fact, estimated, failed, not_found, reported

COMMAND = "command line"
ENVIRONMENT = "environment"
ALL_LAYERS = 9999
"""What `-ngl all` stands for: more layers than any model has."""

_ON = ("on", "enabled", "true", "1")
_OFF = ("off", "disabled", "false", "0")
_MOST_DIGITS = 12


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
    "api_prefix": Flag(("--api-prefix",), ("LLAMA_ARG_API_PREFIX",)),
    "certificate": Flag(("--ssl-cert-file",), ("LLAMA_ARG_SSL_CERT_FILE",)),
}
_BY_SPELLING = {word: name for name, flag in FLAGS.items() for word in flag.spellings + flag.opposites}
_REPEATABLE = ("override",)


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
    if word in FLAGS["flash_attention"].spellings and following not in (*_ON, *_OFF, "auto", "-1"):
        return "on", at + 1  # before b6325 the flag stood alone
    return following, min(at + 2, len(command))


def _from_command(command: Sequence[str]) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for name, start, end, value in spelled_flags(command):
        source = f"{COMMAND}: {' '.join(command[start:end])}" if name != "api_key" else COMMAND
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


def told(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    facts: dict[str, Any] = {
        "gpu_layers_set": _gpu_layers(settings, complete=complete),
        "context_set": _positive(settings, "context", complete=complete),
        "fit": _truth(settings, "fit", complete=complete),
        "fit_margin_bytes": _margin(settings, complete=complete),
        "tensor_overrides": _overrides(settings, complete=complete),
        "device_set": _text(settings, "device", complete=complete),
        "threads": _positive(settings, "threads", complete=complete),
        "threads_batch": _positive(settings, "threads_batch", complete=complete),
        "slots": _positive(settings, "slots", complete=complete),
        "kv_unified": _truth(settings, "kv_unified", complete=complete),
        "flash_attention": _truth(settings, "flash_attention", complete=complete),
        "log_level": _positive(settings, "log_level", complete=complete),
        "kv_type_k": _text(settings, "kv_type_k", complete=complete, default="f16"),
        "kv_type_v": _text(settings, "kv_type_v", complete=complete, default="f16"),
        "batch": _positive(settings, "batch", complete=complete, default=2048),
        "ubatch": _positive(settings, "ubatch", complete=complete, default=512),
    }
    return Runtime(**facts)


def _missing(name: str, *, complete: bool, default: Any = None) -> Fact[Any]:
    flag = FLAGS[name].spellings[0]
    if not complete:
        return failed(f"{flag} is not on the command line, and the environment could not be read")
    if default is not None:
        return estimated(default, f"default of llama.cpp: no {flag}")
    return not_found(f"{flag} was not given")


def _number(setting: Setting) -> int | None:
    text = setting.value.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None


def _positive(settings: Mapping[str, Setting], name: str, *, complete: bool, default: int | None = None) -> Fact[int]:
    """A count; nought and less leave the choice to llama.cpp."""
    setting = settings.get(name)
    if setting is None:
        return _missing(name, complete=complete, default=default)
    number = _number(setting)
    if number is None:
        return failed(f"{setting.source}: {setting.value!r} is not a number")
    return reported(number, setting.source) if number > 0 else not_found(f"{setting.source} lets llama.cpp choose")


def _gpu_layers(settings: Mapping[str, Setting], *, complete: bool) -> Fact[int]:
    setting = settings.get("gpu_layers")
    if setting is None:
        return _missing("gpu_layers", complete=complete)
    number = ALL_LAYERS if setting.value == "all" else -1 if setting.value == "auto" else _number(setting)
    if number is None:
        return failed(f"{setting.source}: {setting.value!r} is not a number of layers")
    return reported(number, setting.source) if number >= 0 else not_found(f"{setting.source} lets llama.cpp choose")


def _truth(settings: Mapping[str, Setting], name: str, *, complete: bool) -> Fact[bool]:
    setting = settings.get(name)
    if setting is None:
        return _missing(name, complete=complete)
    if setting.value in (*_ON, *_OFF):
        return reported(setting.value in _ON, setting.source)
    return not_found(f"{setting.source} lets llama.cpp choose")


def _text(settings: Mapping[str, Setting], name: str, *, complete: bool, default: str | None = None) -> Fact[str]:
    setting = settings.get(name)
    return reported(setting.value, setting.source) if setting else _missing(name, complete=complete, default=default)


def _margin(settings: Mapping[str, Setting], *, complete: bool) -> Fact[int]:
    """The largest margin where each device has its own."""
    setting = settings.get("fit_margin")
    if setting is None:
        return _missing("fit_margin", complete=complete)
    numbers = [_number(Setting(part, "")) for part in setting.value.split(",")]
    known = [n for n in numbers if n is not None and n >= 0]
    return reported(max(known) * MIB, setting.source) if known else failed(f"{setting.source}: not a size in MiB")


def _overrides(settings: Mapping[str, Setting], *, complete: bool) -> Fact[list[str]]:
    """Tensors that were sent elsewhere by name, as written; none at all is a fact too."""
    given = [(name, settings[name]) for name in ("override", "cpu_moe", "n_cpu_moe") if name in settings]
    words = [_override(name, setting) for name, setting in given]
    if any(words):
        return reported([word for word in words if word], given[0][1].source)
    if not complete:
        return _missing("override", complete=False)
    return reported([], f"{COMMAND}, {ENVIRONMENT}: no {FLAGS['override'].spellings[0]}")


def _override(name: str, setting: Setting) -> str:
    if name == "cpu_moe":
        return "--cpu-moe" if setting.value in _ON else ""
    if name == "n_cpu_moe":
        return f"--n-cpu-moe {setting.value}" if _number(setting) else ""
    return setting.value
