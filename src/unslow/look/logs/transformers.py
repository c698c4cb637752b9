"""What Transformers and Accelerate print of a model that does not fit: their warnings, and the map of its devices.

`Some parameters are on the meta device because they were offloaded to the cpu and disk.` names the place of what did
not fit; `model.hf_device_map` prints as `{'model.embed_tokens': 0, 'model.layers.0': 0, 'model.layers.1': 'cpu'}`.
"""

import re
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, reported
from unslow.look.logs.dialect import LineDialect, Seen

NAME = "Transformers"
_MOST_WARNINGS = 8
_MAPPED = re.compile(
    r"""['"][\w.]{0,80}?\blayers\.(\d{1,4})['"]: ?(?:(\d{1,3})|['"](cuda(?::\d{1,3})?|cpu|disk|mps)['"])"""
)
_COMPLAINTS = ("on the meta device", "attempting to use Flash Attention 2", "modules are dispatched on the CPU")


class TransformersReader:
    """One pass over a text that holds lines of Transformers."""

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._warned = ""
        self._facts: dict[str, Known[Any]] = {}
        self._named = ""
        self._lines = 0

    def take(self, line: str, where: str) -> bool:
        if any(words in line for words in _COMPLAINTS):
            self._warned = self._warned or where
            if len(self._warnings) < _MOST_WARNINGS:
                self._warnings.append(line.strip()[:200])
        elif places := {int(number): device for number, _, device in _MAPPED.findall(line)}:
            # The layers by their devices; a number is that of a GPU
            on_gpu = sum(device not in ("cpu", "disk") for device in places.values())
            self._facts |= {"gpu_layers": reported(on_gpu, where), "layers": reported(len(places), where)}
        else:
            return False
        self._named = self._named or where
        self._lines += 1
        return True

    def skip(self, needle: str, count: int) -> None:
        """Warnings that repeat tell nothing new."""

    def seen(self, source: str) -> Seen:  # noqa: ARG002 (every fact has its own line)
        """The runtime by what it complains of, and where its layers are."""
        if not self._lines:
            return Seen()
        facts: dict[str, Any] = {"name": reported(NAME, self._named), **self._facts}
        if self._warnings:
            facts["warnings"] = reported(self._warnings, self._warned)
        return Seen(subject=Subject(runtime=Runtime(**facts)), lines=self._lines)


DIALECT = LineDialect(needles=(*_COMPLAINTS, "layers.0': ", 'layers.0": '), start=TransformersReader)
