"""What a runtime may use: the limits of its own process, which need not be those of this program."""

import msgspec

from unslow.facts.machine import Cpu
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, reported
from unslow.look.probes.cgroup import NO_QUOTA, read_limits
from unslow.look.system import System


def with_limits(system: System, subject: Subject) -> Subject:
    """The subject with the cpuset, quota and memory of its process; as it is where its process can't be seen."""
    pid = subject.runtime.pid
    if not isinstance(pid, Known):
        return subject
    limits = read_limits(system, pid.value)
    runtime = msgspec.structs.replace(
        subject.runtime,
        allowed_cpus=limits.cpu.allowed_cpus,
        quota_cpus=_quota(limits.cpu),
        memory_limit_bytes=limits.memory.limit_bytes,
    )
    return msgspec.structs.replace(subject, runtime=runtime)


def _quota(cpu: Cpu) -> Fact[float]:
    """Without a quota it may use all the time of the processors that it may run on."""
    allowed = cpu.allowed_cpus
    if cpu.quota_cpus == NO_QUOTA and isinstance(allowed, Known):
        return reported(float(allowed.value), f"{allowed.source}, and {NO_QUOTA.why}")
    return cpu.quota_cpus
