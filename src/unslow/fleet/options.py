"""What of a Prometheus is read: how far back, compared with when, which series, and how they are joined."""

import re

import msgspec

from unslow.facts.errors import UserError
from unslow.fleet.matchers import parse_matchers

MOST_SERIES = 100_000  # of one exporter: ten thousand machines with eight GPUs each fit
_SHORTEST_S, _LONGEST_S = 60.0, 7 * 86400.0
"""A window holds at least a few scrapes; a week of ten thousand machines is more than a Prometheus answers at once."""
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Which labels join what belongs together: the first that is there holds."""

    host: tuple[str, ...] = (
        "node", "kubernetes_node", "exported_node", "nodename", "exported_hostname", "Hostname", "hostname", "host",
        "machine",
    )  # fmt: skip
    gpu: tuple[str, ...] = ("exported_pod", "pod", "pod_name", "exported_pod_name")
    """Of a GPU's series: the pod that it was given to."""
    namespace: tuple[str, ...] = ("exported_namespace", "namespace", "pod_namespace", "kubernetes_namespace")
    pod: tuple[str, ...] = ("pod", "kubernetes_pod_name", "pod_name")
    """Of an engine's series: its own pod."""
    model: tuple[str, ...] = ("model", "served_model", "served_model_name", "model_name", "model_id")
    version: tuple[str, ...] = ("version", "runtime_version", "app_version", "app_kubernetes_io_version")
    gpus: tuple[str, ...] = ("gpu_ids", "gpus", "cuda_visible_devices")
    """Of an engine's series: the numbers of its GPUs, such as `0,1`."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The user's wishes; `match` and `engines` hold label matchers such as `cluster="a",env=~"prod.*"`."""

    window_s: float = 900.0
    compare_s: float = 86400.0
    """How long ago the time is that the window is compared with; 0 for none."""
    match: str = ""
    """For every series that is read."""
    engines: str = ""
    """For the series of engines only, such as `namespace="llm"`, which a host's series don't have; engines that are not
    scraped themselves are left out then."""
    join: str = ""
    """Label names where the usual ones don't fit, such as `host=machine,gpu=exported_pod`."""
    most_series: int = MOST_SERIES

    def matchers(self, *, engines: bool = False) -> str:
        """What goes into the braces of a selector; UserError where the user's words are no matchers."""
        parts = [parse_matchers(self.match), parse_matchers(self.engines) if engines else ""]
        return ",".join(part for part in parts if part)

    def labels(self) -> Labels:
        """The labels to join by: those that the user names go before the usual ones."""
        usual, own = Labels(), {}
        for pair in filter(None, (part.strip() for part in self.join.split(","))):
            what, _, name = pair.partition("=")
            if what not in Labels.__struct_fields__ or not _LABEL.fullmatch(name):
                raise UserError(f"{pair[:60]!r} does not say how to join", _join_hint())
            own[what] = (name, *getattr(usual, what))
        return msgspec.structs.replace(usual, **own)

    def checked(self) -> "Options":
        """The same, where everything in it can be used; else UserError."""
        if not _SHORTEST_S <= self.window_s <= _LONGEST_S:
            raise UserError(f"a window of {self.window_s:g} s can't be judged", "take one from a minute to seven days")
        if self.compare_s and self.compare_s < self.window_s:
            raise UserError(
                "the time to compare with lies within the window", "take one longer ago than the window, or 0 for none"
            )
        self.matchers(engines=True)
        self.labels()
        return self


def _join_hint() -> str:
    return f"write label=name, such as host=machine; labels are {', '.join(Labels.__struct_fields__)}"
