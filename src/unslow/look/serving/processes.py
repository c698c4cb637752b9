"""Servers among the processes, and what a process shows of itself."""

from collections.abc import Callable, Sequence

from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, reported
from unslow.look.processes import Process, outermost, words_of
from unslow.look.serving.arguments import Flags


def find_servers(
    processes: Sequence[Process], names: tuple[str, ...], is_server: Callable[[Sequence[str]], bool]
) -> list[Process]:
    """Processes of these names whose command line starts a server; not those within another of them."""
    servers = [p for p in processes if p.name.startswith(names) and is_server(words_of(p.command()))]
    return outermost(servers, processes)


def of_process(process: Process, program: str, flags: Flags, url: Fact[str], log_path: Fact[str]) -> Runtime:
    """What the process itself shows; its keys are for nobody to see."""
    source = f"/proc/{process.pid}"
    return Runtime(
        name=reported(program, f"{source}/cmdline"),
        pid=reported(process.pid, "/proc"),
        url=url,
        command=reported(flags.without_secrets(words_of(process.command())), f"{source}/cmdline"),
        environment=process.environment(),
        log_path=log_path,
        container=process.container(),
    )
