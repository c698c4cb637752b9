"""Every engine of a fleet as a member, with what belongs to it, what it was before, and what makes it doubtful."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from unslow.catalog.prometheus import exporters_of
from unslow.fleet.asking import NOT_ANSWERED, Asking
from unslow.fleet.engines import BEFORE, REPLICA, Engine, Past, read_engines
from unslow.fleet.joining import Gpu, Subject, Subjects, Surroundings, diagnosis, read_subjects, read_surroundings
from unslow.fleet.labels import first_of, scope_of, shown_label, subject_key
from unslow.fleet.member import COUNTED, Member, MemberGpu, Reading, engine_readings, gpu_readings, host_readings
from unslow.fleet.pods import read_images_before, version_of, workload
from unslow.fleet.prometheus.answers import without_collector
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.queries import Labels, Options
from unslow.fleet.report import Kind, Statement

RESTARTED = "restarted within the window"
GONE = "its series ended within the window: it is gone or its clock is behind"
MANY_FALLS = 3
"""Falls of a counter: a program that starts twice in a quarter of an hour is possible, more is something else."""
_FEW_SAMPLES = 3
_OLD_S = 90.0  # Of the newest sample: more than a scrape interval of a minute
_MOSTLY = 0.95
_MODEL_HINT = (
    "add a label to its target in the scrape configuration: `labels: {model: NAME}`, the Hugging Face or file name;"
    " or name the label that has it: --join model=LABEL"
)
_NAMED = 3  # Keys that stand for all that a statement is about
_KINDS = (
    ("no labels name", "no exporter is scraped there, or labels do not match",
     "scrape one on each host, or name the host label: --join host=LABEL"),
    ("engines share", "several engines share a host",
     "let the GPU exporter report pods, or give each engine a label gpu_ids in the scrape configuration"),
    ("assigns no GPU to its pod", "the GPU exporter assigns none to their pods", ""),
    ("hosts are called", "ambiguous host names", "a label such as cluster must distinguish them"),
)  # fmt: skip
"""Words of a reason, the same without what is different for each engine, and what to do."""
_Raw = dict[str, tuple[int, float, str]]
_Whose = tuple[str, str, tuple[tuple[str, str], ...]]


class Members(NamedTuple):
    """Every engine, and what a reader must know before trusting it."""

    members: list[Member]
    statements: tuple[Statement, ...]


class Before:
    """The past of every engine that has one.

    In Kubernetes a new version comes in new pods: what the pods of the same workload were then stands for them all.
    """

    def __init__(self, asking: Asking, engines: Iterable[Engine], pasts: Iterable[Past], labels: Labels) -> None:
        self._labels = labels
        self._workloads, self._told = read_images_before(asking)
        groups: dict[_Whose, list[Past]] = defaultdict(list)
        for past in pasts:
            groups[self._workload_key(past.labels)].append(past)
        self._groups = {key: _sum_pasts(group) for key, group in groups.items()}
        self._versions = {key: {first_of(one.labels, labels.version) for one in group} for key, group in groups.items()}
        now = Counter(self._workload_key(engine.labels) for engine in engines)
        self.gone = Counter[str]()  # How many engines are no more, by their workload or target
        for key, group in groups.items():
            # Each engine once, whoever scraped it
            engines_then = {(past.labels.get("pod", ""), past.labels.get("instance", "")) for past in group}
            if len(engines_then) > now[key]:
                self.gone["/".join(filter(None, key[:2]))] += len(engines_then) - now[key]

    def give(self, engine: Engine) -> None:
        """What its workload was, where it was not there itself."""
        if not any(name.startswith(BEFORE) for name in engine.raw):
            engine.raw.update(self._groups.get(self._workload_key(engine.labels), {}))
        if f"{BEFORE}running" in engine.raw:
            engine.raw["running_before"] = engine.raw.pop(f"{BEFORE}running")

    def version(self, engine: Engine, subject: Subject | None) -> str:
        """The version then, where something told it."""
        key, scope = self._workload_key(engine.labels), scope_of(engine.labels)
        images = {text: text for pod in self._workloads.all(key[:2], scope) for text in pod.images}
        found = version_of(images, engine.runtime)
        if not found and subject:
            found = self._told.get(subject_key(subject.labels), "")
        labelled = self._versions.get(key, set())
        return found or (next(iter(labelled)) if len(labelled) == 1 else "")

    def _workload_key(self, labels: Mapping[str, str]) -> _Whose:
        """The namespace and the workload, or the target; and the cluster, as another can have the same names."""
        pod, scope = first_of(labels, self._labels.pod), tuple(scope_of(labels).items())
        if not pod:
            return "", labels.get("instance", ""), scope
        return first_of(labels, self._labels.namespace), workload(pod), scope


@without_collector()
def read_members(prometheus: Prometheus, options: Options) -> Members:
    """Ask everything, and put together what belongs together; UserError where there is more than may be read."""
    options.matchers(engines=True)  # words that can't be used are told before anything is asked
    labels = options.labels()
    with Asking(prometheus, options) as asking:
        engines, pasts = read_engines(asking, options)
        before = Before(asking, engines, pasts, labels)
        subjects = Subjects(read_subjects(asking, options), labels)
        joined = read_surroundings(asking, options, engines)
        members = [_member(one, options, labels, before, subjects, prometheus.now_s) for one in joined]
    if not options.engines:  # of engines that only an exporter knows, nothing says whether they are meant
        members += [_exporter_only_member(subject, options, prometheus.now_s) for subject in subjects.left.values()]
    if not members:
        return Members([], (no_engines_statement(narrowed=bool(options.match or options.engines)),))
    members.sort(key=lambda member: member.key)
    return Members(members, tuple(statements_of(engines, members, before.gone, options.compare_s)))


def _member(
    one: Surroundings, options: Options, labels: Labels, before: Before, subjects: Subjects, now_s: float
) -> Member:
    engine = one.engine
    before.give(engine)
    readings = engine_readings(engine.raw, options.window_s)
    readings["samples"] = Reading(engine.samples, "scrapes that are in the window")
    if not engine.sound or _counter_resets(engine) >= MANY_FALLS:  # two targets may write one series
        readings = {name: reading for name, reading in readings.items() if name not in COUNTED}
    doubts, down = doubts_of(engine), ""
    # Its series ended, and not because nobody asks it any more
    if not engine.ages and "up" in engine.raw and (share := engine.raw["up"][1]) < _MOSTLY:
        down = f"it is down: its last scrapes failed; up for {share:.0%} of the window"
    subject = subjects.of(engine, one.names)
    info = subject.info if subject else {}
    container = engine.labels.get("container", "")
    version = (version_of(one.pod.images, engine.runtime, container) if one.pod else "") or info.get("version", "")
    models = engine.models or {first_of(engine.labels, labels.model)}
    engine.raw = {}
    host, limits = one.host, one.pod.limits if one.pod else {}
    if host and host.readings is None:
        host.readings, host.raw = host_readings(host.raw), {}
    shared = (host.readings if host else None) or {}
    own_limits = {name: Reading(value, source) for name, (_, value, source) in limits.items()}
    return Member(
        key=engine.key,
        runtime=engine.runtime,
        model=(min(models) if len(models) == 1 else "") or info.get("model", ""),
        version=version or engine.info.get("version", "") or first_of(engine.labels, labels.version),
        version_before=before.version(engine, subject),
        host_name=one.names[0] if one.names else "",
        labels=_shown_labels(engine.labels),
        window_s=options.window_s,
        engine=readings,
        info={**engine.info, **{f"unslow_{name}": value for name, value in info.items()}},
        gpus=_gpus(one.gpus),
        host=shared | own_limits if limits else shared,
        own=diagnosis(subject, now_s) if subject else None,
        missing=one.missing,
        down=down,
        doubts=tuple(doubts),
    )


def _shown_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Those that tell where it is, and not how it was scraped."""
    kept = [name for name in labels if name not in REPLICA and not name.startswith("__")]
    first = sorted(kept, key=lambda name: (name not in ("namespace", "pod", "cluster", "instance", "job"), name))
    return {name: shown_label(labels[name]) for name in first[:12]}


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
        for gpu in list(found.values())[:64]
    )  # fmt: skip


def _exporter_only_member(subject: Subject, options: Options, now_s: float) -> Member:
    host = subject.hosts[0] if subject.hosts else subject.instance
    return Member(
        key=f"{host}/{subject.name}",
        runtime=subject.info.get("runtime", "unknown"),
        model=subject.info.get("model", ""),
        version=subject.info.get("version", ""),
        host_name=host,
        labels=_shown_labels(subject.labels),
        window_s=options.window_s,
        info={f"unslow_{name}": value for name, value in subject.info.items()},
        own=diagnosis(subject, now_s),
        missing={"engine": "only `unslow exporter` reports it: the runtime itself is not scraped"},
    )


def _sum_pasts(group: list[Past]) -> _Raw:
    """What was counted, added up; of gauges the mean."""
    found: _Raw = {}
    for past in group:
        for name, (order, value, source) in past.raw.items():
            held = found.get(name, (order, 0.0, source))
            found[name] = (min(order, held[0]), held[1] + value, source)
    running = f"{BEFORE}running"
    if running in found:
        order, value, source = found[running]
        found[running] = (order, value / sum(running in past.raw for past in group), source)
    return found


def doubts_of(engine: Engine) -> list[str]:
    """What is wrong with how an engine was seen."""
    found, falls = [], _counter_resets(engine)
    if not engine.sound:
        found.append("counter resets are unknown, so its counters are ignored")
    if falls >= MANY_FALLS:
        often = "two targets with the same labels, or a restart loop"
        found.append(f"its counters were reset {falls:.0f} times: {often}")
    elif falls:
        found.append(RESTARTED)
    if not engine.ages:
        found.append(GONE)
    elif (age := min(engine.ages)) > _OLD_S:
        found.append(f"its newest sample is {age:.0f} s old: rare scrapes, or a clock is behind")
    if "up" in engine.raw and (share := engine.raw["up"][1]) < _MOSTLY:
        found.append(f"it was scraped in {share:.0%} of the window")
    if engine.samples < _FEW_SAMPLES:
        found.append(f"only {engine.samples:.0f} scrapes in the window")
    if len(engine.models) > 1:
        found.append(f"it serves {len(engine.models)} models: {', '.join(sorted(engine.models)[:3])}")
    return found


def _counter_resets(engine: Engine) -> float:
    """How often it began anew, by its counters or by when its process says that it started."""
    return max(engine.raw[name][1] if name in engine.raw else 0.0 for name in ("resets", "starts"))


def statements_of(
    engines: Sequence[Engine], members: Sequence[Member], gone: Mapping[str, int], span_s: float
) -> list[Statement]:
    """What holds for many, said once."""
    found: list[Statement] = []

    def say(kind: Kind, those: Sequence[str], text: str, hint: str = "") -> None:
        if count := len(those):
            words = text.format(n=f"{count:,}", s="" if count == 1 else "s", es="s" if count == 1 else "")
            such_as = tuple(sorted(those)[:_NAMED])
            found.append(Statement(kind=kind, text=words, hint=hint, instances=count, such_as=such_as))

    def doubt(*begins: str) -> list[str]:
        return [one.key for one in members if any(doubt.startswith(begins) for doubt in one.doubts)]

    twice, jobs = ([one.key for one in engines if one.replicas > 1], [one.key for one in engines if one.twice > 1])
    say("duplicates", twice, "{n} engine{s} scraped by more than one Prometheus: each is counted once")
    say("duplicates", jobs, "{n} engine{s} scraped by more than one job: each is counted once", "drop one of the jobs")
    falling = "the counters of {n} engine{s} are reset repeatedly and are ignored"
    say("duplicates", doubt("its counters were reset"), falling, "give every target unique labels")
    say("down", doubt("it was scraped in"), "{n} engine{s} had failed scrapes")
    say("stale", doubt(GONE), "the series of {n} engine{s} ended within the window: gone, or a clock is behind")
    say("skew", doubt("its newest sample"), "the newest samples of {n} engine{s} are old", "check the clocks")
    say("note", doubt(RESTARTED), "{n} engine{s} restarted within the window")
    if span_s and gone:
        ago = f"{span_s / 86400:g} days" if span_s >= 2 * 86400 else f"{span_s / 3600:g} hours"
        count, such_as = sum(gone.values()), tuple(sorted(gone)[:_NAMED])
        text = f"{count:,} engine{'' if count == 1 else 's'} from {ago} ago no longer there"
        found.append(Statement(kind="note", text=text, instances=count, such_as=such_as))
    _say_missing(members, say)
    return found


def _say_missing(members: Sequence[Member], say: Callable[..., None]) -> None:
    unnamed: dict[str, list[str]] = defaultdict(list)
    reasons: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for member in members:
        if not member.model and member.engine:
            unnamed[member.runtime].append(member.key)
        for what, word in (("gpus", "GPUs"), ("host", "host")):
            text = member.missing.get(what, "")
            if text and not text.startswith(NOT_ANSWERED):
                known = ((kind, hint) for words, kind, hint in _KINDS if words in text)
                kind, hint = next(known, text.partition(": ")[::2])
                reasons[word, kind, hint].append(member.key)
    for runtime, those in sorted(unnamed.items()):
        say("labels", those, f"unknown model on {{n}} {runtime} engine{{s}}", _MODEL_HINT)
    for (word, reason, hint), those in sorted(reasons.items()):
        plain = reason.replace("{", "").replace("}", "")
        say("missing", those, f"{word} of {{n}} engine{{s}} unknown: {plain}", hint)


def no_engines_statement(*, narrowed: bool) -> Statement:
    """What to say where no runtime's series are there."""
    anchors = ", ".join(sorted(one.anchor for one in exporters_of("engine").values()))
    return Statement(
        kind="missing",
        text=f"Prometheus has no{' matching' if narrowed else ''} series of a supported runtime in this window",
        hint=("leave out --match and --engines; or " if narrowed else "")
        + "let Prometheus scrape /metrics of each engine: vLLM and TGI always serve it, llama-server with --metrics, "
        f"SGLang with --enable-metrics; for others run `unslow exporter` on the host (looked for {anchors})",
    )
