"""What an engine was at the time that it is compared with.

In Kubernetes a new version comes in new pods: what the pods of the same workload were then stands for them all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from unslow.fleet.asking_all import Asking
from unslow.fleet.discover import Engine, first_of
from unslow.fleet.options import Labels
from unslow.fleet.own_words import Subject, subject_key
from unslow.fleet.places import scope_of
from unslow.fleet.pods import read_images_before, version_of, workload
from unslow.fleet.reading import BEFORE, Past

_Raw = dict[str, tuple[int, float, str]]
_Whose = tuple[str, str, tuple[tuple[str, str], ...]]


class Before:
    """The past of every engine that has one."""

    def __init__(self, asking: Asking, engines: Iterable[Engine], pasts: Iterable[Past], labels: Labels) -> None:
        self._labels, self._images = labels, read_images_before(asking)
        groups: dict[_Whose, list[Past]] = defaultdict(list)
        for past in pasts:
            groups[self._whose(past.labels)].append(past)
        self._groups = {key: _together(group) for key, group in groups.items()}
        self._versions = {
            key: {first_of(past.labels, labels.version) for past in group} for key, group in groups.items()
        }
        now = Counter(self._whose(engine.labels) for engine in engines)
        self.gone = Counter[str]()
        """How many engines are no more, by their workload or target."""
        for key, group in groups.items():
            if (fewer := _distinct(group) - now[key]) > 0:
                self.gone["/".join(filter(None, key[:2]))] += fewer

    def give(self, engine: Engine) -> None:
        """What its workload was, where it was not there itself."""
        if not any(name.startswith(BEFORE) for name in engine.raw):
            engine.raw.update(self._groups.get(self._whose(engine.labels), {}))
        if f"{BEFORE}running" in engine.raw:
            engine.raw["running_before"] = engine.raw.pop(f"{BEFORE}running")

    def version(self, engine: Engine, subject: Subject | None) -> str:
        """The version then, where something told it."""
        key, scope = self._whose(engine.labels), scope_of(engine.labels)
        images = {text: text for pod in self._images.of_workloads.all(key[:2], scope) for text in pod.images}
        found = version_of(images, engine.runtime)
        if not found and subject:
            found = self._images.of_subjects.get(subject_key(subject.labels), "")
        labelled = self._versions.get(key, set())
        return found or (next(iter(labelled)) if len(labelled) == 1 else "")

    def _whose(self, labels: Mapping[str, str]) -> _Whose:
        """The namespace and the workload, or the target; and the cluster, as another can have the same names."""
        pod, scope = first_of(labels, self._labels.pod), tuple(scope_of(labels).items())
        if not pod:
            return "", labels.get("instance", ""), scope
        return first_of(labels, self._labels.namespace), workload(pod), scope


def read_before(asking: Asking, engines: list[Engine], pasts: list[Past], labels: Labels) -> Before:
    """Everything of the time to compare with."""
    return Before(asking, engines, pasts, labels)


def _distinct(group: list[Past]) -> int:
    """How many engines, whoever scraped them."""
    return len({(past.labels.get("pod", ""), past.labels.get("instance", "")) for past in group})


def _together(group: list[Past]) -> _Raw:
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
