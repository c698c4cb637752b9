"""The command line that a user gives, the program that it starts, and the same with other settings."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.facts.masking import keyless_command
from unslow.look.command_line import Flags
from unslow.look.gguf_server_flags import FLAGS as LLAMA
from unslow.look.runtimes.koboldcpp.flags import FLAGS as KOBOLD
from unslow.look.runtimes.mlx_lm import FLAGS as MLX
from unslow.look.runtimes.sglang import FLAGS as SGLANG
from unslow.look.runtimes.tgi import FLAGS as TGI
from unslow.look.runtimes.vllm.flags import FLAGS as VLLM

Words = Sequence[str]

_LLAMA = {n: n for n in ("host", "port", "threads", "threads_batch", "batch", "ubatch", "context", "slots")}
_WHERE = {"host": "host", "port": "port"}
_QUEUED = {**_WHERE, "context": "context", "batch": "batched_tokens", "slots": "sequences"}
_KOBOLD = {
    **_WHERE,
    "context": "contextsize",
    "threads": "threads",
    "threads_batch": "blasthreads",
    "batch": "batchsize",
    "slots": "parallelrequests",
}

LOOPBACK = "127.0.0.1"

LONGEST = 32_768
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_BOXES = ("docker", "podman", "nerdctl", "kubectl", "ssh", "wsl", "wsl.exe", "systemctl", "snap", "flatpak")
_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "2>", "2>&1", "<", "&>"})
_HOME = "~/"


class Program(NamedTuple):
    """A server's program: its flags, which of them spell which setting, and where it says that it is ready."""

    name: str
    starts: Callable[[Words], bool]  # Whether a command line that begins so starts this program
    flags: Flags
    names: Mapping[str, str]  # By setting: the name of its flag in the program's own table
    health: str = "/health"
    in_the_way: tuple[str, ...] = ()  # Flags that would have it listen elsewhere
    key_flag: str = "api_key"
    """The flag with the key that it wants of those who ask; llama.cpp may have several keys, which its module reads."""


class Command(NamedTuple):
    """A program with its arguments, and the variables that stand before it."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


def parse_command(text: str) -> Command:
    """The words of a command line and the variables before them; UserError where it cannot be started as it is."""
    if len(text) > LONGEST or "\0" in text:
        raise UserError(
            "this is not a valid command line", f"it is longer than {LONGEST} characters, or has zero bytes"
        )
    try:
        words = [_at_home(word) for word in shlex.split(text.replace("\\\n", " "))]
    except ValueError as error:
        raise UserError(f"the command can't be read: {str(error).lower()}", "is a quote missing?") from error
    variables: dict[str, str] = {}
    while words and _VARIABLE.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if not words:
        raise UserError("the command is empty", 'give it in quotes: --command "llama-server -m model.gguf"')
    if shell := next((word for word in words if word in _SHELL_WORDS), ""):
        hint = "leave it out; the output goes to a log that unslow reads"
        raise UserError(f"the command contains {shell!r}, which needs a shell; unslow does not use one", hint)
    if words[0].rpartition("/")[2] in _BOXES:
        hint = "give the program itself, not the tool that starts it"
        raise UserError(f"{words[0]} starts a server elsewhere, where unslow can't stop it", hint)
    program_of(words)
    return Command(tuple(words), variables)


def _at_home(word: str) -> str:
    """A path that begins at home as a shell would read it, also behind a flag with an equals sign."""
    flag, equals, value = word.partition("=")
    if equals and value.startswith(_HOME):
        return f"{flag}={os.path.expanduser(value)}"  # noqa: PTH111 (a word, and no path in itself)
    return os.path.expanduser(word) if word.startswith(_HOME) else word  # noqa: PTH111 (the same)


def found_file(command: Command) -> str:
    """The file of the program that is to be started; UserError where there is none, or one that cannot be run."""
    program = command.words[0]
    found = shutil.which(program, path=command.variables.get("PATH"))
    if found:
        return found
    if os.sep in program:
        why = "cannot be run" if os.path.exists(program) else "does not exist"  # noqa: PTH110 (given as a word)
        raise UserError(f"{program} {why}", "give the path of the server's program")
    raise UserError(f"{program} is not on the PATH", "give its full path, or install it")


def with_settings(command: Sequence[str], settings: Mapping[str, int | str]) -> list[str]:
    """The command line with these settings, spelled as its program spells them; UserError where it has no such one."""
    program, at = program_of(command)
    for setting in settings:
        if setting not in program.names:
            there = ", ".join(name for name in program.names if name not in ("host", "port"))
            raise UserError(f"{program.name} has no setting for {setting}", f"it has {there}")
    flags = {program.names[setting]: str(value) for setting, value in settings.items()}
    words = [word for name, value in flags.items() for word in (program.flags[name].spellings[0], value)]
    return [*command[:at], *program.flags.without(command[at:], flags), *words]


def on_loopback(command: Sequence[str], port: int) -> list[str]:
    """The command line that listens on this port of loopback and nowhere else."""
    program, at = program_of(command)
    own = program.flags.without(command[at:], program.in_the_way)
    return with_settings([*command[:at], *own], {"host": LOOPBACK, "port": port})


def variables_of(command: Sequence[str], settings: Iterable[str]) -> list[str]:
    """The environment variables that would set the same, and so must not be there."""
    program, _ = program_of(command)
    names = [program.names[setting] for setting in settings if setting in program.names]
    return [variable for name in names for variable in program.flags[name].variables]


def can_set(command: Sequence[str], setting: str) -> bool:
    """Whether the program of a command line has such a setting."""
    return setting in program_of(command)[0].names


def command_without_secrets(command: Sequence[str]) -> str:
    """The command line as anyone may see it, for a shell."""
    program, at = program_of(command)
    return shlex.join([*command[:at], *program.flags.without_secrets(command[at:])])


def program_of(command: Sequence[str]) -> tuple[Program, int]:
    """The program that a command line starts and the word it begins at; UserError where none is known.

    What stands before it (env, numactl, taskset, an interpreter) keeps its own flags, which may look like the server's.
    """
    for at in range(len(command)):
        for program in PROGRAMS:
            if program.starts(command[at:]):
                return program, at
    known = ", ".join(program.name for program in PROGRAMS)
    hint = f"give the line that starts the server itself; known are the servers of {known}"
    line = " ".join(keyless_command(list(command)))[:200]
    raise UserError(f"the command {line!r} starts no known server", hint)


def _program_name(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _is_llama(words: Words) -> bool:
    name, following = _program_name(words[0]), list(words[1:2])
    old = name == "server" and any(word.endswith(".gguf") for word in words)
    return name.startswith("llama-server") or (name == "llama" and following in (["serve"], ["server"])) or old


def _starts(*names: str, serving: tuple[str, ...] = (), word: str = "serve") -> Callable[[Words], bool]:
    """By a program of these names, or by one of the others with the word by which it serves."""

    def starts(words: Words) -> bool:
        name = _program_name(words[0])
        return name in names or (name in serving and list(words[1:2]) == [word])

    return starts


PROGRAMS: tuple[Program, ...] = (
    Program("llama.cpp", _is_llama, LLAMA, _LLAMA, key_flag=""),
    Program(
        "vLLM", _starts("vllm.entrypoints.openai.api_server", serving=("vllm",)), VLLM, _QUEUED, in_the_way=("socket",)
    ),
    Program("SGLang", _starts("sglang.launch_server", serving=("sglang",)), SGLANG, _QUEUED),
    Program("TGI", _starts("text-generation-launcher"), TGI, _QUEUED),
    Program(
        "MLX-LM",
        _starts("mlx_lm.server", serving=("mlx_lm", "mlx-lm"), word="server"),
        MLX,
        {**_WHERE, "batch": "batched_tokens", "slots": "sequences"},
    ),
    Program(
        "KoboldCpp", lambda words: _program_name(words[0]).startswith("koboldcpp"), KOBOLD, _KOBOLD, "/api/v1/model"
    ),
)
