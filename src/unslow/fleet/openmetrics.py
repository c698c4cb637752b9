"""The report as metrics that Prometheus reads, in both its dialects: bounded, with nothing that names a person."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from unslow.facts.masking import masked_text
from unslow.think.case.speed import DECODE, PREFILL
from unslow.think.causes import all_causes
from unslow.think.judge.findings import FIRST_TOKEN
from unslow.think.judge.pricing import part_name
from unslow.think.report import Report, SubjectReport

Dialect = Literal["openmetrics", "text"]
MetricKind = Literal["gauge", "counter", "info"]
TYPES: dict[Dialect, str] = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "text": "text/plain; version=0.0.4; charset=utf-8",
}
LONGEST_LABEL = 80  # Letters of a label's value: what a server calls itself may be endless
MOST_SUBJECTS = 16  # In one answer: a machine with more servers is watched by several exporters, each with its TARGET
VERDICTS = ("slow", "normal", "failed", "cannot_tell")
PHASES = ("client", "queue", "load", "prefill", "decode")
BOUNDS = ("low", "mid", "high")
_ROOM = 32
"""Letters of a runtime's and of a model's name in a key: with port and number it is as long as a label may be."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PATH = re.compile(r"^(?:~|\.{0,2})?/|^[A-Za-z]:[\\/]|\\")
_MOMENTS = 1e6  # Larger values with a fraction are seconds since 1970, or bytes
_SUFFIX: dict[MetricKind, str] = {"gauge": "", "counter": "_total", "info": "_info"}


class Sample(NamedTuple):
    """A value with the labels that tell it from others of its family."""

    value: float
    labels: dict[str, str] = {}  # noqa: RUF012 (never written to)


class Family(NamedTuple):
    """A metric: its name without the ending that its kind has, what it means, and its samples."""

    name: str
    help: str
    samples: tuple[Sample, ...]
    kind: MetricKind = "gauge"
    unit: str = ""


class LookState(NamedTuple):
    """How looking went: of this the metrics tell too, as values without an age are none."""

    success: bool = False  # Whether the last look told anything; before the first there is none
    at_s: float | None = None  # When the last look that succeeded ended, in seconds since 1970
    duration_s: float | None = None
    failures: int = 0
    seen_s: tuple[tuple[str, float], ...] = ()  # By the key of a subject: when its speed was last seen
    answers: tuple[tuple[str, bool], ...] = ()  # By the key of a subject: whether it answers questions about its work
    left_out: int = 0  # Servers that were found and are not watched, as there are too many


class OwnCost(NamedTuple):
    """What the exporter itself has used."""

    cpu_s: float
    resident_bytes: int | None
    started_at_s: float


Samples = Callable[[SubjectReport], Iterable[Sample]]


def render_openmetrics(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report as OpenMetrics text."""
    return exposition(report, None, "openmetrics").rstrip("\n")


def exposition(
    report: Report | None, state: LookState | None, dialect: Dialect, own: OwnCost | None = None, version: str = ""
) -> str:
    """All families; without a report only how looking goes, without a state only the report."""
    return families_text(families_of(report, state, own, version), dialect)


def families_of(
    report: Report | None, state: LookState | None, own: OwnCost | None = None, version: str = ""
) -> list[Family]:
    """The same before it is text; a family without samples is among them."""
    version = version or (report.unslow_version if report else "")
    subjects = subjects_by_key(report.subjects) if report else {}
    families = [Family("unslow_build", "The exporter.", (Sample(1, {"version": label_value(version)}),), "info")]
    if state is not None:
        families += [
            gauge("unslow_look_success", "1 if the last diagnosis succeeded; 0 before the first one.", state.success),
            gauge("unslow_look_timestamp_seconds", "When the last successful diagnosis ended.", state.at_s, "seconds"),
            gauge("unslow_look_duration_seconds", "Duration of the last diagnosis.", state.duration_s, "seconds"),
            Family("unslow_look_failures", "Failed diagnoses since the start.", (Sample(state.failures),), "counter"),
            gauge("unslow_subjects_left_out", "Servers that were found but are not watched.", state.left_out),
        ]
    if report is not None:
        count = len(report.subjects) + (state.left_out if state else 0)
        families.append(gauge("unslow_subjects", "Servers found.", count))
        for name, unit, words, samples in _OF_SUBJECTS:
            every = [(key, sample) for key, one in subjects.items() for sample in samples(one)]
            labelled = tuple(sample._replace(labels={"subject": key, **sample.labels}) for key, sample in every)
            families.append(Family(name, words, labelled, "info" if samples is _info else "gauge", unit))
    if state is not None:
        seen = tuple(Sample(at, {"subject": key}) for key, at in state.seen_s if key in subjects)
        words = "When the speed was last observed: an idle server has no speed."
        families.append(Family("unslow_speed_timestamp_seconds", words, seen, unit="seconds"))
        up = tuple(Sample(well, {"subject": key}) for key, well in state.answers if key in subjects)
        words = "1 if the server responds; 0 while it loads, hangs or is gone."
        families.append(Family("unslow_subject_answers", words, up))
    if own is not None:
        cpu, used = "CPU time used by the exporter.", (Sample(own.cpu_s),)
        families += [
            Family("process_cpu_seconds", cpu, used, "counter", "seconds"),
            gauge("process_resident_memory_bytes", "Resident memory of the exporter.", own.resident_bytes, "bytes"),
            gauge("process_start_time_seconds", "When the exporter was started.", own.started_at_s, "seconds"),
        ]
    return families


def gauge(name: str, words: str, value: float | None, unit: str = "") -> Family:
    """A family of one sample, or of none where its value is not known."""
    return Family(name, words, () if value is None else (Sample(value),), unit=unit)


def subjects_by_key(subjects: tuple[SubjectReport, ...]) -> dict[str, SubjectReport]:
    """The subjects by a short key that stays: runtime and port, and the model where several share those."""
    known = sorted(subjects, key=lambda subject: subject.number)[:MOST_SUBJECTS]
    plain = [":".join(filter(None, (runtime_of(one)[:_ROOM], port_of(one)))) for one in known]
    shared = Counter(plain)
    keys: dict[str, SubjectReport] = {}
    for key, one in zip(plain, known, strict=True):
        whole = f"{key}/{model_of(one)[:_ROOM]}" if shared[key] > 1 else key
        again = sum(1 for other in keys if other == whole or other.startswith(f"{whole}#"))
        keys[f"{whole}#{again + 1}" if again else whole] = one
    return keys


def runtime_of(subject: SubjectReport) -> str:
    """Its name without the version."""
    return label_value(subject.runtime.removesuffix(f" {subject.version}"))


def model_of(subject: SubjectReport) -> str:
    """Its name without the quant."""
    return label_value(subject.model.removesuffix(f" {subject.quant}"))


def port_of(subject: SubjectReport) -> str:
    """The port of its address; empty where it has none."""
    try:
        parts = urlsplit(subject.url)
        usual = {"http": "80", "https": "443"}.get(parts.scheme, "")
        return str(parts.port) if parts.port else usual
    except ValueError:
        return ""


def _info(one: SubjectReport) -> Iterator[Sample]:
    # What computes: the GPUs, each kind with its number, else the processor
    *gpus, processor = one.devices or ("",)
    counted = ", ".join(f"{count}x {name}" if count > 1 else name for name, count in Counter(gpus).items())
    yield Sample(1, {
        "runtime": runtime_of(one), "version": label_value(one.version), "model": model_of(one),
        "quant": label_value(one.quant), "device": label_value(counted or processor), "port": port_of(one),
    })  # fmt: skip


def _findings(one: SubjectReport) -> Iterator[Sample]:
    """With the phase of the cause itself, so that found and ruled out are one series."""
    known = {ruled.cause: 0 for ruled in one.ruled_out} | {finding.cause: 1 for finding in one.findings}
    causes = all_causes()
    for name in sorted(known.keys() & causes.keys()):
        yield Sample(known[name], {"cause": name, "phase": causes[name].phase})


def _measured_samples(name: str) -> Samples:
    return lambda one: [Sample(one.measured[name])] if name in one.measured else []


def _expected_samples(which: Literal["as_configured", "achievable"]) -> Samples:
    def bounds(one: SubjectReport) -> Iterator[Sample]:
        if known := getattr(one.expected, which).get(DECODE):
            yield from (Sample(getattr(known, bound), {"bound": bound}) for bound in BOUNDS)

    return bounds


def _budget(one: SubjectReport) -> Iterator[Sample]:
    """Parts of one name are one: whatever has no name of its own is together the others."""
    spent: Counter[tuple[str, str, str]] = Counter()
    for part in one.budget:
        if part.phase in PHASES:
            spent[part.phase, part_name(part.part), part.per] += part.seconds  # type: ignore[assignment]
    for (phase, name, per), seconds in sorted(spent.items()):
        yield Sample(seconds, {"phase": phase, "part": name, "per": per})


_TOKENS = "tokens_per_second"
_OF_SUBJECTS: tuple[tuple[str, str, str, Samples], ...] = (
    ("unslow_subject", "", "A watched server.", _info),
    ("unslow_gpus", "", "GPUs available to the server.",
     lambda one: [Sample(max(0, len(one.devices) - 1))]),  # the last is the processor
    ("unslow_verdict", "", "The verdict on a server: 1 for the current one.",
     lambda one: [Sample(one.verdict == verdict, {"verdict": verdict}) for verdict in VERDICTS]),
    ("unslow_finding", "",
     "1 if the cause was found, 0 if it was ruled out; absent if undetermined.", _findings),
    ("unslow_finding_confidence", "", "Confidence of a finding, from 0 to 1.",
     lambda one: [Sample(f.confidence, {"cause": f.cause}) for f in one.findings if f.cause in all_causes()]),
    ("unslow_finding_cost_seconds", "seconds",
     "Time lost to a found cause per generated token, prompt token or request.",
     lambda one: [Sample(f.cost.seconds, {"cause": f.cause, "per": f.cost.per})
                  for f in one.findings if f.cost and f.cause in all_causes()]),
    ("unslow_decode_tokens_per_second", _TOKENS,
     "Decode speed of one request, observed or measured.", _measured_samples(DECODE)),
    ("unslow_prefill_tokens_per_second", _TOKENS, "Prefill speed.", _measured_samples(PREFILL)),
    ("unslow_first_token_seconds", "seconds", "Time to first token.", _measured_samples(FIRST_TOKEN)),
    ("unslow_expected_decode_tokens_per_second", _TOKENS,
     "Expected decode speed with the current settings, with its 80 % interval.",
     _expected_samples("as_configured")),
    ("unslow_achievable_decode_tokens_per_second", _TOKENS, "Expected decode speed with every found cause fixed.",
     _expected_samples("achievable")),
    ("unslow_ceiling_decode_tokens_per_second", _TOKENS, "Decode speed limit set by memory bandwidth.",
     lambda one: [Sample(speed)] if (speed := one.expected.ceiling_tokens_per_s) is not None else []),
    ("unslow_budget_seconds", "seconds",
     "Breakdown of the measured time per generated token, prompt token or request.", _budget),
)  # fmt: skip
"""What is told of every subject: its name, unit and help, and the samples of one subject."""


def families_text(families: Iterable[Family], dialect: Dialect) -> str:
    """All families that have samples; OpenMetrics ends with a line that says so."""
    is_open, lines = dialect == "openmetrics", list[str]()
    for family in (family for family in families if family.samples):
        sample_name, name, kind = family.name + _SUFFIX[family.kind], family.name, family.kind
        if not is_open:  # the older format knows no information metrics: they are gauges of 1
            name, kind = sample_name, "gauge" if kind == "info" else kind
        # The older format leaves quotes in a help text as they are
        plain = family.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {name} {_escape_label(family.help) if is_open else plain}", f"# TYPE {name} {kind}"]
        if family.unit and is_open:
            lines.append(f"# UNIT {name} {family.unit}")
        for sample in family.samples:
            if math.isfinite(sample.value):
                # To Prometheus an empty label is none
                pairs = ",".join(f'{label}="{_escape_label(text)}"' for label, text in sample.labels.items() if text)
                # Six figures, of a moment its milliseconds: more are noise, and cost room in every sample that is kept
                number = f"{sample.value:.6g}" if abs(sample.value) < _MOMENTS else f"{sample.value:.3f}"
                if sample.value == int(sample.value):
                    number = str(int(sample.value))
                lines.append(f"{sample_name}{f'{{{pairs}}}' if pairs else ''} {number}")
    return "\n".join([*lines, *(["# EOF"] if is_open else [])]) + "\n"


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def label_value(text: str) -> str:
    """A text fit for a label: no path, nobody's name, no key, no letter that drives a terminal, and not long."""
    name = re.split(r"[\\/]", text.rstrip("\\/"))[-1] if _PATH.search(text) else text
    return _UNSAFE.sub("�", masked_text(name[: 4 * LONGEST_LABEL]))[:LONGEST_LABEL].strip()
