"""What labels of series name, as texts that may be shown: hosts, ports, and the cluster that tells two hosts apart."""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from unslow.facts.masking import keyless_text
from unslow.fleet.queries import SCOPE, Labels

_LONGEST, _LONGEST_SHOWN = 300, 120  # Of a label's value: the longest names of models and pods have half of it
_MAY_BE_SECRET = re.compile(r"(?i)[@= ]|\bsk-|hf_|gh[a-z]_|eyj|akia|xox|token|key|secret|passw")
"""What is worth the long look for keys and passwords: nearly no name of a target is."""
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 (names in labels)
_keyless = lru_cache(2**14)(keyless_text)  # The names of GPUs have spaces too, and ten thousand of them are the same
SubjectKey = tuple[str, tuple[tuple[str, str], ...], str]


class HasScope(Protocol):
    """Something that is in a cluster, a region or an environment."""

    scope: dict[str, str]


S = TypeVar("S", bound=HasScope)


class NameIndex(Generic[S]):
    """Things by name; of the same name only those count whose cluster does not say otherwise."""

    def __init__(self) -> None:
        self._by: dict[object, list[S]] = defaultdict(list)

    def add(self, name: object, thing: S) -> None:
        if name and thing not in self._by[name]:
            self._by[name].append(thing)

    def add_all(self, names: Iterable[str], thing: S) -> None:
        """One more, by each of its names and by the short forms of them."""
        for name in (*names, *map(short_name, names)):
            self.add(name, thing)

    def all(self, name: object, scope: Mapping[str, str]) -> list[S]:
        """Those of this name that can be meant by somebody in this cluster."""
        alike = self._by.get(name, ())
        return [one for one in alike if all(scope.get(label, value) == value for label, value in one.scope.items())]


def find_by_names(names: Iterable[str], known: "NameIndex[S]", scope: Mapping[str, str]) -> list[S]:
    """Those that the first name that anything has stands for."""
    names = list(names)
    for name in (*names, *filter(None, map(short_name, names))):
        if found := known.all(name, scope):
            return found
    return []


def scope_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that tell a cluster from another."""
    return {name: intern(labels[name]) for name in SCOPE if labels.get(name)}


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first label that says something."""
    return next((labels[name] for name in names if labels.get(name)), "")


def subject_key(labels: Mapping[str, str]) -> SubjectKey:
    """Which engine of which exporter it is: two clusters can have the same addresses."""
    return labels.get("instance", ""), tuple(scope_of(labels).items()), labels.get("subject", "")


def host_names(labels: Mapping[str, str], joined: Labels) -> list[str]:
    """Every name that labels give a host, the most telling first."""
    found = [labels[name] for name in joined.host if labels.get(name)]
    instance, _ = host_and_port(labels.get("instance", ""))
    if instance not in _HERE or not found:  # every host calls itself so
        found.append(instance)
    return [plain_label(name) for name in dict.fromkeys(found) if name]


def host_and_port(instance: str) -> tuple[str, str]:
    """Both of `host:port`, of `[::1]:port` and of an address with a scheme; empty where there is none."""
    place = (instance.partition("://")[2] or instance).partition("/")[0]
    host = place.rpartition(":")[0] if place.count(":") == 1 else place
    if place.startswith("["):
        host = place[1:].partition("]")[0]
    port = place.rpartition(":")[2] if "]:" in place or place.count(":") == 1 else ""
    return host, port if port.isdecimal() else ""


@lru_cache(2**16)
def short_name(name: str) -> str:
    """`gpu-01` of `gpu-01.example.com`; nothing of an address."""
    if "." not in name:
        return ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return ""


def quick_key(labels: Mapping[str, str]) -> str:
    """The same for the same labels, and cheap: most of the time goes into this."""
    return "\0".join([*labels, *labels.values()])


def intern_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The same, each text plain and held once in the whole program."""
    return {intern(name): plain_label(value) for name, value in labels.items()}


def plain_label(text: str) -> str:
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
    return plain_label(text)[:_LONGEST_SHOWN]
