"""How a cause asks for the fact that would decide it: with a command that is ready to copy."""

from typing import Any

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.gpu_load import LoadedGpu, loaded_gpus
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import own_is_known
from unslow.think.causes._cause import fact_at, need
from unslow.think.instructions import spelled_out
from unslow.think.predict import measured_rate, predict
from unslow.think.slowness import generates_slowly


def ask_for(case: Case, path: str, how_to_get: str) -> Any:
    """The value at a path; where it is missing, what its looker advises, else this command."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown) and not fact.how_to_get:
        raise MissingFactError(msgspec.structs.replace(fact, how_to_get=how_to_get), path)
    return need(case, path)


def at_work(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs while they compute; none where they were watched and idle."""
    ask_for(case, "machine.gpus", gpu_state(case))
    loaded = loaded_gpus(case)
    if not loaded:
        ask_for(case, "run.gpus", gpu_state(case))
    return loaded


def must_be_slow(case: Case) -> bool:
    """Whether tokens come slower than they should; MissingFactError names what it lacks to tell."""
    slow = generates_slowly(case)
    if slow is not None:
        return slow
    expected = predict(case)
    if isinstance(measured_rate(case), Known) and isinstance(expected, Unknown):
        raise MissingFactError(expected)
    ask_for(case, "run.decode_tokens_per_s", own_speed(case))
    return False


def gpu_state(case: Case) -> str:
    """The command that shows clocks, power, temperature and link of the GPU at hand, while it generates."""
    return spelled_out("while it generates: {gpu_state}", case)


def own_speed(case: Case) -> str:
    """The command that makes the runtime tell its own speed."""
    return spelled_out("{own_speed}", case)


def must_tell_own(case: Case, how_to_get: str) -> None:
    """Without the runtime told from the other processes on its GPUs, nothing can be said of strangers."""
    if own_is_known(case):
        return
    need(case, "runtime.pid")
    raise missing("which process on the GPU is the runtime: its number is of another namespace", how_to_get)
