"""What is left for whoever reads words: lines that no program wrote."""

import re
from collections.abc import Sequence

from unslow.look.logs.dialect import Text

# How programs begin the lines that no dialect cared for.
_WRITTEN = re.compile(
    r"""(?x)
      \d{1,6}\.\d\d\.\d{3}\.\d{3}\ [IWED]\         # llama.cpp's clock and level
    | (?:slot|srv|cmn|que|spec)\ +\w+:\s              # its server
    | \w{0,60}(?:llama|ggml|gguf|load|print|clip|sched|common)_\w{1,80}:\s   # functions of llama.cpp
    | load:\s+(?:-|special|token|control|printing|\d)
    | time=\S+\ level=                               # Ollama
    | \[GIN\]\ \d
    | (?:\(\w+(?:\ \w+=\d+)?\)\ )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\ \d\d-\d\d\ \d\d:   # vLLM
    | \[\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d[^\]]*\]\s
    | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+\[?(?:DEBUG|INFO|WARN|WARNING|ERROR)\b
    | [+|][-=+|]{4,}\s*$                             # borders of tables
    """
)


def without_programs(text: Text) -> Text:
    """The lines that do not look like a program's log, with their numbers."""
    left = [(n, line) for n, line in zip(text.numbers, text.lines, strict=True) if not _WRITTEN.match(line.lstrip())]
    return Text([line for _, line in left], text.source, numbers=[number for number, _ in left])


def outside(texts: Sequence[Text], taken: set[int]) -> Text:
    """The lines of all texts that stand in none of the blocks that were read."""
    numbered = [(n, line) for text in texts for n, line in zip(text.numbers, text.lines, strict=True) if n not in taken]
    source = texts[0].source if texts else ""
    return Text([line for _, line in numbered], source, numbers=[number for number, _ in numbered])
