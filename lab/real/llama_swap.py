"""llama-swap, a proxy that starts and stops llama-servers as models are asked for.

    python -m lab.faults --where llama_swap --server FOLDER --models FOLDER --out FOLDER --rounds 1

FOLDER holds `llama-swap` and `llama-server`. What is diagnosed is the proxy's address, as a user would give it.
"""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from lab.faults.asked import USUAL, Asked
from lab.faults.asking import tokens
from lab.faults.fault import Fault, Metric, Playing, Stage
from lab.faults.measuring import measured, watched
from lab.faults.neighbours import busy_loops
from lab.faults.playing import Place, loaded, started
from lab.faults.running import Runtime
from lab.real._openai import ask

HERE = ("llama_swap",)
CPUS = os.cpu_count() or 1
FIRST_PORT = 8670
BOTH = ("llama_1b", "experts")
ANSWER = 24
_PATIENCE_S = 20.0


@contextmanager
def played(fault: Fault, stage: Stage, place: Place) -> Iterator[Playing]:
    """The proxy with its configuration; what the stage has beside it asks for models, which starts their servers.

    A stage's arguments are lines of the configuration: those with a dot before them belong to every model, those with a
    dash are arguments of every server.
    """
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{fault.name}-", dir=place.scratch))
        own = [f"    {line[1:]}" for line in stage.arguments if line.startswith(".")]
        lines = [f"startPort: {FIRST_PORT}", "models:"]
        more = "".join(f" {line}" for line in stage.arguments if line.startswith("-"))
        server = place.program("llama-server")
        for name in fault.model.split("+"):
            cmd = f"{server} --host 127.0.0.1 --port ${{PORT}} -m {place.model(name)} -c 4096 -np 1 --metrics{more}"
            lines += [f"  {name}:", f"    cmd: {cmd}", *own]
        config = Path(scratch) / "config.yaml"
        config.write_text("\n".join([*lines, *(line for line in stage.arguments if line[0] not in ".-"), ""]))
        command = [
            str(place.program("llama-swap")), "--config", str(config), "--listen", f"127.0.0.1:{place.port}"
        ]  # fmt: skip
        url, environment = f"http://127.0.0.1:{place.port}", {**os.environ, **stage.environment}
        playing = Playing(url, place.port, scratch, command, environment, models=str(place.models.absolute()))
        playing.log = f"{scratch}/server.log"
        start = time.monotonic()
        proxy = stack.enter_context(started(command, environment, Path(playing.log) if place.logs else None))
        stack.callback(_end, proxy)
        playing.pid = proxy.pid
        if loaded(proxy, url):
            playing.load_s = time.monotonic() - start
            for go_on in stage.beside:
                stack.enter_context(go_on(playing))
        yield playing


def _end(proxy: subprocess.Popen[Any]) -> None:
    """Its servers have process groups of their own: only the proxy itself can end them."""
    proxy.terminate()
    with suppress(subprocess.TimeoutExpired):
        proxy.wait(_PATIENCE_S)


def asked_before(*names: str) -> Callable[[Playing], AbstractContextManager[object]]:
    """Models that have been asked for, one after the other."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        for name in names:
            playing.heard.append(ask(playing.url, name, tokens(32), ANSWER).as_heard())
        yield

    return beside


def asked_all_the_while(
    *names: str, pause_s: float, users: int = 1
) -> Callable[[Playing], AbstractContextManager[object]]:
    """Users who ask for one model after the other, with a pause after each answer."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        end = threading.Event()

        def ask_on() -> None:
            turn = 0
            while not end.wait(pause_s if turn else 0.0):
                try:
                    playing.heard.append(ask(playing.url, names[turn % len(names)], tokens(32), ANSWER).as_heard())
                except OSError:
                    end.wait(0.5)
                turn += 1

        playing.clients += users
        for _ in range(users):
            threading.Thread(target=ask_on, daemon=True).start()
        time.sleep(20.0)
        try:
            yield
        finally:
            end.set()

    return beside


def _measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """What the users of the stage have seen."""
    return watched(metric, playing) if playing.clients else measured(metric, playing, asked)


TOGETHER = ("groups:", "  both:", "    swap: false", "    exclusive: false", f"    members: [{', '.join(BOTH)}]")
RELOADS = "model_reloads_between_requests"
FAULTS = (
    Fault(
        "models_take_turns",
        "two models, one of which may run at a time, asked in turns all the while",
        HERE,
        "+".join(BOTH),
        Stage(beside=(asked_all_the_while(*BOTH, pause_s=0.5),)),
        RELOADS,
        cure=Stage(TOGETHER, beside=(asked_all_the_while(*BOTH, pause_s=0.5),)),
        metric="first_token",
    ),
    Fault(
        "ttl_between_requests",
        "ttl: 1 and a user who pauses for 4 s after each answer: every answer waits for a load",
        HERE,
        "llama_1b",
        Stage((".ttl: 1",), beside=(asked_all_the_while("llama_1b", pause_s=4.0),)),
        RELOADS,
        cure=Stage(beside=(asked_all_the_while("llama_1b", pause_s=4.0),)),
        metric="first_token",
    ),
    Fault(
        "healthy_one",
        "one model that stays loaded; it was asked twice",
        HERE,
        "llama_1b",
        Stage(beside=(asked_before("llama_1b", "llama_1b"),)),
        verdict="normal",
    ),
    Fault(
        "healthy_two_together",
        "two models that stay loaded beside each other, asked before",
        HERE,
        "+".join(BOTH),
        Stage(TOGETHER, beside=(asked_before(*BOTH),)),
        verdict="normal",
    ),
    Fault(
        "three_models_in_one_group",
        "a group of three models, which swaps them; a user asks for one after the other",
        HERE,
        "+".join((*BOTH, "smollm2")),
        Stage(
            ("groups:", "  all:", "    swap: true", f"    members: [{', '.join(BOTH)}, smollm2]"),
            beside=(asked_all_the_while(*BOTH, "smollm2", pause_s=0.2),),
        ),
        RELOADS,
        cure=Stage(
            ("groups:", "  all:", "    swap: false", f"    members: [{', '.join(BOTH)}, smollm2]"),
            beside=(asked_all_the_while(*BOTH, "smollm2", pause_s=0.2),),
        ),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "global_ttl",
        "globalTTL: 2 and a user who reads each answer for 6 s",
        HERE,
        "experts",
        Stage(("globalTTL: 2",), beside=(asked_all_the_while("experts", pause_s=6.0),)),
        RELOADS,
        cure=Stage(("globalTTL: 600",), beside=(asked_all_the_while("experts", pause_s=6.0),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "one_thread_behind_the_proxy",
        f"the model's env sets LLAMA_ARG_THREADS=1 on {CPUS} cores; it was asked before",
        HERE,
        "llama_1b",
        Stage((".env: [LLAMA_ARG_THREADS=1]",), beside=(asked_before("llama_1b"),)),
        "threads_too_few",
        cure=Stage(beside=(asked_before("llama_1b"),)),
        fresh=True,
    ),
    Fault(
        "healthy_long_ttl",
        "ttl: 300 and a user who pauses for 3 s after each answer",
        HERE,
        "smollm2",
        Stage((".ttl: 300",), beside=(asked_all_the_while("smollm2", pause_s=3.0),)),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_alias",
        "a model that was asked for by an alias",
        HERE,
        "experts",
        Stage((".aliases: [gpt-4]",), beside=(asked_before("gpt-4"),)),
        verdict="normal",
        fresh=True,
    ),
    # thought up after the causes were mended with the fresh ones above
    Fault(
        "ttl_with_two_models",
        "two models that may stay together, ttl: 2, and a user who asks for each in turn every five seconds",
        HERE,
        "+".join(BOTH),
        Stage((".ttl: 2", *TOGETHER), beside=(asked_all_the_while(*BOTH, pause_s=5.0),)),
        RELOADS,
        cure=Stage(TOGETHER, beside=(asked_all_the_while(*BOTH, pause_s=5.0),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "healthy_pausing_user",
        "a user of a model of 1B who pauses for two seconds",
        HERE,
        "llama_1b",
        Stage(beside=(asked_all_the_while("llama_1b", pause_s=2.0),)),
        verdict="normal",
        fresh=True,
    ),
    # the third round: thought up by someone who had not seen the causes' code
    Fault(
        "exclusive_groups",
        "a group for each of two models; groups are exclusive unless told otherwise, and the models are asked in turns",
        HERE,
        "+".join(BOTH),
        Stage(
            ("groups:", "  chat:", "    members: [llama_1b]", "  code:", "    members: [experts]"),
            beside=(asked_all_the_while(*BOTH, pause_s=1.0),),
        ),
        RELOADS,
        cure=Stage(
            (
                *("groups:", "  chat:", "    exclusive: false", "    members: [llama_1b]"),
                *("  code:", "    exclusive: false", "    members: [experts]"),
            ),
            beside=(asked_all_the_while(*BOTH, pause_s=1.0),),
        ),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "four_users_one_slot",
        "-np 1 in the model's cmd, ttl: 600, and four users who ask all the while",
        HERE,
        "llama_1b",
        Stage((".ttl: 600",), beside=(asked_all_the_while("llama_1b", pause_s=0.01, users=4),)),
        "queueing",
        cure=Stage(("-np 4", ".ttl: 600"), beside=(asked_all_the_while("llama_1b", pause_s=0.01, users=4),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "busy_neighbours",
        "a busy loop on every core; the model was asked twice",
        HERE,
        "llama_1b",
        Stage(beside=(busy_loops(CPUS), asked_before("llama_1b", "llama_1b"))),
        "cpu_contended",
        cure=Stage(beside=(asked_before("llama_1b", "llama_1b"),)),
        fresh=True,
    ),
    Fault(
        "three_threads_behind_the_proxy",
        f"-t {CPUS + 1} in the model's cmd on {CPUS} cores; it was asked before",
        HERE,
        "llama_1b",
        Stage((f"-t {CPUS + 1}",), beside=(asked_before("llama_1b"),)),
        "threads_exceed_cores",
        cure=Stage(beside=(asked_before("llama_1b"),)),
        fresh=True,
    ),
    Fault(
        "whole_vocabulary",
        "--top-k 0 --typical 0.9 in the model's cmd: the whole vocabulary is sorted for every token",
        HERE,
        "smollm2",
        Stage(("--top-k 0 --typical 0.9",), beside=(asked_before(*["smollm2"] * 3),)),
        "sampling_on_cpu",
        cure=Stage(beside=(asked_before(*["smollm2"] * 3),)),
        fresh=True,
    ),
    Fault(
        "healthy_changed_once",
        "two models, one of which may run at a time: one question to the first, and five since then to the second",
        HERE,
        "+".join(BOTH),
        Stage(beside=(asked_before("experts", *["llama_1b"] * 5),)),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_two_users",
        "-np 2, two users who pause for four seconds, and a log that tells more",
        HERE,
        "smollm2",
        Stage(
            ("-np 2", ".ttl: 900", "logLevel: debug"), beside=(asked_all_the_while("smollm2", pause_s=4.0, users=2),)
        ),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_preloaded",
        "a model that is loaded as the proxy starts, and another that nobody asks for",
        HERE,
        "+".join(BOTH),
        Stage(
            ("hooks:", "  on_startup:", "    preload: [experts]", "healthCheckTimeout: 500"),
            beside=(asked_before("experts", "experts"),),
        ),
        verdict="normal",
        fresh=True,
    ),
)
RUNTIME = Runtime(played, _measured)
