"""The engines of a fleet, with what belongs to each."""

import gc
from collections.abc import Mapping
from typing import NamedTuple

from unslow.fleet.asking_all import Asked, Asking
from unslow.fleet.before import Before, read_before
from unslow.fleet.derived import COUNTED, engine_readings, gpu_readings, host_readings
from unslow.fleet.discover import REPLICA, first_of, shown_label
from unslow.fleet.doubts import broken, doubts_of, down_of, nothing_found, statements_of
from unslow.fleet.join import Joined, read_joined
from unslow.fleet.member import Member, MemberGpu, Reading
from unslow.fleet.options import Labels, Options
from unslow.fleet.own_words import Subject, Subjects, diagnosis, read_subjects
from unslow.fleet.places import Gpu
from unslow.fleet.pods import version_of
from unslow.fleet.reading import read_engines
from unslow.think.fleet.report import Statement

_MOST_LABELS = 12
_MOST_GPUS = 64


class Members(NamedTuple):
    """Every engine, and what a reader must know before trusting it."""

    members: list[Member]
    statements: tuple[Statement, ...]


def read_members(prometheus: Asked, options: Options) -> Members:
    """Ask everything, and put together what belongs together; UserError where there is more than may be read."""
    collecting = gc.isenabled()
    gc.disable()  # millions of small things without a cycle among them: looking for one takes a third of the time
    try:
        return _read(prometheus, options)
    finally:
        if collecting:
            gc.enable()


def _read(prometheus: Asked, options: Options) -> Members:
    asking = Asking(prometheus, options.checked())
    try:
        found = _put_together(asking, options, prometheus.now_s)
    except BaseException:  # Ctrl-C waits for no answer
        asking.close(wait=False)
        raise
    asking.close()
    return found


def _put_together(asking: Asking, options: Options, now_s: float) -> Members:
    labels = options.labels()
    engines, pasts = read_engines(asking, options)
    before = read_before(asking, engines, pasts, labels)
    subjects = Subjects(read_subjects(asking, options), labels)
    joined = read_joined(asking, options, engines)
    members = [_member(one, options, labels, before, subjects, now_s) for one in joined]
    if not options.engines:  # of engines that only an exporter knows, nothing says whether they are meant
        members += [_only_own(subject, options, now_s) for subject in subjects.left()]
    members.sort(key=lambda member: member.key)
    statements = statements_of(engines, members, before.gone, options.compare_s)
    narrowed = bool(options.match or options.engines)
    return Members(members, tuple(statements) if members else (nothing_found(narrowed=narrowed),))


def _member(one: Joined, options: Options, labels: Labels, before: Before, subjects: Subjects, now_s: float) -> Member:
    engine = one.engine
    before.give(engine)
    readings = engine_readings(engine.raw, options.window_s)
    readings["samples"] = Reading(engine.samples, "scrapes that are in the window")
    if broken(engine):
        readings = {name: reading for name, reading in readings.items() if name not in COUNTED}
    doubts, down = doubts_of(engine), down_of(engine)
    subject = subjects.of(engine, one.names)
    info = subject.info if subject else {}
    container = engine.labels.get("container", "")
    version = (version_of(one.pod.images, engine.runtime, container) if one.pod else "") or info.get("version", "")
    engine.raw = {}
    return Member(
        key=engine.key,
        runtime=engine.runtime,
        model=_model(engine.models, engine.labels, labels) or info.get("model", ""),
        version=version or engine.info.get("version", "") or first_of(engine.labels, labels.version),
        version_before=before.version(engine, subject),
        host_name=one.names[0] if one.names else "",
        labels=_shown(engine.labels),
        window_s=options.window_s,
        engine=readings,
        info={**engine.info, **{f"unslow_{name}": value for name, value in info.items()}},
        gpus=_gpus(one.gpus),
        host=_host(one),
        own=diagnosis(subject, now_s) if subject else None,
        missing=one.missing,
        down=down,
        doubts=tuple(doubts),
    )


def _model(models: set[str], labels: Mapping[str, str], joined: Labels) -> str:
    if models:
        return next(iter(models)) if len(models) == 1 else ""
    return first_of(labels, joined.model)


def _shown(labels: Mapping[str, str]) -> dict[str, str]:
    """Those that tell where it is, and not how it was scraped."""
    kept = [name for name in labels if name not in REPLICA and not name.startswith("__")]
    first = sorted(kept, key=lambda name: (name not in ("namespace", "pod", "cluster", "instance", "job"), name))
    return {name: shown_label(labels[name]) for name in first[:_MOST_LABELS]}


def _host(one: Joined) -> dict[str, Reading]:
    """Shared by all engines of a host, unless the engine's container has limits of its own."""
    host, limits = one.host, one.pod.limits if one.pod else {}
    if host and host.readings is None:
        host.readings, host.raw = host_readings(host.raw), {}
    shared = (host.readings if host else None) or {}
    return (
        {**shared, **{name: Reading(value, source) for name, (_, value, source) in limits.items()}}
        if limits
        else shared
    )


def _gpus(gpus: list[Gpu]) -> tuple[MemberGpu, ...]:
    """Each once: the same one may be told of by two exporters, and then the first that says something holds."""
    found: dict[str, Gpu] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.index, gpu.identity)):
        name = gpu.identity.lower().removeprefix("gpu-") or f"{gpu.hosts[:1]}.{gpu.index}"
        known = found.setdefault(f"{name}.{gpu.part}", gpu)
        if known is not gpu:
            known.raw = {**gpu.raw, **known.raw}
    return tuple(
        MemberGpu(
            index=max(0, gpu.index), name=gpu.name, identity=gpu.identity, driver=gpu.driver, vendor=gpu.vendor,
            readings=gpu_readings(gpu.raw),
        )
        for gpu in list(found.values())[:_MOST_GPUS]
    )  # fmt: skip


def _only_own(subject: Subject, options: Options, now_s: float) -> Member:
    """An engine that only the exporter on its machine knows."""
    host = subject.hosts[0] if subject.hosts else subject.instance
    return Member(
        key=f"{host}/{subject.name}",
        runtime=subject.info.get("runtime", "unknown"),
        model=subject.info.get("model", ""),
        version=subject.info.get("version", ""),
        host_name=host,
        labels=_shown(subject.labels),
        window_s=options.window_s,
        info={f"unslow_{name}": value for name, value in subject.info.items()},
        own=diagnosis(subject, now_s),
        missing={"engine": "only `unslow exporter` on its machine tells of it: the runtime itself is not scraped"},
    )
