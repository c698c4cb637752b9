"""Which engines there are and where: one for each target of a runtime; hosts, pods and GPUs by their names."""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from sys import intern
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from unslow.catalog.prometheus import Exporter, ExporterSubject, exporters
from unslow.facts.errors import UserError
from unslow.facts.masking import keyless_text
from unslow.fleet.member import Reading
from unslow.fleet.prometheus.answers import Answered
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.queries import PACKS, SCOPE, Labels, Options, all_queries, there_query

NOT_ANSWERED = "not answered"  # How the reason begins where a query failed: the statement on that query says why


class Asking(AbstractContextManager["Asking"]):
    """The questions of one reading, by name."""

    def __init__(self, prometheus: Prometheus, options: Options) -> None:
        self._prometheus = prometheus
        self.failures: dict[str, list[str]] = {}
        """Names of queries without an answer, by what they are about."""
        self.counts = self._counts(options)
        self._queries = {query.name: query for query in all_queries(options, self.counts) if query.of != "all"}
        self._left, self._coming = list(self._queries), dict[str, Future[Answered]]()
        self._thread = ThreadPoolExecutor(1)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ask nothing more; an error, such as Ctrl-C, waits for no answer: whoever caught it hangs up next."""
        self._thread.shutdown(wait=kind is None, cancel_futures=True)

    def answer(self, name: str) -> Answered:
        """The answer, empty where nobody there could give one; the next question is on its way meanwhile."""
        query = self._queries.get(name)
        if query is None:
            return Answered([])
        self._send(name)
        answered = self._coming.pop(name).result()
        if self._left:
            self._send(self._left[0])
        if answered.failure:
            self.failures.setdefault(query.of, []).append(name)
        return answered

    def _send(self, name: str) -> None:
        if name in self._left:
            self._left.remove(name)
            query = self._queries[name]
            self._coming[name] = self._thread.submit(self._prometheus.instant, query.promql, about=name)

    def answers(self, of: ExporterSubject) -> Iterator[Answered]:
        """The answers that hold the readings of a kind."""
        return (self.answer(name) for name, about, *_ in PACKS if about == of)

    def unanswered(self) -> dict[str, str]:
        """Why something may be missing of an engine, of GPUs or of hosts."""
        kinds = {"engine": "engine", "gpu": "gpus", "host": "host"}
        return {kinds[of]: f"{NOT_ANSWERED}: {', '.join(names)}" for of, names in self.failures.items() if of in kinds}

    def _counts(self, options: Options) -> dict[str, int]:
        """Series of each exporter that is there; UserError where they are more than may be read.

        Where nobody says so, each may be there and is asked for: what is too large is then known by its own answer.
        """
        answered = self._prometheus.instant(there_query(options).promql, about="there")
        if answered.failure:
            self.failures["all"] = ["there"]
            return dict.fromkeys(exporters(), 0)
        told = {series.labels.get("__name__", ""): int(series.value) for series in answered.series}
        counts = {name: told[one.anchor] for name, one in exporters().items() if told.get(one.anchor)}
        # Of pods only what belongs to engines is asked for, however much there is
        read = {name: count for name, count in counts.items() if exporters()[name].of != "pods"}
        large = max(read, key=lambda name: read[name], default="")
        if large and read[large] > options.most_series:
            anchor = exporters()[large].anchor
            raise UserError(
                f"there are {read[large]:,} series of {anchor}, and at most {options.most_series:,} are read at once",
                """narrow it, such as --match 'cluster="a"', and judge one part after the other""",
            )
        return counts


def there_are(counts: Collection[str], of: str) -> bool:
    """Whether any exporter of a kind is there."""
    return any(exporters()[name].of == of for name in counts)


# Two servers of Prometheus that scrape the same (`prometheus_replica`), or two jobs, tell of one engine: the one that
# saw most speaks, the others only where it is silent. Nothing is ever added up over them.

REPLICA = ("prometheus_replica", "__replica__", "replica", "receive", "receive_replica", "prometheus", "monitor")
_HOW_SCRAPED = frozenset((*REPLICA, "job", "endpoint", "service", "container", "scrape_job"))
"""Labels that say who scrapes a target and how it was found, and not which it is."""
_LONGEST, _LONGEST_SHOWN = 300, 120  # Of a label's value: the longest names of models and pods have half of it
_MAY_BE_SECRET = re.compile(r"(?i)[@= ]|\bsk-|hf_|gh[a-z]_|eyj|akia|xox|token|key|secret|passw")
"""What is worth the long look for keys and passwords: nearly no name of a target is."""


class Engine:
    """One engine while its answers come in."""

    __slots__ = ("ages", "info", "key", "labels", "models", "raw", "replicas", "runtime", "samples", "sound", "twice")

    def __init__(self, runtime: str, labels: dict[str, str]) -> None:
        self.runtime, self.labels = runtime, labels
        self.sound = True
        """Whether anybody told how often its counters began anew."""
        self.key, self.samples, self.replicas, self.twice = "", 0.0, 1, 1
        self.models: set[str] = set()
        self.ages: list[float] = []
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.info: dict[str, str] = {}


class Target:
    """One label set of a scraped target, as Prometheus has it."""

    __slots__ = ("age", "labels", "models", "runtime", "samples")

    def __init__(self, runtime: str, labels: dict[str, str]) -> None:
        self.runtime, self.labels = runtime, labels
        self.models: set[str] = set()
        self.samples, self.age = 0.0, -1.0


def quick_key(labels: Mapping[str, str]) -> str:
    """The same for the same labels, and cheap: most of the time goes into this."""
    return "\0".join([*labels, *labels.values()])


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first label that says something."""
    return next((labels[name] for name in names if labels.get(name)), "")


def interned(labels: Mapping[str, str]) -> dict[str, str]:
    """The same, each text plain and held once in the whole program."""
    return {intern(name): plain(value) for name, value in labels.items()}


def plain(text: str) -> str:
    """A text of a label that can be shown anywhere: anybody may write labels, and some write passwords into them."""
    if len(text) > _LONGEST:  # two that only end otherwise stay two
        text = f"{text[:_LONGEST]}~{crc32(text.encode('utf-8', 'replace')):08x}"
    if not text.isprintable():
        text = "".join(char if char.isprintable() else "?" for char in text)
    if _MAY_BE_SECRET.search(text):
        text = _keyless(text)
    return intern(text)


def shown_label(text: str) -> str:
    """A label's value as a member carries it."""
    return plain(text)[:_LONGEST_SHOWN]


_keyless = lru_cache(2**14)(keyless_text)  # The names of GPUs have spaces too, and ten thousand of them are the same


def engines_of(targets: Mapping[str, Target], labels: Labels) -> tuple[list[Engine], dict[str, tuple[Engine, int]]]:
    """Every engine once, and for each label set the engine and its place among those that tell of it."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in targets.items():
        pod, space = first_of(target.labels, labels.pod), first_of(target.labels, labels.namespace)
        groups[target.runtime, space, pod, target.labels.get("instance", "")].append((key, target))
    engines: list[Engine] = []
    places: dict[str, tuple[Engine, int]] = {}
    for (_, space, pod, instance), group in groups.items():
        for same in _same(group):
            first, told_by = same[0][1], [target for _, target in same]
            engine = Engine(first.runtime, first.labels)
            engine.key = f"{space}/{pod}" if pod and space else pod or instance or "unknown"
            engine.samples = first.samples
            engine.models = {model for target in told_by for model in target.models}
            engine.ages = [target.age for target in told_by if target.age >= 0]
            engine.replicas = len({tuple(target.labels.get(name, "") for name in REPLICA) for target in told_by})
            engine.twice = len({target.labels.get("job", "") for target in told_by})
            engines.append(engine)
            places |= {key: (engine, place) for place, (key, _) in enumerate(same)}
    _name_apart(engines)
    return engines, places


def _same(group: list[tuple[str, Target]]) -> Iterator[list[tuple[str, Target]]]:
    """Those that nothing but the way of scraping tells apart."""
    if len(group) == 1:
        yield group
        return
    apart = _varying([target.labels for _, target in group])
    found: dict[tuple[object, ...], list[tuple[str, Target]]] = defaultdict(list)
    for key, target in group:
        found[(*(target.labels.get(name, "") for name in apart), frozenset(target.models))].append((key, target))
    for same in found.values():
        yield sorted(same, key=lambda one: (-one[1].samples, one[0]))


def _varying(all_labels: list[dict[str, str]]) -> list[str]:
    """Labels of the targets themselves of which there is more than one value."""
    values: dict[str, set[str]] = defaultdict(set)
    for labels in all_labels:
        for name, value in labels.items():
            values[name].add(value)
    return sorted(name for name, some in values.items() if len(some) > 1 and name not in _HOW_SCRAPED)


def _name_apart(engines: list[Engine]) -> None:
    """Where two have the same name, what tells them apart is added to it."""
    named: dict[str, list[Engine]] = defaultdict(list)
    for engine in engines:
        named[engine.key].append(engine)
    for key, group in named.items():
        if len(group) == 1:
            continue
        apart = _varying([engine.labels for engine in group]) or ["job"]
        apart.sort(key=lambda name: (name not in SCOPE, name))
        for number, engine in enumerate(group, 1):
            told = ", ".join(engine.labels[name] for name in apart[:3] if engine.labels.get(name))
            engine.key = f"{key} ({told[:80]})" if told else f"{key} ({number})"
    taken: set[str] = set()
    for number, engine in enumerate(engines):
        engine.key = engine.key if engine.key not in taken else f"{engine.key} #{number}"
        taken.add(engine.key)


_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 (names in labels)


class Scoped(Protocol):
    """Something that is in a cluster, a region or an environment."""

    scope: dict[str, str]


S = TypeVar("S", bound=Scoped)


class Named(Generic[S]):
    """Things by name; of the same name only those count whose cluster does not say otherwise."""

    def __init__(self) -> None:
        self._by: dict[object, list[S]] = defaultdict(list)

    def add(self, name: object, thing: S) -> None:
        if name and thing not in self._by[name]:
            self._by[name].append(thing)

    def add_all(self, names: Iterable[str], thing: S) -> None:
        """One more, by each of its names and by the short forms of them."""
        for name in (*names, *map(short, names)):
            self.add(name, thing)

    def all(self, name: object, scope: Mapping[str, str]) -> list[S]:
        """Those of this name that can be meant by somebody in this cluster."""
        alike = self._by.get(name, ())
        return [one for one in alike if all(scope.get(label, value) == value for label, value in one.scope.items())]


def scope_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that tell a cluster from another."""
    return {name: intern(labels[name]) for name in SCOPE if labels.get(name)}


class Host:
    """A machine that an exporter tells of."""

    __slots__ = ("names", "raw", "readings", "scope")

    def __init__(self, labels: Mapping[str, str], joined: Labels) -> None:
        self.names, self.scope = host_names(labels, joined), scope_of(labels)
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.readings: dict[str, Reading] | None = None


class Gpu:
    """One GPU as one exporter tells of it, for as long as it belongs to one pod."""

    __slots__ = ("driver", "hosts", "identity", "index", "name", "part", "pod", "raw", "scope", "vendor")

    def __init__(self, labels: Mapping[str, str], exporter: Exporter, joined: Labels) -> None:
        told = {what: plain(first_of(labels, names)) for what, names in exporter.labels.items()}
        self.index = int(told["index"]) if told["index"].isdecimal() and len(told["index"]) < 6 else -1  # noqa: PLR2004
        self.name, self.identity, self.vendor = told["name"], told["identity"], exporter.vendor
        self.driver, self.part = told.get("driver", ""), told.get("part", "")
        self.raw: dict[str, tuple[int, float, str]] = {}
        self.scope, self.hosts = scope_of(labels), host_names(labels, joined)
        self.pod = (first_of(labels, joined.namespace), first_of(labels, joined.gpu))


def host_names(labels: Mapping[str, str], joined: Labels) -> list[str]:
    """Every name that labels give a host, the most telling first."""
    found = [labels[name] for name in joined.host if labels.get(name)]
    instance = without_port(labels.get("instance", ""))
    if instance not in _HERE or not found:  # every host calls itself so
        found.append(instance)
    return [plain(name) for name in dict.fromkeys(found) if name]


def without_port(instance: str) -> str:
    """The host of `host:port`, of `[::1]:port` and of an address with a scheme."""
    host = instance.partition("://")[2] or instance
    host = host.partition("/")[0]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def port_of(instance: str) -> str:
    """The port of `host:port`, where there is one."""
    host = (instance.partition("://")[2] or instance).partition("/")[0]
    port = host.rpartition(":")[2] if "]:" in host or host.count(":") == 1 else ""
    return port if port.isdecimal() else ""


@lru_cache(2**16)
def short(name: str) -> str:
    """`gpu-01` of `gpu-01.example.com`; nothing of an address."""
    if "." not in name:
        return ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return ""


def found_by(names: Iterable[str], known: "Named[S]", scope: Mapping[str, str]) -> list[S]:
    """Those that the first name that anything has stands for."""
    names = list(names)
    for name in (*names, *filter(None, map(short, names))):
        if found := known.all(name, scope):
            return found
    return []
