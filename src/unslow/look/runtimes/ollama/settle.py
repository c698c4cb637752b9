"""One answer from Ollama's several sources.

The variables and the Modelfile tell what was asked for, the command line what was passed on, the log what was decided
and allocated, /api/ps what Ollama planned.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction, Statement, Subject
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated, first_known, reported
from unslow.look.contradictions import added, contradictions
from unslow.look.llama_server.settle import exact
from unslow.look.logs import ollama
from unslow.look.logs.ollama_options import asked_facts
from unslow.look.runtimes.ollama.api import Loaded, with_doubt
from unslow.look.runtimes.ollama.logs import Log

_OF_SERVER = (
    "version", "environment", "devices", "gpu_refused", "keep_alive_s", "max_loaded_models", "context_default",
    "warnings", "loads", "fit", "fit_margin_bytes",
)  # fmt: skip
_OUTER = ("name", "url", "version", "log_path", "container", "environment", "loads")
_NOTABLE_BYTES = 256 * MIB


def server_facts(log: Log, environment: Fact[dict[str, str]]) -> Runtime:
    """What is true of the server whatever it has loaded: its log from the last start on, and its variables."""
    reader = ollama.DIALECT.start()
    for index, line in enumerate(log.lines):
        if any(needle in line for needle in ollama.DIALECT.needles):
            reader.take(line, log.where(index))
    logged = reader.seen(log.name).subject.runtime
    facts: dict[str, Any] = {name: getattr(logged, name) for name in _OF_SERVER}
    variables = first_known(environment, logged.environment)
    if isinstance(variables, Known):
        facts |= asked_facts(variables.value, variables.source)
    return Runtime(**{**facts, "environment": variables})


def settled(
    whole: Runtime,
    loaded: Loaded | None,
    warnings: Sequence[str] = (),
    *,
    shown: Subject = Subject(),  # noqa: B008 (frozen, as the next)
    logged: Subject = Subject(),  # noqa: B008
) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `shown` is what the process of the model shows, `logged` what its load wrote.
    """
    told = loaded.subject if loaded else Subject()
    runtime = overlaid(overlaid(overlaid(whole, told.runtime), shown.runtime), logged.runtime)
    runtime = _kept(runtime, whole, told.runtime, shown.runtime)
    model = exact(exact(told.model, shown.model), logged.model)
    if loaded:
        model = msgspec.structs.replace(model, name=first_known(told.model.name, model.name))
    asked = overlaid(_asked(whole), loaded.asked if loaded else Runtime())
    sources = [
        ("asked for", asked),
        ("passed on", shown.runtime),
        ("decided", logged.runtime),
        ("reported", told.runtime),
    ]
    found = added(contradictions(sources, model, Machine()), ollama_contradictions(runtime, model))
    found = added(found, logged.contradictions)
    subject = Subject(runtime=_completed(runtime, asked), model=model, run=logged.run, contradictions=found)
    return with_doubt(subject, list(warnings))


def _kept(runtime: Runtime, whole: Runtime, told: Runtime, shown: Runtime) -> Runtime:
    """Clients know Ollama's name, address and version, not those of the process behind it."""
    outer = {name: getattr(whole, name) for name in _OUTER if getattr(whole, name) != NOT_LOOKED}
    outer["state"] = first_known(shown.state, told.state, runtime.state)
    if isinstance(whole.warnings, Known) and isinstance(runtime.warnings, Known):
        both = dict.fromkeys((*whole.warnings.value, *runtime.warnings.value))
        outer["warnings"] = reported(list(both), whole.warnings.source)
    return msgspec.structs.replace(runtime, **outer)


def _asked(whole: Runtime) -> Runtime:
    """The variables as wishes: what is asked for and not had is a contradiction, not an estimate."""
    environment = whole.environment
    given = asked_facts(environment.value, environment.source) if isinstance(environment, Known) else {}
    wished = {name: given[name] for name in ("kv_type_k", "kv_type_v", "flash_attention") if name in given}
    return msgspec.structs.replace(Runtime(), **{n: reported(f.value, f.source) for n, f in wished.items()})


def _completed(runtime: Runtime, asked: Runtime) -> Runtime:
    """The context of all requests together, where only that of one is told."""
    per_slot, slots = runtime.context_per_slot, runtime.slots.value_or(1)
    whole: Fact[int] = NOT_LOOKED
    if isinstance(per_slot, Known):
        whole = estimated(per_slot.value * slots, f"{per_slot.source}: for each of {slots}")
    length = first_known(runtime.context_length, whole)
    layers = first_known(runtime.gpu_layers_set, asked.gpu_layers_set)
    return msgspec.structs.replace(runtime, context_length=length, gpu_layers_set=layers)


def ollama_contradictions(runtime: Runtime, model: Model) -> list[Contradiction]:
    """What `ollama ps` says of the GPU against the buffers that were allocated, and of a cache against its type."""
    return [c for c in (_share(runtime, model), _cache(runtime)) if c]


def _share(runtime: Runtime, model: Model) -> Contradiction | None:
    share, buffers = runtime.vram_share, runtime.buffers
    if not isinstance(share, Known) or not isinstance(buffers, Known) or share.value < 1:
        return None
    host = sum(b.bytes for b in buffers.value if b.kind == "model" and not b.on_gpu)
    table = model.token_table_bytes.value_or(0)
    if not any(b.on_gpu for b in buffers.value) or host <= table + _NOTABLE_BYTES:
        return None
    return Contradiction(
        about="vram_share",
        statements=(
            Statement(says="100% GPU", source=share.source),
            Statement(says=f"{host} bytes of weights are in system memory", source=buffers.source),
        ),
        meaning="the share counts layers that are on GPUs as whole; experts or other parts of them were left behind",
    )


def _cache(runtime: Runtime) -> Contradiction | None:
    wanted = runtime.environment.value_or({}).get("OLLAMA_KV_CACHE_TYPE", "")
    had = runtime.kv_type_v
    if not wanted or not isinstance(had, Known) or had.source.endswith("OLLAMA_KV_CACHE_TYPE") or wanted == had.value:
        return None
    source = runtime.environment.source if isinstance(runtime.environment, Known) else ""
    return Contradiction(
        about="kv_type_v",
        statements=(
            Statement(says=f"the cache was to be {wanted}", source=f"{source}: OLLAMA_KV_CACHE_TYPE"),
            Statement(says=f"values are cached as {had.value}", source=had.source),
        ),
        meaning="a quantised cache needs flash attention, which this model or device does not have",
    )
