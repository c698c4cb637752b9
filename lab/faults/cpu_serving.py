"""Faults around the server: a slow client, a queue, models that push each other out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.faults.asking import ask, tokens
from lab.faults.cpu_threads import AS_IT_COMES, HERE
from lab.faults.fault import Fault, Playing, Stage
from lab.faults.neighbours import clients, pausing_proxy, slow_proxy

USERS = 4
BOTH = ("llama_1b", "experts")


@contextmanager
def router(playing: Playing) -> Iterator[None]:
    """The server without a model of its own, over a folder of two."""
    folder = Path(playing.scratch) / "models"
    folder.mkdir()
    for name in BOTH:
        (folder / f"{name}.gguf").symlink_to(Path(playing.models) / f"{name}.gguf")
    place = playing.command.index("-m")
    playing.command[place : place + 2] = ["--models-dir", str(folder)]
    yield


@contextmanager
def asked_in_turns(playing: Playing) -> Iterator[None]:
    """Both models have been asked for, one after the other, as two users would."""
    for turn in range(6):
        playing.heard.append(ask(playing.url, tokens(32), 16, model=BOTH[turn % 2]))
        time.sleep(0.2)
    yield


FAULTS = (
    Fault(
        "slow_client",
        "a proxy that holds back every piece for 60 ms",
        HERE,
        "small",
        Stage(beside=(slow_proxy(0, 0.06),)),
        "client_overhead",
        cure=AS_IT_COMES,
    ),
    Fault(
        "late_client",
        "a proxy that passes on what it was asked 2 s late",
        HERE,
        "small",
        Stage(beside=(slow_proxy(0, 0.0, late_s=2.0),)),
        "client_overhead",
        cure=AS_IT_COMES,
        metric="first_token",
    ),
    Fault(
        "pausing_client",
        "a proxy that stops for 0.8 s after every forty pieces of an answer",
        HERE,
        "small",
        Stage(beside=(pausing_proxy(0, 40, 0.8),)),
        "client_overhead",
        cure=AS_IT_COMES,
    ),
    Fault(
        "queueing",
        f"-np 1 and {USERS} users who ask all the while",
        HERE,
        "small",
        Stage(("-np", "1", "--metrics"), beside=(clients(USERS),)),
        "queueing",
        cure=Stage(("-np", str(USERS), "--metrics"), beside=(clients(USERS),)),
        metric="first_token",
    ),
    Fault(
        "queueing_1b",
        f"-np 1 and {USERS} users who ask all the while, a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-np", "1", "-c", "4096", "--metrics"), beside=(clients(USERS),)),
        "queueing",
        cure=Stage(("-np", str(USERS), "-c", "4096", "--metrics"), beside=(clients(USERS),)),
        metric="first_token",
    ),
    Fault(
        "models_take_turns",
        "a router with room for one model, and two that are asked in turns",
        HERE,
        "llama_1b",
        Stage(("--models-max", "1", "--metrics"), around=(router,), beside=(asked_in_turns,)),
        "model_reloads_between_requests",
        cure=Stage(("--models-max", "2", "--metrics"), around=(router,), beside=(asked_in_turns,)),
        metric="first_token",
    ),
)
