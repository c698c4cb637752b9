"""One llama-server as a subject: its command line, its answers, its log and its model file, as one answer.

The log tells what was decided, the running server what holds now, the command line what was asked for.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Origin, Unknown, estimated, first_known, not_found, reported
from unslow.look.command_line import Setting, is_absolute_path
from unslow.look.contradictions import contradictions
from unslow.look.gguf_server_flags import parse_settings, without_secrets
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.processes import Process, words_of
from unslow.look.runtimes._gguf_answers import Answers, http_subject, read_answers
from unslow.look.runtimes._gguf_process import absolute_path, front_of, read_api_key, read_server_log, url_of
from unslow.look.runtimes._gguf_settings import (
    AUTOMATIC_SLOTS,
    FLASH_ATTENTION_TAKES_A_VALUE,
    build_number,
    oldest_possible,
    requested_settings,
    with_defaults,
)
from unslow.look.runtimes._given_settings import is_not_given
from unslow.look.runtimes._process import read_in_roots, resident_bytes
from unslow.look.system import System
from unslow.look.system.http import is_local_url

_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")
MOST_PROMPTS = 8


def read_server(system: System, target: Process | str, api_key: str = "") -> Subject:
    """Everything that can be seen of a server, by its process or by its URL alone."""
    if isinstance(target, str):
        address = target.rstrip("/")
        subject = http_subject(read_answers(system, address, api_key), reported(address, "given"))
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
    subject = settled_subject(asked, http, logged, oldest_possible(answers.props))
    shown = Runtime(
        name=reported("llama.cpp", f"/proc/{target.pid}/comm"),
        pid=reported(target.pid, "/proc"),
        url=http.runtime.url,
        command=reported(without_secrets(command.value), command.source) if isinstance(command, Known) else command,
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
        done = reported(tuple(each.prompt_tokens for each in done.value[-MOST_PROMPTS:]), done.source)
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
    why = not_found(f"another server, with {answers.value}, answers at {http.runtime.url.value_or('this port')}")
    return Subject(runtime=Runtime(url=why, state=why))


def with_file(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    """The header of the model file has the last word on the model; a container has a root of its own."""
    path = subject.model.path
    if isinstance(path, Unknown) or not is_absolute_path(path.value):
        return subject
    model = read_in_roots(roots, lambda root: model_facts(read_gguf(system, root + path.value), path.value))
    if model is None:
        return subject
    model = msgspec.structs.replace(model, path=path)
    return msgspec.structs.replace(subject, model=overlaid(subject.model, model))


def settled_subject(asked: Runtime, http: Subject, log: Subject, at_least: Fact[int] = NOT_LOOKED) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `at_least` is the oldest build that the server can be, for one that has no number.
    """
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(getattr(http.runtime, name), getattr(runtime, name)) for name in _CURRENT},
        **{name: first_known(getattr(asked, name), getattr(runtime, name)) for name in _ASKED},
    }
    build = build_number(changes["version"]) or at_least.value_or(0)
    runtime = _completed(msgspec.structs.replace(runtime, **changes), asked, log.runtime, build)
    model = exact_model(http.model, log.model)
    sources = [("asked for", asked), ("decided", log.runtime), ("reported", http.runtime)]
    found = contradictions(sources, model, Machine())
    if runtime.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model, contradictions=found)


def _completed(runtime: Runtime, asked: Runtime, log: Runtime, build: int) -> Runtime:
    """What follows from the rest where nobody says it, as on a server that hides its load lines."""
    follows = with_defaults(asked, runtime.version, build)
    uncounted = is_not_given(asked.slots)
    if build >= AUTOMATIC_SLOTS and is_not_given(asked.kv_unified) and (uncounted or isinstance(asked.slots, Known)):
        # slots that nobody counted share one cache; those that somebody counted have a part each
        source = f"default of llama.cpp since b{AUTOMATIC_SLOTS} {'without' if uncounted else 'with'} -np"
        follows["kv_unified"] = estimated(uncounted, source)
    heard = isinstance(log.name, Known) and log.state.value_or("") == "loaded"
    if heard and build >= FLASH_ATTENTION_TAKES_A_VALUE and is_not_given(asked.flash_attention):
        # left to itself it is on; that it can't be is a warning, which no verbosity hides
        source = "left to llama.cpp, and its log does not warn that it is off"
        follows["flash_attention"] = estimated(value=True, source=source)
    if is_not_given(asked.threads_batch) and isinstance(runtime.threads, Known):
        source = f"as many as threads ({runtime.threads.source}): no -tb"
        follows["threads_batch"] = estimated(runtime.threads.value, source)
    known = {name: first_known(getattr(runtime, name), fact) for name, fact in follows.items()}
    runtime = msgspec.structs.replace(runtime, **known)
    per_slot, unified = runtime.context_per_slot, runtime.kv_unified
    length: Fact[int] = NOT_LOOKED
    if isinstance(per_slot, Known) and isinstance(unified, Known):
        # one cache shared by all slots, or a part for each
        slots = 1 if unified.value else runtime.slots.value_or(0)
        source = f"{per_slot.source}: context of a slot, by {unified.source}"
        length = estimated(per_slot.value * slots, source) if slots else NOT_LOOKED
    length = first_known(runtime.context_length, length)
    batch = _at_most(runtime.batch, length)
    ubatch = _at_most(runtime.ubatch, batch)
    return msgspec.structs.replace(runtime, context_length=length, batch=batch, ubatch=ubatch)


def _at_most(batch: Fact[int], limit: Fact[int]) -> Fact[int]:
    """No batch is longer than the context, and no part of it longer than the batch."""
    if not (isinstance(batch, Known) and isinstance(limit, Known)) or batch.value <= limit.value:
        return batch
    return estimated(limit.value, f"{batch.source}, and no more than {limit.value} ({limit.source})")


def exact_model(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)
