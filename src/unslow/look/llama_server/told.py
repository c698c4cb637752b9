"""What a server was told, as facts: a flag that is not there is a fact too, if nothing else could have set it."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.facts.values import Fact, estimated, failed, not_found, reported
from unslow.look.llama_server.arguments import COMMAND, ENVIRONMENT, FLAGS, OFF, ON, Setting

ALL_LAYERS = 9999
"""What `-ngl all` stands for: more layers than any model has."""

_MOST_DIGITS = 12


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
    if setting.value in (*ON, *OFF):
        return reported(setting.value in ON, setting.source)
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
        return "--cpu-moe" if setting.value in ON else ""
    if name == "n_cpu_moe":
        return f"--n-cpu-moe {setting.value}" if _number(setting) else ""
    return setting.value
