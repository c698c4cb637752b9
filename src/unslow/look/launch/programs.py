"""The programs that can be started: how each is recognised on a command line, and how it spells what is set."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from unslow.look.command_line import UNSET
from unslow.look.llama_server.arguments import spelled_flags as llama_flags
from unslow.look.llama_server.arguments import without_secrets as llama_shown
from unslow.look.llama_server.flags import FLAGS as LLAMA
from unslow.look.runtimes.koboldcpp.flags import spelled_flags as kobold_flags
from unslow.look.runtimes.koboldcpp.flags import without_secrets as kobold_shown
from unslow.look.serving.arguments import Flag, Flags
from unslow.look.serving.sglang_flags import FLAGS as SGLANG
from unslow.look.serving.tgi_flags import FLAGS as TGI
from unslow.look.serving.vllm_flags import FLAGS as VLLM

Words = Sequence[str]
Place = tuple[str, int, int]
"""A flag of a command line: its name in the program's own table, where it starts and where it ends."""


class Program(NamedTuple):
    """A server's program: its flags, which of them spell which setting, and where it says that it is ready."""

    name: str
    starts: Callable[[Words], bool]
    """Whether a command line that begins so starts this program."""
    places: Callable[[Words], list[Place]]
    spelled: Mapping[str, tuple[str, str]]
    """By setting: the name of its flag in the program's own table, and the flag to write."""
    variables: Mapping[str, tuple[str, ...]]
    """By setting: the environment variables that set it too."""
    health: str = "/health"
    in_the_way: tuple[str, ...] = ()
    """Flags that would have it listen elsewhere."""
    shown: Callable[[Words], list[str]] = list
    """The command line as anybody may see it."""
    key: Callable[[Words], str] = lambda _words: ""
    """The key that it wants of those who ask, as far as its command line tells."""


def _named(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _is_llama(words: Words) -> bool:
    name, following = _named(words[0]), list(words[1:2])
    old = name == "server" and any(word.endswith(".gguf") for word in words)
    return name.startswith("llama-server") or (name == "llama" and following in (["serve"], ["server"])) or old


def _serves(program: str, *modules: str) -> Callable[[Words], bool]:
    def starts(words: Words) -> bool:
        return (_named(words[0]) == program and list(words[1:2]) == ["serve"]) or words[0] in modules

    return starts


def _is_mlx(words: Words) -> bool:
    name = _named(words[0])
    return name == "mlx_lm.server" or (name in ("mlx_lm", "mlx-lm") and list(words[1:2]) == ["server"])


def _is_kobold(words: Words) -> bool:
    return _named(words[0]).startswith("koboldcpp")


def _served(name: str, starts: Callable[[Words], bool], flags: Flags, names: Mapping[str, str], *away: str) -> Program:
    """A program whose flags are kept in the manner of argparse."""
    return Program(
        name,
        starts,
        lambda words: [(flag.name, flag.start, flag.end) for flag in flags.spelled(words)],
        {setting: (own, flags.flags[own].spellings[0]) for setting, own in names.items()},
        {setting: flags.flags[own].variables for setting, own in names.items()},
        in_the_way=away,
        shown=flags.without_secrets,
        key=lambda words: flags.settings(words, {}).get("api_key", UNSET).value,
    )


_LLAMA_SETTINGS = ("host", "port", "threads", "threads_batch", "batch", "ubatch", "context", "slots")
_WHERE = {"host": "host", "port": "port"}
_QUEUED = {**_WHERE, "context": "context", "batch": "batched_tokens", "slots": "sequences"}
_MLX = Flags(
    {
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "batched_tokens": Flag(("--prefill-step-size",)),
        "sequences": Flag(("--decode-concurrency",)),
    }
)
_KOBOLD = {
    "host": ("host", "--host"),
    "port": ("port", "--port"),
    "context": ("contextsize", "--contextsize"),
    "threads": ("threads", "--threads"),
    "threads_batch": ("blasthreads", "--blasthreads"),
    "batch": ("batchsize", "--blasbatchsize"),
    "slots": ("parallelrequests", "--parallelrequests"),
}

PROGRAMS: tuple[Program, ...] = (
    Program(
        "llama.cpp",
        _is_llama,
        lambda words: [(flag.name, flag.start, flag.end) for flag in llama_flags(words)],
        {name: (name, LLAMA[name].spellings[0]) for name in _LLAMA_SETTINGS},
        {name: LLAMA[name].variables for name in _LLAMA_SETTINGS},
        shown=llama_shown,
    ),
    _served("vLLM", _serves("vllm", "vllm.entrypoints.openai.api_server"), VLLM, _QUEUED, "socket"),
    _served("SGLang", _serves("sglang", "sglang.launch_server"), SGLANG, _QUEUED),
    _served("TGI", lambda words: _named(words[0]) == "text-generation-launcher", TGI, _QUEUED),
    _served("MLX-LM", _is_mlx, _MLX, {**_WHERE, "batch": "batched_tokens", "slots": "sequences"}),
    Program(
        "KoboldCpp",
        _is_kobold,
        lambda words: [(flag.name, flag.start, flag.end) for flag in kobold_flags(words)],
        _KOBOLD,
        {},
        health="/api/v1/model",
        shown=kobold_shown,
    ),
)


def found_program(words: Words) -> tuple[Program, int] | None:
    """The program that a command line starts and the word it begins at; None where it is none of those known.

    What stands before it (env, numactl, taskset, an interpreter) keeps its own flags, which may look like the server's.
    """
    for at in range(len(words)):
        for program in PROGRAMS:
            if program.starts(words[at:]):
                return program, at
    return None
