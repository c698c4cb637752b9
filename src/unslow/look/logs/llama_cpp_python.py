"""Settings of llama.cpp as programs in Python give them: `Llama(model_path=..., n_gpu_layers=-1, n_ctx=4096)`."""

import re
from collections.abc import Callable
from typing import Any

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.dialect import Seen, Text

ALL_LAYERS = 9999
"""What -1 stands for: more layers than any model has."""
_SETTING = re.compile(r"""(?<![\w.-])["']?(n_gpu_layers|n_ctx|n_threads|n_batch|n_ubatch|flash_attn|offload_kqv)["']?
                          \s{0,3}[=:]\s{0,3}(-?[0-9]{1,9}|True|False)(?![\w.])""", re.VERBOSE)  # fmt: skip
_PATH = re.compile(r"""(?<![\w.-])["']?model_path["']?\s{0,3}[=:]\s{0,3}["']([^"'\n]{1,400}\.gguf)["']""")


def _layers(text: str) -> int | None:
    return ALL_LAYERS if text == "-1" else _count(text)


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _positive(text: str) -> int | None:
    return _count(text) or None


def _truth(text: str) -> bool | None:
    return {"True": True, "False": False}.get(text)


_FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "n_gpu_layers": ("gpu_layers_set", _layers),
    "n_ctx": ("context_set", _positive),
    "n_threads": ("threads", _positive),
    "n_batch": ("batch", _positive),
    "n_ubatch": ("ubatch", _positive),
    "flash_attn": ("flash_attention", _truth),
    "offload_kqv": ("kv_offload", _truth),
}


def parse_text(text: Text) -> Seen:
    """The last value of each setting; nothing where no line sets the layers or the file, which nobody else calls so."""
    facts: dict[str, Any] = {}
    path: Fact[str] = NOT_LOOKED
    lines: set[int] = set()
    for index, line in enumerate(text.lines):
        if "n_" not in line and "model_path" not in line and "flash_attn" not in line:
            continue
        where = text.where(index)
        for name, written in _SETTING.findall(line):
            fact, value = _FACTS[name]
            if (known := value(written)) is not None:
                facts[fact] = reported(known, where)
                lines.add(index)
        if found := _PATH.search(line):
            path = reported(found[1], where)
            lines.add(index)
    if "gpu_layers_set" not in facts and path == NOT_LOOKED:
        return Seen()
    name = reported("llama.cpp", text.where(min(lines)))
    return Seen(subject=Subject(runtime=Runtime(name=name, **facts), model=Model(path=path)), lines=len(lines))
