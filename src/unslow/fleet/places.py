"""Where things are: hosts by their many names, pods by their nodes, and GPUs by what they were given to."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Generic, Protocol, TypeVar

from unslow.fleet.discover import first_of, plain
from unslow.fleet.member import Reading
from unslow.fleet.options import Labels
from unslow.fleet.special_queries import SCOPE

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
        """One more of this name."""
        if name and thing not in self._by[name]:
            self._by[name].append(thing)

    def add_all(self, names: Iterable[str], thing: S) -> None:
        """One more, by each of its names and by the short forms of them."""
        for name in (*names, *map(short, names)):
            self.add(name, thing)

    def all(self, name: object, scope: Mapping[str, str]) -> list[S]:
        """Those of this name that can be meant by somebody in this cluster."""
        return [thing for thing in self._by.get(name, ()) if not conflict(thing.scope, scope)]


def conflict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether both say where they are, and not the same."""
    return any(other.get(name, value) != value for name, value in one.items())


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

    def __init__(self, labels: Mapping[str, str], vendor: str, joined: Labels) -> None:
        self.vendor, self.index = vendor, -1
        self.name = self.identity = self.part = self.driver = ""
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
