"""What a server was told, as facts: a flag that is not there is a fact too, if nothing else could have set it."""

from collections.abc import Mapping
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, not_found, reported
from unslow.look.command_line import COMMAND, ENVIRONMENT, Setting
from unslow.look.llama_server.flags import FLAGS, ON
from unslow.look.llama_server.settings import Told, number

ALL_LAYERS = 9999
"""What `-ngl all` stands for: more layers than any model has."""


def told(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = Told(settings, complete)
    facts: dict[str, Any] = {**_placement(given), **_work(given), **_caches(given), **_drafting(given)}
    return Runtime(**facts)


def _placement(given: Told) -> dict[str, Fact[Any]]:
    return {
        "gpu_layers_set": _gpu_layers(given),
        "fit": given.truth("fit"),
        "fit_margin_bytes": given.mebibytes("fit_margin"),
        "fit_context_min": given.positive("fit_context"),
        "tensor_overrides": _overrides(given),
        "device_set": given.text("device"),
        "main_gpu": given.natural("main_gpu", default=0),
        "split_mode": given.text("split_mode", default="layer"),
        "tensor_split": given.numbers("tensor_split"),
        "kv_offload": given.truth("kv_offload", default=True),
        "op_offload": given.truth("op_offload", default=True),
        "repack": given.truth("repack", default=True),
        "load_mode": _load_mode(given),
    }


def _work(given: Told) -> dict[str, Fact[Any]]:
    return {
        "threads": given.positive("threads"),
        "threads_batch": given.positive("threads_batch"),
        "batch": given.positive("batch", default=2048),
        "ubatch": given.positive("ubatch", default=512),
        "flash_attention": given.truth("flash_attention"),
        "numa": given.text("numa"),
        "cpu_list": given.text("cpu_range" if "cpu_range" in given.settings else "cpu_mask"),
        "priority": given.whole("priority", default=0),
        "polling": given.natural("polling", default=50),
        "log_level": given.positive("log_level"),
        "metrics_endpoint": given.truth("metrics", default=False),
        "top_k": given.whole("top_k", default=40),
        "grammar": given.text("schema" if "schema" in given.settings else "grammar"),
    }


def _caches(given: Told) -> dict[str, Fact[Any]]:
    return {
        "context_set": given.positive("context"),
        "slots": given.positive("slots"),
        "kv_unified": given.truth("kv_unified"),
        "kv_type_k": given.text("kv_type_k", default="f16"),
        "kv_type_v": given.text("kv_type_v", default="f16"),
        "swa_full": given.truth("swa_full", default=False),
        "prompt_cache": given.truth("prompt_cache", default=True),
        "cache_reuse": given.natural("cache_reuse", default=0),
        "cache_ram_bytes": given.mebibytes("cache_ram"),
    }


def _drafting(given: Told) -> dict[str, Fact[Any]]:
    """The way of drafting, by its type or its model; without either, a number of tokens means nothing."""
    names = ("draft_type", "draft_model", "draft_repository")
    ways = [given.settings[name] for name in names if name in given.settings]
    way = next((w for w in ways if w.value not in ("", "none")), None)
    if way is None:
        return {"speculative": given.missing("draft_model")}
    return {"speculative": reported(way.value, way.source), "draft_tokens": given.positive("draft_tokens")}


def _gpu_layers(given: Told) -> Fact[int]:
    setting = given.settings.get("gpu_layers")
    if setting is None:
        return given.missing("gpu_layers")
    if setting.value == "all":
        return reported(ALL_LAYERS, setting.source)
    if setting.value == "auto" or (number(setting.value) or 0) < 0:
        return not_found(f"{setting.source} lets llama.cpp choose")
    return given.natural("gpu_layers")


def _load_mode(given: Told) -> Fact[str]:
    """One setting since b10105, three switches before: direct reading beats mapping, and locking adds to it."""
    if "load_mode" in given.settings:
        return given.text("load_mode")
    switches = {name: given.settings[name] for name in ("direct_io", "mmap", "mlock") if name in given.settings}
    on = {name for name, setting in switches.items() if setting.value in ON}
    if not switches:
        return given.missing("load_mode", default="auto")  # older builds map, newer ones unless a device can't
    source = ", ".join(setting.source for setting in switches.values())
    if "direct_io" in on:
        return reported("dio", source)
    mapped = "mmap" in on or "mmap" not in switches
    words = [word for word, is_on in (("mmap", mapped), ("mlock", "mlock" in on)) if is_on]
    return reported("+".join(words) or "none", source)


def _overrides(given: Told) -> Fact[list[str]]:
    """Tensors that were sent elsewhere by name, as written; none at all is a fact too."""
    names = ("override", "cpu_moe", "n_cpu_moe", "n_cpu_ffn")
    found = [(name, given.settings[name]) for name in names if name in given.settings]
    words = [_override(name, setting) for name, setting in found]
    if any(words):
        return reported([word for word in words if word], found[0][1].source)
    if not given.complete:
        return given.missing("override")
    return reported([], f"{COMMAND}, {ENVIRONMENT}: no {FLAGS['override'].spellings[0]}")


def _override(name: str, setting: Setting) -> str:
    if name == "override":
        return setting.value
    flag = FLAGS[name].spellings[-1]
    if FLAGS[name].switch:
        return flag if setting.value in ON else ""
    return f"{flag} {setting.value}" if number(setting.value) else ""
