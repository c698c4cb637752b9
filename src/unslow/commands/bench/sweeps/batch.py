"""How many tokens of a prompt are handed over at a time (-b), against the speed of reading and the memory it takes."""

from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits
from unslow.commands.bench.sweeps._trials import sweep_batches
from unslow.facts.bench import Sweep
from unslow.facts.runtime import Runtime

AXIS = "batch"
OWN_SERVER = True


def sweep(own: Own, limits: Limits) -> Sweep:
    """The smallest batch that reads as fast as any."""

    def settings(size: int, runtime: Runtime) -> dict[str, int]:
        ubatch = runtime.ubatch.value_or(None)
        fitted = ubatch is not None and ubatch > size and own.can_set("ubatch")
        return {"batch": size, "ubatch": size} if fitted else {"batch": size}

    return sweep_batches(own, limits, AXIS, settings, current)


def current(runtime: Runtime) -> int | None:
    """What it is set to; what vLLM and its like call the tokens of a batch is the same thing."""
    value = runtime.batch.value_or(runtime.max_batched_tokens.value_or(None))
    return int(value) if value else None
