"""One llama-server as a subject: its command line, its answers, its log and its model file, as one answer.

The log tells what was decided, the running server what holds now, the command line what was asked for.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import ALL_LAYERS, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import (
    MIB,
    NOT_LOOKED,
    Fact,
    Known,
    Origin,
    Unknown,
    estimated_fact,
    first_known,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.command_line import COMMAND, ENVIRONMENT, UNSET, Setting, is_absolute_path
from unslow.look.contradictions import contradictions
from unslow.look.gguf_server_flags import FLAGS, ON, parse_settings, without_secrets
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.processes import Process, words_of
from unslow.look.running_server import read_in_roots, resident_bytes
from unslow.look.runtimes._gguf_answers import Answers, http_subject, read_answers
from unslow.look.runtimes._gguf_process import absolute_path, front_of, read_api_key, read_server_log, url_of
from unslow.look.runtimes._given_settings import GivenSettings, is_not_given, whole_number
from unslow.look.system import System
from unslow.look.system.http import is_local_url

_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")
MOST_PROMPTS = 8
FIRST_OF_GGUF = 1000  # August 2023, rounded down: no build that reads today's models has a smaller number
VERBOSITY_HIDES_LOAD = 9151  # 2026-05-14: load lines need -lv 4
FLASH_ATTENTION_TAKES_A_VALUE = 6325  # 2025-08-30
AUTOMATIC_SLOTS = 7000  # 2025-11-02: four slots and one cache where the number is not set; rounded up
LOAD_MODE = 10105  # 2026-07-23: --load-mode in place of --mmap, --mlock, --direct-io
SLEEPS = 7450  # 2025-12-21: servers can sleep, and /props has `is_sleeping`; the build is rounded down
DEFAULTS: dict[str, tuple[Any, int]] = {
    "fit": (True, 7407),  # 2025-12-15
    "fit_margin_bytes": (1024 * MIB, 7407),
    "fit_context_min": (4096, 7407),
    "cache_ram_bytes": (8192 * MIB, 6743),  # 2025-10-09; the build is rounded up
    "log_level": (3, VERBOSITY_HIDES_LOAD),
}
"""What a setting is where it is not set, and the build that brought it."""


def read_server(system: System, target: Process | str, api_key: str = "") -> Subject:
    """Everything that can be seen of a server, by its process or by its URL alone."""
    if isinstance(target, str):
        address = target.rstrip("/")
        subject = http_subject(read_answers(system, address, api_key), reported_fact(address, "given"))
        return with_file(system, subject, [""]) if is_local_url(address) else subject
    # each is read once: it may change, and a recording has every answer
    resident, command = resident_bytes(target), target.command()
    environment, folder = target.environment(), target.folder()
    settings = parse_settings(words_of(command), environment.value_or({}))
    url, key = url_of(settings), api_key or read_api_key(target)
    answers = read_answers(system, url.value, key) if isinstance(url, Known) else Answers(url, url, url, url, url)
    http = _own(http_subject(answers, url), settings)
    log_path, log = read_server_log(target, settings, folder)
    asked = requested_settings(settings, complete=isinstance(environment, Known))
    logged = Subject(runtime=log.runtime, model=log.model)
    sleeps = isinstance(answers.props, dict) and "is_sleeping" in answers.props
    subject = settled_subject(asked, http, logged, SLEEPS if sleeps else 0)
    known = reported_fact(without_secrets(command.value), command.source) if isinstance(command, Known) else command
    shown = Runtime().with_facts(
        name=reported_fact("llama.cpp", f"/proc/{target.pid}/comm"),
        pid=reported_fact(target.pid, "/proc"),
        url=http.runtime.process.url,
        command=known,
        environment=environment,
        log_path=log_path,
        resident_bytes=resident,
        container=target.container(),
        front=front_of(target, environment),
    )
    written = settings["model"].value if "model" in settings else log.model.path.value_or("")
    path = absolute_path(written, folder) if written else not_found("the command line names no model file")
    runtime, model = overlaid(subject.runtime, shown), overlaid(subject.model, Model(path=path))
    done: Fact[Any] = log.run.completions
    if isinstance(done, Known):  # requests of others, so that their speeds are no measurement
        done = reported_fact(tuple(each.prompt_tokens for each in done.value[-MOST_PROMPTS:]), done.source)
    run = Run(load_s=log.run.load_s, logged_prompts=done)
    whole = msgspec.structs.replace(subject, runtime=runtime, model=model, run=run)
    return with_file(system, whole, target.roots())


def _own(http: Subject, settings: dict[str, Setting]) -> Subject:
    """Nothing, where the model that answers is not the model that was started: another network has the same port."""
    started, answers = settings.get("model"), http.model.path
    if started is None or isinstance(answers, Unknown):
        return http
    if started.value.rpartition("/")[2] == answers.value.rpartition("/")[2]:
        return http
    address = http.runtime.process.url.value_or("this port")
    why = not_found(f"another server, with {answers.value}, answers at {address}")
    return Subject(runtime=Runtime().with_facts(url=why, state=why))


def with_file(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    """The header of the model file has the last word on the model; a container has a root of its own."""
    path = subject.model.path
    if isinstance(path, Unknown) or not is_absolute_path(path.value):
        return subject
    read = read_in_roots(roots, lambda root: model_facts(read_gguf(system, root + path.value), path.value))
    model = overlaid(overlaid(subject.model, read), Model(path=path)) if read else subject.model
    return msgspec.structs.replace(subject, model=model)


def settled_subject(asked: Runtime, http: Subject, log: Subject, at_least: int = 0) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `at_least` is the oldest build that the server can be, for one that has no number.
    """
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(http.runtime.fact(name), runtime.fact(name)) for name in _CURRENT},
        **{name: first_known(asked.fact(name), runtime.fact(name)) for name in _ASKED},
    }
    build = build_number(changes["version"]) or at_least
    runtime = _with_inferred(runtime.with_facts(**changes), asked, log.runtime, build)
    model = exact_model(http.model, log.model)
    sources = [("requested", asked), ("decided", log.runtime), ("reported", http.runtime)]
    found = contradictions(sources, model, Machine())
    if runtime.placement.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model, contradictions=found)


def _with_inferred(runtime: Runtime, asked: Runtime, log: Runtime, build: int) -> Runtime:
    """What follows from the rest where it is not reported, as on a server that hides its load lines."""
    follows = with_defaults(asked, runtime.version, build)
    uncounted = is_not_given(asked.scheduling.slots)
    seen = uncounted or isinstance(asked.scheduling.slots, Known)
    if build >= AUTOMATIC_SLOTS and is_not_given(asked.cache.unified) and seen:
        # slots by default share one cache; a requested number of slots has a part each
        source = f"default of llama.cpp since b{AUTOMATIC_SLOTS} {'without' if uncounted else 'with'} -np"
        follows["kv_unified"] = estimated_fact(uncounted, source)
    heard = isinstance(log.name, Known) and log.state.value_or("") == "loaded"
    if heard and build >= FLASH_ATTENTION_TAKES_A_VALUE and is_not_given(asked.compute.flash_attention):
        # left to itself it is on; a failure is a warning, which no verbosity hides
        source = "left to llama.cpp, and its log does not warn that it is off"
        follows["flash_attention"] = estimated_fact(value=True, source=source)
    if is_not_given(asked.compute.threads_batch) and isinstance(runtime.compute.threads, Known):
        source = f"same as threads ({runtime.compute.threads.source}): no -tb"
        follows["threads_batch"] = estimated_fact(runtime.compute.threads.value, source)
    known = {name: first_known(runtime.fact(name), fact) for name, fact in follows.items()}
    runtime = runtime.with_facts(**known)
    per_slot, unified = runtime.context.per_slot, runtime.cache.unified
    length: Fact[int] = NOT_LOOKED
    if isinstance(per_slot, Known) and isinstance(unified, Known):
        # one cache shared by all slots, or a part for each
        slots = 1 if unified.value else runtime.scheduling.slots.value_or(0)
        source = f"{per_slot.source}: context of a slot, by {unified.source}"
        length = estimated_fact(per_slot.value * slots, source) if slots else NOT_LOOKED
    length = first_known(runtime.context.length, length)
    batch = _at_most(runtime.compute.batch, length)
    ubatch = _at_most(runtime.compute.ubatch, batch)
    return runtime.with_facts(context_length=length, batch=batch, ubatch=ubatch)


def _at_most(batch: Fact[int], limit: Fact[int]) -> Fact[int]:
    """No batch is longer than the context, and no part of it longer than the batch."""
    if not (isinstance(batch, Known) and isinstance(limit, Known)) or batch.value <= limit.value:
        return batch
    return estimated_fact(limit.value, f"{batch.source}, at most {limit.value} ({limit.source})")


def exact_model(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)


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
        "priority": given.integer("priority", default=0),
        "polling": given.natural("polling", default=50),
        "log_level": given.positive("log_level"),
        "metrics_endpoint": given.truth("metrics", default=False),
        "top_k": given.integer("top_k", default=40),
        "grammar": given.text("schema" if "schema" in settings else "grammar"),
    }
    layers = settings.get("gpu_layers", UNSET)
    if layers.value in ("all", "auto"):
        chosen = not_found(f"{layers.source} lets llama.cpp choose")
        facts["gpu_layers_set"] = reported_fact(ALL_LAYERS, layers.source) if layers.value == "all" else chosen
    ways = [settings[name] for name in ("draft_type", "draft_model", "draft_repository") if name in settings]
    if way := next((way for way in ways if way.value not in ("", "none")), None):
        facts["speculative"] = reported_fact(way.value, way.source)
        facts["draft_tokens"] = given.positive("draft_tokens")  # which means nothing without a way of drafting
    return Runtime().with_facts(**facts)


def _load_mode(given: GivenSettings) -> Fact[str]:
    """One setting since b10105, three switches before: direct reading beats mapping, and locking adds to it."""
    if "load_mode" in given.settings:
        return given.text("load_mode")
    switches = {name: given.settings[name] for name in ("direct_io", "mmap", "mlock") if name in given.settings}
    on = {name for name, setting in switches.items() if setting.value in ON}
    if not switches:
        return given.missing("load_mode", default="auto")  # older builds map, newer ones unless a device cannot
    source = ", ".join(setting.source for setting in switches.values())
    if "direct_io" in on:
        return reported_fact("dio", source)
    mapped = "mmap" in on or "mmap" not in switches
    words = [word for word, is_on in (("mmap", mapped), ("mlock", "mlock" in on)) if is_on]
    return reported_fact("+".join(words) or "none", source)


def _overrides(given: GivenSettings) -> Fact[list[str]]:
    """Tensors that were sent elsewhere by name, as written; none at all is a fact too."""
    names = ("override", "cpu_moe", "n_cpu_moe", "n_cpu_ffn")
    found = {name: given.settings[name] for name in names if name in given.settings}
    words = []
    for name, setting in found.items():
        flag = FLAGS[name].spellings[-1]
        if name == "override":
            words.append(setting.value)
        elif not FLAGS[name].most:
            words.append(flag if setting.value in ON else "")
        else:
            words.append(f"{flag} {setting.value}" if whole_number(setting.value) else "")
    if any(words):
        return reported_fact([word for word in words if word], next(iter(found.values())).source)
    if not given.complete:
        return given.missing("override")
    return reported_fact([], f"{COMMAND}, {ENVIRONMENT}: no {FLAGS['override'].spellings[0]}")


def with_defaults(asked: Runtime, version: Fact[str], at_least: int = 0) -> dict[str, Fact[Any]]:
    """What each setting that was looked for and not given is in this build, or in any from `at_least` on."""
    build = build_number(version)
    found: dict[str, Fact[Any]] = {}
    for name, (value, since) in DEFAULTS.items():
        if not is_not_given(asked.fact(name)):
            continue
        if (build or at_least) >= since:
            found[name] = estimated_fact(value, f"default of llama.cpp since b{since}")
        elif build is not None:
            found[name] = not_supported(f"b{build} is older than this setting, which came with b{since}")
    return found


def build_number(version: Fact[str]) -> int | None:
    """The number of a build; None where it has none, or one that means nothing."""
    found = re.match(r"b(\d{1,9})\b", version.value_or(""))
    return int(found[1]) if found and int(found[1]) >= FIRST_OF_GGUF else None


def with_default_threads(runtime: Runtime, machine: Machine) -> Runtime:
    """The runtime with the threads that it chose by itself, where its log does not tell them."""
    complete = isinstance(runtime.process.command, Known) and isinstance(runtime.process.environment, Known)
    if not complete or isinstance(runtime.compute.threads, Known):
        return runtime
    settings = parse_settings(runtime.process.command.value_or([]), runtime.process.environment.value_or({}))
    cpu = machine.cpu
    hybrid = isinstance(cpu.efficiency_cores, Known) and cpu.efficiency_cores.value > 0
    cores = first_known(cpu.performance_cores, cpu.physical_cores) if hybrid else cpu.physical_cores
    if "threads" in settings or not isinstance(cores, Known):
        return runtime
    threads = estimated_fact(cores.value, f"default of llama.cpp: one for each core ({cores.source})")
    batch = runtime.compute.threads_batch
    return runtime.with_facts(
        threads=threads, threads_batch=batch if "threads_batch" in settings else first_known(batch, threads)
    )
