"""How many processors the runtime may use at once: by its own process where that was seen, else by this one."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known


def quota_of(case: Case) -> tuple[Fact[float], str]:
    """The processors' time that its control group may use, and where that fact stands."""
    own, machine = case.runtime.quota_cpus, case.machine.cpu.quota_cpus
    return (own, "runtime.quota_cpus") if isinstance(own, Known) else (machine, "machine.cpu.quota_cpus")


def allowed_of(case: Case) -> tuple[Fact[int], str]:
    """The processors that it may run on, and where that fact stands."""
    own, machine = case.runtime.allowed_cpus, case.machine.cpu.allowed_cpus
    return (own, "runtime.allowed_cpus") if isinstance(own, Known) else (machine, "machine.cpu.allowed_cpus")


def limits_of(case: Case) -> dict[str, float]:
    """Every limit that is known, by the path of its fact."""
    facts: tuple[tuple[Fact[float] | Fact[int], str], ...] = (quota_of(case), allowed_of(case))
    return {path: float(fact.value) for fact, path in facts if isinstance(fact, Known) and fact.value > 0}
