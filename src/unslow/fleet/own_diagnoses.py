"""What `unslow exporter` on the machines says of their engines, and which engine each of it is about."""

from collections import defaultdict
from collections.abc import Mapping

from unslow.fleet.asking import MOST, Asking
from unslow.fleet.engines import Engine
from unslow.fleet.labels import Named, first_of, host_names, interned, plain, port_of, scope_of
from unslow.fleet.member import OwnDiagnosis
from unslow.fleet.queries import MARK, Labels, Options, parts

SubjectKey = tuple[str, tuple[tuple[str, str], ...], str]
_INFO = ("runtime", "version", "model", "quant", "device", "port")
_AHEAD_S = 300.0  # A look that lies farther in the future was taken by a clock that tells nothing of its age


class Subject:
    """One engine that an exporter looked at."""

    __slots__ = (
        "costs", "expected", "findings", "hosts", "info", "instance", "labels", "name", "numbers", "scope", "verdict",
    )  # fmt: skip

    def __init__(self, labels: Mapping[str, str], joined: Labels) -> None:
        self.name, self.instance = plain(labels.get("subject", "")), labels.get("instance", "")
        self.scope, self.hosts = scope_of(labels), host_names(labels, joined)
        self.labels, self.verdict = interned(labels), ""
        self.info: dict[str, str] = {}
        self.findings: dict[str, float] = {}
        self.costs: dict[str, float] = {}
        self.expected: dict[str, float] = {}
        self.numbers: dict[str, float] = {}


def read_subjects(asking: Asking, options: Options) -> list[Subject]:
    """Every engine that an exporter looked at, with what it says of it."""
    joined, found = options.labels(), dict[SubjectKey, Subject]()
    for labels, _ in asking.answer("own_info").series:
        labels.pop(MARK, None)
        info = {name: labels.pop(f"exported_{name}", "") or labels.pop(name, "") for name in _INFO}
        labels.pop("__name__", None)
        subject = found.setdefault(subject_key(labels), Subject(labels, joined))
        subject.info = {name: plain(value) for name, value in info.items() if value}
    told, of_exporter = parts("own", options.window_s), defaultdict[SubjectKey, list[Subject]](list)
    for (instance, scope, _), subject in found.items():
        of_exporter[instance, scope, ""].append(subject)
    for answered in asking.answers("own"):
        for labels, value in answered.series:
            part = told.get(labels.pop(MARK, ""))
            if part and "subject" in labels:
                _take(found.get(subject_key(labels)), labels, part.quantity, value)
            elif part:  # of the exporter, and so of all its subjects
                for subject in of_exporter.get(subject_key(labels), ()):
                    subject.numbers[part.quantity] = value
    return list(found.values())


def subject_key(labels: Mapping[str, str]) -> SubjectKey:
    """Which engine of which exporter it is: two clusters can have the same addresses."""
    return labels.get("instance", ""), tuple(scope_of(labels).items()), labels.get("subject", "")


def _take(subject: Subject | None, labels: Mapping[str, str], quantity: str, value: float) -> None:
    if subject is None or not 0.0 <= value <= MOST:
        return
    if quantity == "verdict":
        subject.verdict = plain(labels.get("verdict", "cannot_tell"))
    elif quantity == "findings":
        cause = plain(labels.get("cause", ""))
        subject.findings[cause] = max(value, subject.findings.get(cause, 0.0))
    elif quantity == "finding_costs":
        subject.costs[plain(labels.get("cause", ""))] = value
    elif quantity == "expected":
        subject.expected[labels.get("bound", "")] = value
    else:
        subject.numbers[quantity] = value


class Subjects:
    """Subjects to be found by the engine that they mean."""

    def __init__(self, subjects: list[Subject], joined: Labels) -> None:
        self._joined, self._left = joined, {id(subject): subject for subject in subjects}
        self._by_pod, self._by_host = Named[Subject](), Named[Subject]()
        for subject in subjects:
            pod, space = first_of(subject.labels, joined.pod), first_of(subject.labels, joined.namespace)
            self._by_pod.add((space, pod) if pod else None, subject)
            self._by_host.add_all(subject.hosts, subject)

    def of(self, engine: Engine, names: list[str]) -> Subject | None:
        """The one that means this engine: in its pod, or with its port on its host."""
        labels, scope = engine.labels, scope_of(engine.labels)
        pod, space = first_of(labels, self._joined.pod), first_of(labels, self._joined.namespace)
        near = self._by_pod.all((space, pod), scope) if pod else []
        here = near or [one for name in names for one in self._by_host.all(name, scope)]
        mine = [one for one in dict.fromkeys(here) if one.info.get("runtime") == engine.runtime]
        port = port_of(labels.get("instance", ""))
        exact = [one for one in mine if port and one.info.get("port") == port] or (mine if near else [])
        if len(exact) != 1:
            return None
        self._left.pop(id(exact[0]), None)
        return exact[0]

    def left(self) -> list[Subject]:
        """Those that no scraped engine is."""
        return list(self._left.values())


def diagnosis(subject: Subject, now_s: float) -> OwnDiagnosis:
    """What it says, as a member carries it."""
    bounds = [subject.expected.get(bound) for bound in ("low", "mid", "high")]
    known = [bound for bound in bounds if bound is not None]
    looked = subject.numbers.get("looked_at_s")
    return OwnDiagnosis(
        verdict=subject.verdict or "cannot_tell",
        findings={cause: share for cause, share in subject.findings.items() if share > 0},
        costs_s=subject.costs,
        speed_tokens_per_s=subject.numbers.get("speed_tokens_per_s"),
        expected_tokens_per_s=(known[0], known[1], known[2]) if len(known) == 3 else None,  # noqa: PLR2004
        achievable_tokens_per_s=subject.numbers.get("achievable_tokens_per_s"),
        age_s=max(0.0, now_s - looked) if looked is not None and looked <= now_s + _AHEAD_S else None,
    )
