"""What a llama-server was told, as facts, and what holds where nobody said: defaults by build, threads.

Builds are numbered `b7407-abc`, by counting commits. One made from an archive has no number (`b0-unknown`), one made
from a shallow clone counts only the commits that it has (`b1-abc`, `b50-abc`); then what its answers hold says how
old it can be at most.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.runtime import ALL_LAYERS, Runtime
from unslow.facts.values import MIB, NOT_LOOKED, Fact, Known, estimated, first_known, not_found, not_supported, reported
from unslow.look.command_line import COMMAND, ENVIRONMENT, UNSET, Setting
from unslow.look.gguf_server_flags import FLAGS, ON, parse_settings
from unslow.look.runtimes._given_settings import GivenSettings, is_not_given, whole_number

FIRST_OF_GGUF = 1000  # August 2023, rounded down: no build that reads today's models has a smaller number
VERBOSITY_HIDES_LOAD = 9151  # 2026-05-14: load lines need -lv 4
FLASH_ATTENTION_TAKES_A_VALUE = 6325  # 2025-08-30
AUTOMATIC_SLOTS = 7000  # 2025-11-02: four slots and one cache where nobody says how many; rounded up
LOAD_MODE = 10105  # 2026-07-23: --load-mode in place of --mmap, --mlock, --direct-io
SLEEPS = 7450  # 2025-12-21: servers can sleep, and /props has `is_sleeping`; the build is rounded down
DEFAULTS: dict[str, tuple[Any, int]] = {
    "fit": (True, 7407),  # 2025-12-15
    "fit_margin_bytes": (1024 * MIB, 7407),
    "fit_context_min": (4096, 7407),
    "cache_ram_bytes": (8192 * MIB, 6743),  # 2025-10-09; the build is rounded up
    "log_level": (3, VERBOSITY_HIDES_LOAD),
}
"""What a setting is where nobody set it, and the build that brought it."""


def requested_settings(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = GivenSettings("llama.cpp", FLAGS, settings, complete)
    facts: dict[str, Any] = {
        # where it goes
        "gpu_layers_set": given.natural("gpu_layers"),
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
        # context, cache, slots
        "context_set": given.positive("context"),
        "slots": given.positive("slots"),
        "kv_unified": given.truth("kv_unified"),
        "kv_type_k": given.text("kv_type_k", default="f16"),
        "kv_type_v": given.text("kv_type_v", default="f16"),
        "swa_full": given.truth("swa_full", default=False),
        "prompt_cache": given.truth("prompt_cache", default=True),
        "cache_reuse": given.natural("cache_reuse", default=0),
        "cache_ram_bytes": given.mebibytes("cache_ram"),
        "speculative": given.missing("draft_model"),
        # the work itself
        "threads": given.positive("threads"),
        "threads_batch": given.positive("threads_batch"),
        "batch": given.positive("batch", default=2048),
        "ubatch": given.positive("ubatch", default=512),
        "flash_attention": given.truth("flash_attention"),
        "numa": given.text("numa"),
        "cpu_list": given.text("cpu_range" if "cpu_range" in settings else "cpu_mask"),
        "priority": given.whole("priority", default=0),
        "polling": given.natural("polling", default=50),
        "log_level": given.positive("log_level"),
        "metrics_endpoint": given.truth("metrics", default=False),
        "top_k": given.whole("top_k", default=40),
        "grammar": given.text("schema" if "schema" in settings else "grammar"),
    }
    layers = settings.get("gpu_layers", UNSET)
    if layers.value == "all":
        facts["gpu_layers_set"] = reported(ALL_LAYERS, layers.source)
    elif layers.value == "auto":
        facts["gpu_layers_set"] = not_found(f"{layers.source} lets llama.cpp choose")
    ways = [settings[name] for name in ("draft_type", "draft_model", "draft_repository") if name in settings]
    if way := next((way for way in ways if way.value not in ("", "none")), None):
        facts["speculative"] = reported(way.value, way.source)
        facts["draft_tokens"] = given.positive("draft_tokens")  # which means nothing without a way of drafting
    return Runtime(**facts)


def _load_mode(given: GivenSettings) -> Fact[str]:
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


def _overrides(given: GivenSettings) -> Fact[list[str]]:
    """Tensors that were sent elsewhere by name, as written; none at all is a fact too."""
    names = ("override", "cpu_moe", "n_cpu_moe", "n_cpu_ffn")
    found = {name: given.settings[name] for name in names if name in given.settings}
    words = []
    for name, setting in found.items():
        flag = FLAGS[name].spellings[-1]
        if name == "override":
            words.append(setting.value)
        elif FLAGS[name].switch:
            words.append(flag if setting.value in ON else "")
        else:
            words.append(f"{flag} {setting.value}" if whole_number(setting.value) else "")
    if any(words):
        return reported([word for word in words if word], next(iter(found.values())).source)
    if not given.complete:
        return given.missing("override")
    return reported([], f"{COMMAND}, {ENVIRONMENT}: no {FLAGS['override'].spellings[0]}")


def with_defaults(asked: Runtime, version: Fact[str], at_least: int = 0) -> dict[str, Fact[Any]]:
    """What each setting that was looked for and not given is in this build, or in any from `at_least` on."""
    build = build_number(version)
    found: dict[str, Fact[Any]] = {}
    for name, (value, since) in DEFAULTS.items():
        if not is_not_given(getattr(asked, name)):
            continue
        if (build or at_least) >= since:
            found[name] = estimated(value, f"default of llama.cpp since b{since}")
        elif build is not None:
            found[name] = not_supported(f"b{build} is older than this setting, which came with b{since}")
    return found


def build_number(version: Fact[str]) -> int | None:
    """The number of a build; None where it has none, or one that means nothing."""
    found = re.match(r"b(\d{1,9})\b", version.value_or(""))
    return int(found[1]) if found and int(found[1]) >= FIRST_OF_GGUF else None


def oldest_possible(props: Any) -> Fact[int]:
    """The build that a server is at least, by what its answer to /props holds."""
    sleeps = isinstance(props, dict) and "is_sleeping" in props
    return estimated(SLEEPS, "the fields of /props") if sleeps else NOT_LOOKED


def with_default_threads(runtime: Runtime, machine: Machine) -> Runtime:
    """The runtime with the threads that it chose by itself, where its log does not tell them."""
    complete = isinstance(runtime.command, Known) and isinstance(runtime.environment, Known)
    if not complete or isinstance(runtime.threads, Known):
        return runtime
    settings = parse_settings(runtime.command.value_or([]), runtime.environment.value_or({}))
    cpu = machine.cpu
    hybrid = isinstance(cpu.efficiency_cores, Known) and cpu.efficiency_cores.value > 0
    cores = first_known(cpu.performance_cores, cpu.physical_cores) if hybrid else cpu.physical_cores
    if "threads" in settings or not isinstance(cores, Known):
        return runtime
    threads = estimated(cores.value, f"default of llama.cpp: one for each core ({cores.source})")
    batch = runtime.threads_batch if "threads_batch" in settings else first_known(runtime.threads_batch, threads)
    return msgspec.structs.replace(runtime, threads=threads, threads_batch=batch)
