"""The process of a llama-server, whoever started it: which it is, where it listens, its key, its log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from unslow.facts.model import Model
from unslow.facts.runtime import PastLoad
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, failed_fact, not_found, reported_fact
from unslow.look.command_line import UNSET, Setting, name_of_path
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.logs.llama_cpp import LlamaLog, parse_head_and_tail, parse_log
from unslow.look.processes import Process, ancestors, is_file_path, read_process, words_of
from unslow.look.running_server import read_in_roots
from unslow.look.system import LookError, System, unknown
from unslow.look.system.http import is_port, reachable_host
from unslow.look.system.recorded import UNRECORDED

# which process it is
NAMES = ("llama", "server", "com.docker.llam")  # the kernel keeps fifteen letters of a name
_INTERPRETERS = ("python", "pypy", "node", "bun", "ruby", "java", "dotnet", "sh", "bash", "uv")
_OWNERS = ("ollama", "LM Studio", "lm-studio", "llmster", ".lmstudio")
_OF_LM_STUDIO = ("/.lmstudio/", "/lm-studio/")
"""In the path of its llama-server, which may outlive the app; one of Ollama's may as well be run by another program."""

# where it listens
SWAP = "llama-swap"
ROUTER_PORT = "LLAMA_SERVER_ROUTER_PORT"
"""The variable by which a router tells the servers that it starts where it listens itself."""
_KEY_FILE_BYTES = 65536

# its log
HEAD_BYTES = 8 * 1024**2
TAIL_BYTES = 2 * 1024**2
ROUTER_HEAD_BYTES = 8 * 1024**2
MOST_LOADS, _LONGEST_LINE = 1000, 1000
_STARTED = re.compile(r"spawning server instance with name=(\S{1,300}) on port")
_PASSED_ON = re.compile(r"\[ *\d{1,5}\] ")  # How a line starts that a server wrote and the router passed on


def find_servers(processes: Sequence[Process]) -> list[Process]:
    """Every llama-server but those of Ollama and LM Studio; a router with models is left to their servers."""
    servers = []
    for process in processes:
        if not is_server(process):
            continue
        program = "".join(words_of(process.command())[:1])
        of_lm_studio = any(path in program for path in _OF_LM_STUDIO)
        if not of_lm_studio and not any(parent.name.startswith(_OWNERS) for parent in ancestors(process, processes)):
            servers.append(process)
    parents = {process.parent_pid() for process in servers}
    return [process for process in servers if process.pid not in parents]


def is_server(process: Process) -> bool:
    """Whether a process serves with llama.cpp; a zombie has a name and no command line."""
    if not process.name.startswith(NAMES):
        return False
    command = process.command()
    if isinstance(command, Unknown) and command.why.endswith("is empty"):
        return False
    return is_llama_server(process.name, words_of(command))


def is_llama_server(name: str, command: list[str]) -> bool:
    """Whether a process of this name and command line serves with llama.cpp."""
    if name.startswith(("llama-server", "com.docker.llam")):
        return True
    if name == "llama":
        return command[1:2] in (["serve"], ["server"])
    model = parse_settings(command, {}).get("model", UNSET)
    return name == "server" and model.value.endswith(".gguf")


def takes_command(command: Sequence[str], model: Model) -> bool:
    """Whether a command line of whatever program has llama-server's flags: it names the very model that is served.

    One of an interpreter has those of a script, which may mean anything.
    """
    program, path = name_of_path(command[0] if command else ""), name_of_path(model.path.value_or(""))
    given = parse_settings(list(command), {}).get("model", UNSET).value
    return bool(path) and name_of_path(given) == path and not program.startswith(_INTERPRETERS)


def url_of(settings: Mapping[str, Setting]) -> Fact[str]:
    """Where the server listens, seen from this machine."""
    hosts = settings.get("host", Setting("127.0.0.1", "")).value.split(",")
    port = settings.get("port", Setting("8080", "")).value
    host = next((h.strip() for h in hosts if not h.strip().endswith(".sock")), None)
    if host is None:
        return Unknown(f"it listens on the socket {hosts[0]}", "give it a port with --port")
    if not is_port(port):
        return Unknown(f"{port[:40]!r} is not a port", "give the URL")
    scheme = "https" if "certificate" in settings else "http"
    prefix = settings.get("api_prefix", UNSET).value.strip("/")
    url = f"{scheme}://{reachable_host(host)}:{port}"
    return reported_fact(f"{url}/{prefix}" if prefix else url, settings.get("port", Setting("", "default port")).source)


def front_of(process: Process, environment: Fact[dict[str, str]]) -> Fact[str]:
    """The router or the llama-swap that passes requests on to a process with this environment."""
    for parent in parents_of(process):
        if parent.name.startswith(SWAP):
            command = words_of(parent.command())
            flags = [i for i, word in enumerate(command[:-1]) if word.lstrip("-") == "listen"]
            attached = [word.partition("=")[2] for word in command if word.lstrip("-").startswith("listen=")]
            listen = command[flags[-1] + 1] if flags else attached[-1] if attached else ":8080"
            host, _, port = listen.rpartition(":")
            return reported_fact(f"{SWAP} at http://{reachable_host(host)}:{port}", f"/proc/{parent.pid}")
        if is_server(parent):
            settings = parse_settings(words_of(parent.command()), parent.environment().value_or({}))
            url = url_of(settings).value_or("an unknown address")
            return reported_fact(f"router at {url}", f"/proc/{parent.pid}")
    port = environment.value_or({}).get(ROUTER_PORT, "")
    if re.fullmatch(r"\d{1,5}", port):
        return reported_fact(f"router at http://127.0.0.1:{port}", f"environment: {ROUTER_PORT}")
    return not_found("no proxy in front")


def parents_of(process: Process) -> Iterator[Process]:
    """Its parent and grandparents, as far as they matter and can be seen."""
    for _ in range(4):
        pid = process.parent_pid()
        if pid <= 1:
            return
        process = read_process(process.system, pid)
        yield process


def absolute_path(path: str, folder: Fact[str]) -> Fact[str]:
    """A path as the process means it."""
    if path.startswith("/"):
        return reported_fact(path, "command line")
    if isinstance(folder, Unknown):
        why = f"{path} is relative, and the folder of the process is unknown: {folder.why}"
        return failed_fact(why, folder.how_to_get)
    return reported_fact(f"{folder.value.rstrip('/')}/{path}", folder.source)


def read_api_key(process: Process) -> str:
    """The first key that a server accepts, of its command line, environment or file; empty with none. In no fact."""
    command = words_of(process.command())
    pairs = (word.partition("=") for word in process.text("environ").split("\0"))
    key_variables = {name: value for name, _, value in pairs if name in ("LLAMA_API_KEY", "LLAMA_ARG_API_KEY_FILE")}
    settings = parse_settings(command, key_variables)
    given = next((key for key in settings.get("api_key", UNSET).value.split(",") if key.strip()), "")
    path = settings.get("api_key_file", UNSET).value
    if given or not path:
        return given.strip()
    place = absolute_path(path, process.folder())
    if not isinstance(place, Known):
        return ""
    # a file of keys is the one file that a recording must not hold
    system, file = process.system, place.value
    text = read_in_roots(
        process.roots(), lambda root: system.ask(f"{UNRECORDED}{root}{file}", partial(_read_file, root + file))
    )
    lines = text.splitlines() if isinstance(text, str) else []  # one key a line, or a remark after a hash
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_KEY_FILE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise LookError(f"{path}: {error.strerror or error}") from error


def read_server_log(
    process: Process, settings: Mapping[str, Setting], folder: Fact[str] = NOT_LOOKED
) -> tuple[Fact[str], LlamaLog]:
    """The first log of a server that works in this folder: the file it was told to write, where its output goes.

    Where neither can be read, what its router wrote down of it.
    """
    told = absolute_path(settings["log_file"].value, folder).value_or("") if "log_file" in settings else ""
    why: Unknown = not_found("the server writes no log file", "start it with --log-file FILE -lv 4")
    for path in dict.fromkeys([*([told] if is_file_path(told) else []), *process.outputs()]):
        for root in process.roots():
            try:
                return reported_fact(path, f"/proc/{process.pid}"), read_log(process.system, root + path)
            except LookError as error:
                why = unknown(error, why.how_to_get)
    return read_router_log(process, settings) or (why, LlamaLog())


def read_log(system: System, path: str) -> LlamaLog:
    """A log of any size: its load lines are at the start, its last requests (and a later load) at the end."""
    head = system.read_head(path, HEAD_BYTES)
    name = path.rpartition("/")[2]
    if len(head) < HEAD_BYTES:
        return parse_log(head.decode("utf-8", "replace").split("\n"), name)
    tail = system.read_tail(path, TAIL_BYTES)
    return parse_head_and_tail(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), name)


def read_router_log(process: Process, settings: Mapping[str, Setting]) -> tuple[Fact[str], LlamaLog] | None:
    """What the router of a server wrote down of it; None where it has no router, or none that writes to a file."""
    port = settings.get("port", UNSET).value
    parents = parents_of(process) if port.isdecimal() else ()
    router = next((parent for parent in parents if is_server(parent)), None)
    if router is None:
        return None
    of_router = parse_settings(words_of(router.command()), router.environment().value_or({}))
    told = of_router.get("log_file", UNSET).value
    for path in dict.fromkeys([*([told] if is_file_path(told) else []), *router.outputs()]):
        try:
            text = process.system.read_head(path, ROUTER_HEAD_BYTES).decode("utf-8", "replace")
        except LookError:
            continue
        name = path.rpartition("/")[2]
        log = parse_log(lines_of(text, port), name)
        if not log.recognised_lines:
            return None
        runtime = log.runtime.with_facts(loads=reported_fact(parse_loads(text, name), path))
        return reported_fact(path, f"/proc/{router.pid}"), msgspec.structs.replace(log, runtime=runtime)
    return None


def parse_loads(text: str, source: str) -> list[PastLoad]:
    """Every server that the router started, in their order, each with its model."""
    own = ((f"{source}:{n}", line) for n, line in enumerate(text.split("\n"), 1) if not _PASSED_ON.match(line))
    found = ((where, started[1]) for where, line in own if (started := _STARTED.search(line[:_LONGEST_LINE])))
    return [PastLoad(model=reported_fact(name, where), source=where) for where, name in found][-MOST_LOADS:]


def lines_of(text: str, port: str) -> list[str]:
    """The lines of the server at a port, without the mark; others are left blank, so that lines keep their number."""
    mark = f"[{port:>5}] "
    return [line.partition(mark)[2] for line in text.split("\n")]
