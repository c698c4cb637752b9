"""Prompts of shells that were copied with the commands, and paths that only one system has: which system it is."""

import re
from collections.abc import Iterator

from unslow.facts.machine import Machine, System
from unslow.facts.values import reported
from unslow.look.logs.dialect import Seen, Text

_WINDOWS, _LINUX, _MAC = "Windows", "Linux", "macOS"
_BEFORE = r"^\s{0,8}(?:[>$#*`]{1,3} )?(?:\([\w.-]{1,40}\) )?"
"""A quotation's mark, and the environment of Python or Conda."""
_HOST = r"[\w.-]{1,60}@[\w.-]{1,60}"
_PROMPTS = (
    (re.compile(rf"{_BEFORE}(?:PS )?[A-Za-z]:\\[^<>|\"?*]{{0,200}}>"), _WINDOWS),
    (re.compile(rf"{_BEFORE}{_HOST} \S{{1,80}} % "), _MAC),  # the prompt of zsh as macOS sets it
    (re.compile(rf"{_BEFORE}[\w-]{{1,60}}:\S{{1,80}} [\w.-]{{1,40}}\$ "), _MAC),  # that of its bash: `Mac:~ bob$`
    (re.compile(rf"{_BEFORE}{_HOST}:[~/]\S{{0,120}}\s?[$#](?: |$)"), _LINUX),  # that of bash on Debian and Ubuntu
    (re.compile(rf"{_BEFORE}\[{_HOST} \S{{1,80}}\][$#](?: |$)"), _LINUX),  # and on Fedora
)
_PATHS = (
    (re.compile(r"(?<![\w:/.])/Users/[\w.-]{1,60}/"), _MAC),
    (re.compile(r"(?<!\w)[A-Za-z]:\\(?:Users|Windows|Program Files|ProgramData)\\"), _WINDOWS),
)
_NEAR = 80
"""Characters behind a prompt in which the name of a program stands, also after `.\\` or a variable."""
_RUNS_IT = re.compile(r"(?i)\b(?:ollama|llama\S*|vllm|lms|nvidia-smi|rocm-smi|koboldcpp\S*|sglang|mlx\S*)")


def parse_text(text: Text) -> Seen:
    """The system of the first prompt at which a runtime was called; else of the first prompt, else of a path."""
    found = [(surer, index, system) for index, line in enumerate(text.lines) for surer, system in _systems(line)]
    if not found:
        return Seen()
    _, index, system = min(found)
    return Seen(machine=Machine(system=System(name=reported(system, text.where(index)))), lines=1)


def _systems(line: str) -> Iterator[tuple[int, str]]:
    """What a line tells, with how sure that is of the runtime: 0 is surest."""
    for pattern, system in _PROMPTS:
        if prompt := pattern.match(line):
            yield (0 if _RUNS_IT.search(line, prompt.end(), prompt.end() + _NEAR) else 1), system
    yield from ((2, system) for pattern, system in _PATHS if pattern.search(line))
