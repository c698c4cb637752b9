"""One file for each source of truth about the machine.

A probe is a module with `read(system) -> Machine`: it fills in the facts that its source knows and leaves the others
alone. `read_*` touches the system, `parse_*` is pure. Modules are found by presence; each one fails alone and is
timed. A probe of other systems than Linux names them in `SYSTEMS` and is skipped on Linux. A probe with `TURN = 1` runs
after those without: it came later, and recordings made before it hold the answers of the clock in the order of the
others; NVIDIA's GPUs stay the first of the list, too.
"""

import importlib
import pkgutil

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.snapshot import ProbeOutcome
from unslow.facts.values import Known
from unslow.look.system import LookError, System


def read_machine(system: System) -> tuple[Machine, tuple[ProbeOutcome, ...]]:
    """The machine as all probes see it, and how each of them went."""
    machine, outcomes = Machine(), []
    modules = {info.name: importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}
    for name in sorted(modules, key=lambda name: (getattr(modules[name], "TURN", 0), name)):
        kernel = machine.system.kernel
        on_linux = isinstance(kernel, Known) and kernel.source.startswith("/proc/")
        if on_linux and "Linux" not in getattr(modules[name], "SYSTEMS", ("Linux",)):
            continue
        start, error = system.clock(), ""
        try:
            machine = overlaid(machine, modules[name].read(system))
        except LookError as failure:
            error = failure.why
        except Exception as bug:  # noqa: BLE001 (one broken probe must not cost the others; the snapshot shows it)
            error = f"{type(bug).__name__}: {bug}"
        outcomes.append(ProbeOutcome(name=name, seconds=round(system.clock() - start, 4), error=error))
    return machine, tuple(outcomes)
