"""Settings of llama-cpp-python in a pasted script: the keywords of `Llama(...)`, whoever wrote them."""

import re
from collections.abc import Callable
from typing import Any

from unslow.facts.model import Model
from unslow.facts.runtime import ALL_LAYERS, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, reported_fact
from unslow.look.logs.dialect import LogFacts, Text

_SETTING = re.compile(r"""(?<![\w.-])["']?(n_gpu_layers|n_ctx|n_threads|n_batch|n_ubatch|flash_attn|offload_kqv)["']?
                          \s{0,3}[=:]\s{0,3}(-?[0-9]{1,9}|True|False)(?![\w.])""", re.VERBOSE)  # fmt: skip
_PATH = re.compile(r"""(?<![\w.-])["']?model_path["']?\s{0,3}[=:]\s{0,3}["']([^"'\n]{1,400}\.gguf)["']""")
_FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "n_gpu_layers": ("gpu_layers_set", lambda text: ALL_LAYERS if text == "-1" else _count(text)),
    "n_ctx": ("context_set", lambda text: _count(text) or None),
    "n_threads": ("threads", lambda text: _count(text) or None),
    "n_batch": ("batch", lambda text: _count(text) or None),
    "n_ubatch": ("ubatch", lambda text: _count(text) or None),
    "flash_attn": ("flash_attention", {"True": True, "False": False}.get),
    "offload_kqv": ("kv_offload", {"True": True, "False": False}.get),
}


def parse_text(text: Text) -> LogFacts:
    """The last value of each setting; nothing where no line sets the layers or the file."""
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
                facts[fact] = reported_fact(known, where)
                lines.add(index)
        if found := _PATH.search(line):
            path = reported_fact(found[1], where)
            lines.add(index)
    if "gpu_layers_set" not in facts and path == NOT_LOOKED:
        return LogFacts()
    name = reported_fact("llama.cpp", text.where(min(lines)))
    subject = Subject(runtime=Runtime(name=name).with_facts(**facts), model=Model(path=path))
    return LogFacts(subject=subject, lines=len(lines))


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None
