"""What Transformers and Accelerate print of a model that does not fit: their warnings, and the map of its devices.

`Some parameters are on the meta device because they were offloaded to the cpu and disk.` names the place of what did
not fit; `model.hf_device_map` prints as `{'model.embed_tokens': 0, 'model.layers.0': 0, 'model.layers.1': 'cpu'}`.
"""

import re

from unslow.facts.values import reported_fact
from unslow.look.logs.dialect import LineDialect, NamedReader

_MOST_WARNINGS = 8
_MAPPED = re.compile(
    r"""['"][\w.]{0,80}?\blayers\.(\d{1,4})['"]: ?(?:(\d{1,3})|['"](cuda(?::\d{1,3})?|cpu|disk|mps)['"])"""
)
_COMPLAINTS = ("on the meta device", "attempting to use Flash Attention 2", "modules are dispatched on the CPU")


class TransformersReader(NamedReader):
    """One pass over a text that holds lines of Transformers."""

    program = "Transformers"

    def recognise(self, line: str, where: str) -> bool:
        if any(words in line for words in _COMPLAINTS):
            warnings = self.facts.setdefault("warnings", reported_fact([], where)).value
            if len(warnings) < _MOST_WARNINGS:
                warnings.append(line.strip()[:200])
        elif places := {int(number): device for number, _, device in _MAPPED.findall(line)}:
            # The layers by their devices; a number is that of a GPU
            on_gpu = sum(device not in ("cpu", "disk") for device in places.values())
            self.facts |= {"gpu_layers": reported_fact(on_gpu, where), "layers": reported_fact(len(places), where)}
        else:
            return False
        return True


DIALECT = LineDialect(needles=(*_COMPLAINTS, "layers.0': ", 'layers.0": '), start=TransformersReader)
