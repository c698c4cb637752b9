"""What a report says of each subject, as samples; labels come from fixed sets, or are cut and counted."""

from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from unslow.show._metric_text import Family, Sample, label_value
from unslow.think.budget_parts import part_name
from unslow.think.causes import all_causes
from unslow.think.first_token import FIRST_TOKEN
from unslow.think.predict import DECODE, PREFILL
from unslow.think.report import Range, SubjectReport

MOST_SUBJECTS = 16
"""In one answer: a machine with more servers is watched by several exporters, each with its TARGET."""
VERDICTS = ("slow", "normal", "failed", "cannot_tell")
PHASES = ("client", "queue", "load", "prefill", "decode")
BOUNDS = ("low", "mid", "high")
_ROOM = 32
"""Letters of a runtime's and of a model's name in a key: with port and number it is as long as a label may be."""


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


def keyed(subjects: tuple[SubjectReport, ...]) -> dict[str, SubjectReport]:
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


Every = dict[str, SubjectReport]
Samples = Callable[[SubjectReport], Iterator[Sample]]


def subject_families(subjects: Every) -> Iterator[Family]:
    """Every family that tells of subjects."""
    yield _family(subjects, "unslow_subject", "A server that is watched.", _info)._replace(kind="info")
    yield _family(subjects, "unslow_gpus", "GPUs that the server may use.", _gpus)
    yield _family(subjects, "unslow_verdict", "The verdict on a server: 1 for the one that holds.", _verdict)
    found = "1 where the cause was found, 0 where it was ruled out; absent where that can't be told."
    yield _family(subjects, "unslow_finding", found, _findings)
    sure = "How sure a finding is, from 0 to 1."
    yield _family(subjects, "unslow_finding_confidence", sure, _confidences)
    cost = "Time lost to a cause that was found, for each token, token of a prompt, or request."
    yield _family(subjects, "unslow_finding_cost_seconds", cost, _costs, "seconds")
    yield from _speeds(subjects)
    spent = "Where the measured time of a token, of a token of a prompt or of a request goes."
    yield _family(subjects, "unslow_budget_seconds", spent, _budget, "seconds")


def _speeds(subjects: Every) -> Iterator[Family]:
    tokens = "tokens_per_second"

    def measured(name: str) -> Samples:
        return lambda one: (Sample(one.measured[name]) for _ in range(name in one.measured))

    def ranged(what: str) -> Samples:
        return lambda one: _bounds(getattr(one.expected, what).get(DECODE))

    answer = "Speed of the answer to one request, as it was seen or measured."
    yield _family(subjects, "unslow_decode_tokens_per_second", answer, measured(DECODE), tokens)
    prompt = "Speed at which a prompt is read."
    yield _family(subjects, "unslow_prefill_tokens_per_second", prompt, measured(PREFILL), tokens)
    first = "Time to the first token."
    yield _family(subjects, "unslow_first_token_seconds", first, measured(FIRST_TOKEN), "seconds")
    as_is = "Speed of an answer that physics expects as the server is set up, with its 80 % interval."
    yield _family(subjects, "unslow_expected_decode_tokens_per_second", as_is, ranged("as_configured"), tokens)
    cured = "The same with every found cause cured."
    yield _family(subjects, "unslow_achievable_decode_tokens_per_second", cured, ranged("achievable"), tokens)
    most = "The speed that the bandwidth of the memory allows."
    yield _family(subjects, "unslow_ceiling_decode_tokens_per_second", most, _ceiling, tokens)


def _family(subjects: Every, name: str, words: str, samples: Samples, unit: str = "") -> Family:
    every = [(key, sample) for key, one in subjects.items() for sample in samples(one)]
    labelled = (sample._replace(labels={"subject": key, **sample.labels}) for key, sample in every)
    return Family(name, words, tuple(labelled), unit=unit)


def _info(one: SubjectReport) -> Iterator[Sample]:
    yield Sample(1, {
        "runtime": runtime_of(one),
        "version": label_value(one.version),
        "model": model_of(one),
        "quant": label_value(one.quant),
        "device": label_value(device_of(one)),
        "port": port_of(one),
    })  # fmt: skip


def device_of(one: SubjectReport) -> str:
    """What computes: the GPUs, each kind with its number, else the processor."""
    *gpus, processor = one.devices or ("",)
    kinds = Counter(gpus)
    return ", ".join(f"{count}x {name}" if count > 1 else name for name, count in kinds.items()) or processor


def _gpus(one: SubjectReport) -> Iterator[Sample]:
    yield Sample(max(0, len(one.devices) - 1))  # the last is the processor


def _verdict(one: SubjectReport) -> Iterator[Sample]:
    yield from (Sample(one.verdict == verdict, {"verdict": verdict}) for verdict in VERDICTS)


def _findings(one: SubjectReport) -> Iterator[Sample]:
    """With the phase of the cause itself, so that found and ruled out are one series."""
    known = {ruled.cause: 0 for ruled in one.ruled_out} | {finding.cause: 1 for finding in one.findings}
    causes = all_causes()
    for name in sorted(known.keys() & causes.keys()):
        yield Sample(known[name], {"cause": name, "phase": causes[name].phase})


def _confidences(one: SubjectReport) -> Iterator[Sample]:
    for finding in one.findings:
        if finding.cause in all_causes():
            yield Sample(finding.confidence, {"cause": finding.cause})


def _costs(one: SubjectReport) -> Iterator[Sample]:
    for finding in one.findings:
        if finding.cost and finding.cause in all_causes():
            yield Sample(finding.cost.seconds, {"cause": finding.cause, "per": finding.cost.per})


def _bounds(known: Range | None) -> Iterator[Sample]:
    if known is not None:
        yield from (Sample(getattr(known, bound), {"bound": bound}) for bound in BOUNDS)


def _ceiling(one: SubjectReport) -> Iterator[Sample]:
    if one.expected.ceiling_tokens_per_s is not None:
        yield Sample(one.expected.ceiling_tokens_per_s)


def _budget(one: SubjectReport) -> Iterator[Sample]:
    """Parts of one name are one: whatever has no name of its own is together the others."""
    spent: Counter[tuple[str, str, str]] = Counter()
    for part in one.budget:
        if part.phase in PHASES:
            spent[part.phase, part_name(part.part), part.per] += part.seconds  # type: ignore[assignment]
    for (phase, name, per), seconds in sorted(spent.items()):
        yield Sample(seconds, {"phase": phase, "part": name, "per": per})
