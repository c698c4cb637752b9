"""How many tokens of a prompt are computed at once (-ub), against the speed of reading and the memory it takes."""

from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits
from unslow.commands.bench.sweeps.batch import sweep_batches
from unslow.facts.bench import Sweep
from unslow.facts.runtime import Runtime

AXIS = "ubatch"
OWN_SERVER = True
_USUAL_BATCH = 2048


def sweep(own: Own, limits: Limits) -> Sweep:
    """The smallest that reads as fast as any."""

    def settings(size: int, runtime: Runtime) -> dict[str, int]:
        batch = int(runtime.compute.batch.value_or(_USUAL_BATCH))
        return {"ubatch": size, "batch": max(size, batch)} if size > batch else {"ubatch": size}

    return sweep_batches(own, limits, AXIS, settings)
