"""Command lines of llama.cpp's programs, and of what starts them in a container."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from unslow.facts.model import Model
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.command_line import Setting
from unslow.look.flags import Commands
from unslow.look.llama_server.arguments import parse_settings, without_secrets
from unslow.look.llama_server.flags import FLAGS
from unslow.look.llama_server.told import told

_SOURCE = "command line"
# long flags that other programs have too, and the few short ones that nothing else could mean
_SHARED = frozenset({
    "--model", "--host", "--port", "--api-key", "--threads", "--device", "--alias", "--parallel", "--seed", "--metrics",
    "--numa", "--batch-size", "--temp", "--top-k", "--top-p", "--verbose", "--dtype", "--poll", "--prio", "--fit",
    "--json-schema", "--grammar", "--help", "--version",
})  # fmt: skip
_SHORT = frozenset({"-ngl", "-fa", "-ctk", "-ctv", "-ub", "-ncmoe", "-cmoe", "-nkvo", "-ngld", "-fitt"})
_SPELLINGS = frozenset(word for flag in FLAGS.values() for word in flag.spellings + flag.opposites)
_OWN = frozenset(word for word in _SPELLINGS if word.startswith("--")) - _SHARED | _SHORT


def parse(command: Sequence[str], environment: Mapping[str, str]) -> Subject:
    """What the command asks for."""
    settings = parse_settings(command, environment)
    runtime = told(settings, complete=False)
    path, name = _model(settings)
    return Subject(
        runtime=msgspec.structs.replace(
            runtime, name=reported("llama.cpp", _SOURCE), command=reported(without_secrets(command), _SOURCE)
        ),
        model=Model(path=path, name=name),
    )


def _model(settings: Mapping[str, Setting]) -> tuple[Fact[str], Fact[str]]:
    """The file, and the name that a file or a repository goes by."""
    if "model" in settings:
        path = settings["model"].value
        stem = re.split(r"[/\\]", path)[-1].removesuffix(".gguf")
        return reported(path, _SOURCE), reported(stem, _SOURCE) if stem else NOT_LOOKED
    if "repository" in settings:
        return NOT_LOOKED, reported(settings["repository"].value, _SOURCE)
    return NOT_LOOKED, NOT_LOOKED


COMMANDS = Commands(
    program=re.compile(
        r"(?<![\w-])llama-(?:server|cli|completion|bench|mtmd-cli|simple|run)(?:\.exe)?(?![\w-])"
        r"|(?<=\./)(?:main|server)(?=\s+-)|(?<=bin/)(?:main|server)(?=\s+-)|\bmain\.exe(?=\s+-)"
        r"|ghcr\.io/ggml-org/llama\.cpp:[\w.-]{1,40}|\bllama (?:serve|cli|bench)\b"
    ),
    flags=_OWN,
    variables=("LLAMA_ARG_", "LLAMA_LOG_", "GGML_"),
    parse=parse,
)
