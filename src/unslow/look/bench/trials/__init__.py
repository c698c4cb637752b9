"""What can be measured of a server beyond its usual speed: one function for each trial, found by presence.

It is `perform_<name>(system, target, plan, progress) -> Run`: a run in which only the facts of that trial are filled,
those that it could not learn as Unknown with the reason. A trial raises nothing but KeyboardInterrupt. It asks the
server only for answers that a client would ask for: nothing is loaded, resized or evicted. Its name, its costs and what
it is good for are in `unslow.think.judge.next_measurement`.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from unslow.facts.run import Run
from unslow.look.bench.completions import Progress
from unslow.look.requests import Plan, Target
from unslow.look.system import System

Perform = Callable[[System, Target, Plan, Progress], Run]


@cache
def trials() -> dict[str, Perform]:
    """Every trial by its name."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    found = {name: thing for module in modules for name, thing in vars(module).items() if name.startswith("perform_")}
    return {name.removeprefix("perform_"): found[name] for name in sorted(found)}
