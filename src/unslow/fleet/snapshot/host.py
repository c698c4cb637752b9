"""The machine that an engine runs on, without its GPUs."""

from unslow.facts.machine import Cpu, Load, Machine, Memory
from unslow.facts.values import Fact
from unslow.fleet.member import Member
from unslow.fleet.snapshot.gpus import machine_gpus
from unslow.fleet.snapshot.readings import SOURCE, Readings


def machine_of(member: Member) -> Machine:
    """Means and extremes over the window; what a container may use belongs to the runtime."""
    told = Readings(member.host, member.missing.get("host", ""))
    return Machine(
        cpu=Cpu(logical_cpus=told.whole("cpus"), package_throttles=told.whole("package_throttles")),
        load=Load(
            busy_cpus=told.fact("busy_cpus"),
            average_1min=told.fact("load_1min"),
            cpu_pressure=told.share("cpu_pressure"),
            memory_pressure=told.share("memory_pressure"),
            io_pressure=told.share("io_pressure"),
        ),
        memory=Memory(
            total_bytes=told.whole("memory_total_bytes"),
            available_bytes=told.whole("memory_available_bytes"),
            swap_total_bytes=told.whole("swap_total_bytes"),
            swap_used_bytes=told.whole("swap_used_bytes"),
            swapped_in_bytes=_in_window(told, "swapped_in_bytes_per_s", member.window_s),
            swapped_out_bytes=_in_window(told, "swapped_out_bytes_per_s", member.window_s),
            numa_nodes=told.whole("numa_nodes"),
        ),
        gpus=machine_gpus(member),
    )


def _in_window(told: Readings, name: str, window_s: float) -> Fact[int]:
    return told.worked_out(round(told.value(name) * window_s), name) if name in told else told.missing(name)


def host_readings(member: Member) -> Readings:
    """The same, to be read one by one."""
    return Readings(member.host, member.missing.get("host", f"{SOURCE} knows nothing of its host"))
