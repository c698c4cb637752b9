"""The flags of llama.cpp: those that a build of llama-server has, and those of command lines as people paste them."""

import re
from collections.abc import Mapping, Sequence

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Known, reported_fact
from unslow.look.command_line import name_of_path
from unslow.look.gguf_server_flags import FLAGS, parse_settings, without_secrets
from unslow.look.logs.commands import CommandLines
from unslow.look.runtimes._gguf_server import FLASH_ATTENTION_TAKES_A_VALUE, LOAD_MODE, build_number, requested_settings
from unslow.look.system import System, try_look

_FLAG = re.compile(r"(-{1,2}[A-Za-z][\w.-]{0,60})(,\s*)?")
_TIMEOUT_S = 15.0  # a build for CUDA looks for its devices first
_LONGEST = 2**20  # of the text: it is about 60 kB
_SERVERS = re.compile(r"llama-server[\w.-]{0,40}|llama(?:\.exe)?|server(?:\.exe)?")
_FEWEST = 50  # flags: a text with fewer is not the help
_MOST_KEPT = 8
_ASKED: list[tuple[System, tuple[str, str], Mapping[str, str]]] = []  # Every program is asked once in a run
# by the builds in which common/arg.cpp first had each flag; all others here are older than that file (b3717, 2024-09)
SINCE: Mapping[str, int] = {
    "-dev": 4168, "-ot": 5028, "--no-op-offload": 5346, "--swa-full": 5429, "--reasoning-budget": 5488, "-kvu": 5913,
    "-cmoe": 6089, "-ncmoe": 6089, "--fit": 7407, "-fitt": 7407, "--sleep-idle-seconds": 7492, "-dio": 7668,
    "--no-cache-prompt": 7716, "--spec-type": 7864, "--spec-draft-n-max": 8955, "-lm": LOAD_MODE,
}  # fmt: skip
VALUES_SINCE: Mapping[tuple[str, str], int] = {
    ("-fa", "on"): FLASH_ATTENTION_TAKES_A_VALUE,
    ("-ngl", "all"): 7553,
    ("-sm", "tensor"): 8738,
    ("-lm", "mmap+mlock"): 10145,
    ("-lm", "auto"): 10364,
    **{("--spec-type", f"ngram-{kind}"): 9109 for kind in ("simple", "map-k", "map-k4v", "mod", "cache")},
    ("--spec-type", "draft-simple"): 9131,
    ("--spec-type", "draft-eagle3"): 9131,
    ("--spec-type", "draft-mtp"): 9180,
    ("--spec-type", "draft-dflash"): 9831,
    ("--spec-type", "draft-dspark"): 10163,
}

# pasted command lines
_SOURCE = "command line"
# long flags that other programs have too, and the few short ones that nothing else could mean
_SHARED = frozenset({
    "--model", "--host", "--port", "--api-key", "--threads", "--device", "--alias", "--parallel", "--seed", "--metrics",
    "--numa", "--batch-size", "--temp", "--top-k", "--top-p", "--verbose", "--dtype", "--poll", "--prio", "--fit",
    "--json-schema", "--grammar", "--help", "--version",
})  # fmt: skip
_SHORT = frozenset({"-ngl", "-fa", "-ctk", "-ctv", "-ub", "-ncmoe", "-cmoe", "-nkvo", "-ngld", "-fitt"})
_OWN = frozenset(word for word in FLAGS.spellings if word.startswith("--")) - _SHARED | _SHORT


def read_own_options(system: System, runtime: Runtime) -> Mapping[str, str]:
    """The flags of the very program that a server of this machine runs; none where that is not there to ask."""
    pid, boxed = runtime.process.pid.value_or(0), runtime.process.container.value_or("")
    if not pid or boxed:
        return {}
    program = try_look("", system.read_link, f"/proc/{pid}/exe")
    if not _SERVERS.fullmatch(name_of_path(program)):
        return {}
    # The word by which a program that is many in one serves
    words = runtime.process.command.value[1:2] if isinstance(runtime.process.command, Known) else []
    subcommand = next((word for word in words if word in ("serve", "server")), "")
    return read_options(system, program, subcommand)


def read_options(system: System, program: str, subcommand: str = "") -> Mapping[str, str]:
    """The flags of a program that a user runs or names, by its own help; none where it cannot be asked."""
    for asked, words, options in _ASKED:
        if asked is system and words == (program, subcommand):
            return options
    said = try_look(None, system.run, [program, *([subcommand] if subcommand else []), "--help"], _TIMEOUT_S)
    found = parse_help((said.stdout or said.stderr)[:_LONGEST]) if said else {}
    found = found if len(found) >= _FEWEST else {}
    _ASKED.append((system, (program, subcommand), found))
    del _ASKED[:-_MOST_KEPT]
    return found


def parse_help(text: str) -> dict[str, str]:
    """Every flag with its part of the text; those that are only there to say that they are gone are left out."""
    entries: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("-") and _FLAG.match(line) and not line.startswith("---"):
            entries.append([line])
        elif entries and line.startswith(" "):
            entries[-1].append(line)
    found = {}
    for lines in entries:
        if "argument has been removed" in " ".join(" ".join(lines).split()):
            continue
        at = 0
        while match := _FLAG.match(lines[0], at):  # the flags at its start, up to the first that no comma follows
            found[match[1]] = "\n".join(lines)
            at = match.end() if match[2] else len(lines[0])
    return found


class Options:
    """The flags of the build at hand, by its own help, else by its number; one without either is taken for new."""

    def __init__(self, runtime: Runtime, told: Mapping[str, str], *, anew: bool = False) -> None:
        self._build, self._told, self._anew = build_number(runtime.version), told, anew
        signs = (runtime.version, runtime.process.pid, runtime.process.url)
        self._is_seen = any(isinstance(fact, Known) for fact in signs)

    @property
    def fits_by_itself(self) -> bool:
        """Whether no number of layers means as many as fit: in older builds, of which a text may tell, none.

        One that does not run yet is a new build.
        """
        if self._told or self._build or self._anew:
            return self.has("--fit")
        return self._is_seen

    def has(self, flag: str) -> bool:
        """Whether the build knows a flag."""
        return flag in self._told if self._told else self._build is None or self._build >= SINCE.get(flag, 0)

    def takes(self, flag: str, value: str) -> bool:
        """Whether it knows the flag, and this word as its value."""
        if self._told:
            return bool(re.search(rf"(?<![\w+-]){re.escape(value)}(?![\w+-])", self._told.get(flag, "")))
        since = VALUES_SINCE.get((flag, value), 0)
        return self.has(flag) and (self._build is None or self._build >= since)

    def without(self, flag: str, value: str = "") -> str:
        """Why a flag, or a value of it, is not to be had."""
        words = f"{flag} {value}".strip()
        since = max(SINCE.get(flag, 0), VALUES_SINCE.get((flag, value), 0))
        if self._told or not self._build:
            return f"this llama-server has no {words}"
        return f"b{self._build} has no {words}, which came with b{since}"


def parse_command(command: Sequence[str], environment: Mapping[str, str]) -> Subject:
    """What the command asks for."""
    settings = parse_settings(command, environment)
    runtime = requested_settings(settings, complete=False)
    model = Model()
    if "model" in settings:
        path = settings["model"].value
        stem = re.split(r"[/\\]", path)[-1].removesuffix(".gguf")
        model = Model(path=reported_fact(path, _SOURCE), name=reported_fact(stem, _SOURCE) if stem else NOT_LOOKED)
    elif "repository" in settings:
        model = Model(name=reported_fact(settings["repository"].value, _SOURCE))
    shown = reported_fact(without_secrets(command), _SOURCE)
    return Subject(runtime=runtime.with_facts(name=reported_fact("llama.cpp", _SOURCE), command=shown), model=model)


COMMANDS = CommandLines(
    program=re.compile(
        r"(?<![\w-])llama-(?:server|cli|completion|bench|mtmd-cli|simple|run)(?:\.exe)?(?![\w-])"
        r"|(?<=\./)(?:main|server)(?=\s+-)|(?<=bin/)(?:main|server)(?=\s+-)|\bmain\.exe(?=\s+-)"
        r"|ghcr\.io/ggml-org/llama\.cpp:[\w.-]{1,40}|\bllama (?:serve|cli|bench)\b"
    ),
    flags=_OWN,
    variables=("LLAMA_ARG_", "LLAMA_LOG_", "GGML_"),
    parse=parse_command,
)
