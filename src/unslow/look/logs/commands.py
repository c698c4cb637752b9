"""Command lines and environments as people paste them: in shells, in compose files, in a sentence; and the prompts."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.masking import masked_command, masked_environment
from unslow.facts.merge import overlaid
from unslow.facts.runtime import FACT_PATHS, Runtime, ServerProcess
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, KIB, MIB, NOT_LOOKED, Known, Unknown, reported_fact
from unslow.look.kernel.processors import parse_cpu_list
from unslow.look.logs.dialect import LogFacts, Text, TextDialect
from unslow.look.logs.text_blocks import facts_at_place

# where a command ends, and what it asks the model
_PROMPT_FLAGS = ("-p", "--prompt", "-sys", "--system-prompt")
_COUNTS_PROMPTS = re.compile(r"llama-bench|\bbench\b")  # Its `-p` is a number of tokens
_WORDS = frozenset({
    "a", "an", "and", "at", "because", "but", "for", "from", "get", "gets", "getting", "gives", "i", "in", "is", "it",
    "my", "of", "or", "so", "the", "then", "this", "to", "using", "when", "where", "which", "while", "with",
})  # fmt: skip
_COMMAND_END_MARKS = (".", ",", ";", ":", "!", "?")
_VALUES = frozenset({"on", "off", "auto", "true", "false", "none"})
_PLAIN = re.compile(r"[a-z]+[.,!?]?")

# commands within lines
_MOST_JOINED = 40
_MOST_WORDS = 400
_MOST_BEFORE_FLAG = 4
_LONGEST = 8192
_FLAG = re.compile(r"(?:^|[\s`'\"(=])--?[A-Za-z]")
_LONGEST_FOLDER = 300
_FOLDER = re.compile(r"(?<![^\s`'\"=(])(?:~|\.{1,2})?/(?:[\w.+-]{1,80}/){0,12}$")
_MARKS = ("\\", "^", "`")
_CONTINUED = re.compile(r"\s[\\^`]\s*$")
_END_OF_COMMAND = re.compile(r"(?<!\\)[`;]|\s(?:&&|\|\|?|2?>>?|<|#)\s|&\s*$")

# variables
_VARIABLE = re.compile(r"""(?<![\w$])([A-Z][A-Z0-9_]{3,40})=("[^"\n]{0,200}"|'[^'\n]{0,200}'|[^\s,;\]"'`]{1,200})""")
# an empty list hides every GPU; other variables that are empty say nothing
_EMPTY_LIST = re.compile(r"""(?<![\w$])([A-Z]{3,10}_VISIBLE_DEVICES)=(?=["']?\s*$|\s+[./a-z])""")
_WINDOWS_VARIABLE = re.compile(r"""(?:\$env:|\bsetx\s+)([A-Z][A-Z0-9_]{3,40})[\s=]{0,16}["']?([^\s"']{1,200})""")
_LISTED_VARIABLE = re.compile(r"""^\s*-?\s*([A-Z][A-Z0-9_]{3,40}):\s+["']?([^\s"'#]{1,200})""")
# words before a flag that take it back, or only speak of it
_NOT_GIVEN = re.compile(
    r"(?i)\b(?:without|not|never|no|removed?|removing|drop|dropped|dropping|instead|try|tried|trying|suggest\w*|should|"
    r"could|would|might|maybe|perhaps|if|lacks?|lacking|missing|omit\w*|support\w*|than)\W+(?:\w+\W+){0,2}$"
)
_OWN_RUNNER = re.compile(r"\bollama(?:\.exe)?[\"']? runner\b|\bollama_llama_server\b")
_GENERAL = ("CUDA_", "HIP_", "ROCR_", "HSA_", "OMP_", "NCCL_", "ONEAPI_", "ZES_", "GPU_MAX_", "PYTORCH_", "HF_HOME")

# containers and their limits
_CONTAINERS = re.compile(r"\b(docker|podman|nerdctl)(?: container)? (?:run|create)\b")
_SERVICES, _IMAGE = re.compile(r"\s*services:\s*$"), re.compile(r"\s+image:\s*\S")
_CPUS = re.compile(r"--cpus[= ](\d{1,4}(?:\.\d{1,3})?)(?![\w-])")
_CPU_SET = re.compile(r"--cpuset-cpus[= ]['\"]?(\d[\d,-]{0,60})")
_LIMIT = re.compile(r"(?:--memory|\s-m)[= ](\d{1,9})([bkmgBKMG])\b")
_UNITS = {"b": 1, "k": KIB, "m": MIB, "g": GIB}

# prompts of shells
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
_NEAR = 80  # Characters behind a prompt in which the name of a program stands, also after `.\` or a variable
_RUNS_IT = re.compile(r"(?i)\b(?:ollama|llama\S*|vllm|lms|nvidia-smi|rocm-smi|koboldcpp\S*|sglang|mlx\S*)")


class CommandLines(NamedTuple):
    """What a runtime's command lines look like as people paste them, and what they mean."""

    program: re.Pattern[str]  # Finds the program in a line; the words of the command begin where it is found
    flags: frozenset[str]
    """Spellings that only this runtime has: they are its own even where no program stands before them."""
    variables: tuple[str, ...]  # How the names of its environment variables begin, such as `OLLAMA_`
    parse: Callable[[Sequence[str], Mapping[str, str]], Subject]
    """The facts of a command, the program being its first word, and of an environment; sources are put in later."""


def parse_commands(commands: CommandLines, text: Text) -> LogFacts:
    """What one runtime was told by all commands and variables in a text; later ones are laid over earlier ones."""
    subject, lines = Subject(), 0
    for line, first, end in _join_lines(text):
        environment = {k: v for k, v in _variables(line).items() if k.startswith(commands.variables)}
        words = _command_words(commands, line) if _FLAG.search(line) else []
        if len(words) < 2 and not environment:  # noqa: PLR2004 (a program and a flag)
            continue
        said = commands.parse(words, environment)
        command = said.runtime.process.command
        # Only what the command says: what it does not say may stand anywhere else
        facts = {name: said.runtime.fact(name) for name in FACT_PATHS}
        changes: dict[str, Any] = {name: NOT_LOOKED for name, fact in facts.items() if isinstance(fact, Unknown)}
        if isinstance(command, Known):
            whole = len(command.value) > 1 and bool(command.value[0])
            runnable = reported_fact(masked_command(runnable_command(command.value)), command.source)
            changes["command"] = runnable if whole else NOT_LOOKED
        said = msgspec.structs.replace(said, runtime=said.runtime.with_facts(**changes))
        said = facts_at_place(said, text.where(first))
        if _OWN_RUNNER.search(line):
            # What a server gives to the program that it starts is what it decided on, not what a person asked for
            layers = said.runtime.placement.gpu_layers_set
            chosen = layers if isinstance(layers, Known) and layers.value >= 0 else said.runtime.placement.gpu_layers
            decided = said.runtime.with_facts(gpu_layers=chosen, gpu_layers_set=NOT_LOOKED)
            said = msgspec.structs.replace(said, runtime=decided)
        subject = _with_command(subject, said, environment, text.where(first))
        lines += end - first
    return LogFacts(subject=subject, lines=lines) if lines else LogFacts()


def parse_commands_text(text: Text) -> LogFacts:
    """What holds for any runtime: variables of drivers, and the limits that a container was given."""
    subject, machine, lines, composing = Subject(), Machine(), 0, False
    for line, first, _ in _join_lines(text):
        where = text.where(first)
        environment = {k: v for k, v in _variables(line).items() if k.startswith(_GENERAL)}
        contained, quota = _CONTAINERS.search(line), _CPUS.search(line)
        if environment:
            subject = _with_command(subject, Subject(), environment, where)
        if contained or quota:
            chosen, limit = _CPU_SET.search(line), _LIMIT.search(line)
            cpus = parse_cpu_list(chosen[1]) if chosen else None
            size = reported_fact(int(limit[1]) * _UNITS[limit[2].lower()], where) if limit else NOT_LOOKED
            cpu = Cpu(
                quota_cpus=reported_fact(float(quota[1]), where) if quota else NOT_LOOKED,
                allowed_cpus=reported_fact(len(cpus), where) if cpus else NOT_LOOKED,
            )
            machine = overlaid(machine, Machine(cpu=cpu, memory=Memory(limit_bytes=size)))
        composing = composing or bool(_SERVICES.match(line))
        composed = composing and _IMAGE.match(line)
        if contained or composed:
            name = reported_fact(contained[1] if contained else "docker compose", where)
            runtime = overlaid(subject.runtime, Runtime(process=ServerProcess(container=name)))
            subject = msgspec.structs.replace(subject, runtime=runtime)
        lines += bool(environment or contained or composed)
    return LogFacts(subject=subject, machine=machine, lines=lines) if lines or machine != Machine() else LogFacts()


def _join_lines(text: Text) -> Iterator[tuple[str, int, int]]:
    """Each line with those it goes on in, by a mark at its end; the index of the first, and that behind the last."""
    index = 0
    while index < len(text.lines):
        first, parts = index, [text.lines[index]]
        while (
            parts[-1].rstrip().endswith(_MARKS)
            and _CONTINUED.search(parts[-1])
            and index + 1 < len(text.lines)
            and len(parts) < _MOST_JOINED
        ):
            parts[-1] = _CONTINUED.sub(" ", parts[-1])
            index += 1
            parts.append(text.lines[index])
        index += 1
        yield "".join(parts)[:_LONGEST], first, index


def _command_words(commands: CommandLines, line: str) -> list[str]:
    """The words of a command, or else flags that are this runtime's own, each with the word after it."""
    # a line may name the program before it shows how it was started: the nearest to the flags is the one
    for program in reversed(list(commands.program.finditer(line))):
        folder = _FOLDER.search(line[max(0, program.start() - _LONGEST_FOLDER) : program.start()])
        command = line[program.start() - (len(folder[0]) if folder else 0) :]
        end = _END_OF_COMMAND.search(command)
        command = command[: end.start()] if end else command
        try:
            words = shlex.split(command, posix=True)[:_MOST_WORDS]
        except ValueError:  # a quote that never ends
            words = [word.strip("\"'") for word in command.split()[:_MOST_WORDS]]
        # flags follow the program soon, and no word between them takes them back
        first = next((at for at, word in enumerate(words[: _MOST_BEFORE_FLAG + 1]) if word.startswith("-")), 0)
        if first and not _NOT_GIVEN.search(" ".join(words[1:first]) + " "):
            return words
    own = [""]
    pieces = list(re.finditer(r"[^\s`'\",;()]{1,200}", line))
    for at, piece in enumerate(pieces):
        flag = piece[0].partition("=")[0].rstrip(".:")
        if flag in commands.flags and not _NOT_GIVEN.search(line[: piece.start()]):
            own.append(piece[0].rstrip(".:"))
            own.extend(following[0].rstrip(".:") for following in pieces[at + 1 : at + 2] if following[0][0] != "-")
    return own


def _variables(line: str) -> dict[str, str]:
    if "=" not in line and ":" not in line and "setx" not in line:
        return {}
    found = {name: value.strip("\"'") for name, value in _VARIABLE.findall(line)}
    found |= dict.fromkeys(_EMPTY_LIST.findall(line), "")
    return found or dict(_WINDOWS_VARIABLE.findall(line)) or dict(_LISTED_VARIABLE.findall(line))


def _with_command(base: Subject, said: Subject, environment: dict[str, str], where: str) -> Subject:
    runtime = overlaid(base.runtime, said.runtime)
    if environment:
        known = {**base.runtime.process.environment.value_or({}), **masked_environment(environment)}
        runtime = runtime.with_facts(environment=reported_fact(known, where))
    return Subject(runtime=runtime, model=overlaid(base.model, said.model))


def runnable_command(command: Sequence[str]) -> list[str]:
    """The command up to the first word that cannot belong to it, without the text that the model was asked."""
    end = _end(command)
    words = list(command[:end])
    if words and not _COUNTS_PROMPTS.search(words[0]):
        words, skip = [], False
        for word in command[:end]:
            flag, equals, _ = word.partition("=")
            if not skip and flag not in _PROMPT_FLAGS:
                words.append(word)
            skip = not skip and flag in _PROMPT_FLAGS and not equals
    if 1 < len(words) < len(command):
        words[-1] = words[-1].rstrip("".join(_COMMAND_END_MARKS))
    return words


def _end(command: Sequence[str]) -> int:
    """Where a sentence goes on: at a bracket, a small word, or a plain one that follows a value; behind a full stop."""
    flagged = False
    for at, word in enumerate(command):
        after_flag = at > 0 and command[at - 1].startswith("-")
        if flagged and not word.startswith("-"):
            plain = not after_flag and (_PLAIN.fullmatch(word) or word in _VALUES)
            if plain or word.startswith(("(", "//")) or word.lower().rstrip(".,") in _WORDS:
                return at
            if len(word) > 1 and word.endswith(_COMMAND_END_MARKS):
                return at + 1
        flagged = flagged or word.startswith("-")
    return len(command)


def parse_prompts_text(text: Text) -> LogFacts:
    """The system of the first prompt at which a runtime was called; else of the first prompt, else of a path."""
    found: list[tuple[int, int, str]] = []  # how sure it is of the runtime, 0 being surest; the line; the system
    for index, line in enumerate(text.lines):
        for pattern, system in _PROMPTS:
            if prompt := pattern.match(line):
                runs_it = _RUNS_IT.search(line, prompt.end(), prompt.end() + _NEAR)
                found.append((0 if runs_it else 1, index, system))
        found += [(2, index, system) for pattern, system in _PATHS if pattern.search(line)]
    if not found:
        return LogFacts()
    _, index, system = min(found)
    return LogFacts(machine=Machine(system=System(name=reported_fact(system, text.where(index)))), lines=1)


TEXT_DIALECTS: dict[str, TextDialect] = {"commands": parse_commands_text, "shell_prompts": parse_prompts_text}
