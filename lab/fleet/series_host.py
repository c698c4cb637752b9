"""The series of the node exporter for a host that is not there, by the names of the real one."""

from lab.fleet.lines import Line, counter, gauge
from lab.fleet.machines import Host

_UP_S = 900_000.0


def host_lines(host: Host) -> list[Line]:
    """What causes could look at, and the name of the host."""
    none: dict[str, str] = {}
    named = {"nodename": host.name, "sysname": "Linux", "release": "6.8.0", "machine": "x86_64"}
    swap_used = host.swap_bytes * host.swap_used_share
    return [
        gauge("node_uname_info", named, 1),
        *_processors(host),
        gauge("node_load1", none, host.busy_cpus, 0.05),
        gauge("node_memory_MemTotal_bytes", none, host.memory_bytes),
        gauge("node_memory_MemAvailable_bytes", none, host.memory_bytes * host.available_share),
        gauge("node_memory_SwapTotal_bytes", none, host.swap_bytes),
        gauge("node_memory_SwapFree_bytes", none, host.swap_bytes - swap_used),
        counter("node_vmstat_pswpin", none, host.swapped_in_pages_per_s, _UP_S / 10),
        counter("node_vmstat_pswpout", none, host.swapped_out_pages_per_s, _UP_S / 10),
        counter("node_pressure_cpu_waiting_seconds_total", none, host.cpu_pressure, _UP_S),
        counter("node_pressure_memory_waiting_seconds_total", none, host.memory_pressure, _UP_S / 10),
        counter("node_pressure_io_waiting_seconds_total", none, host.io_pressure, _UP_S),
        counter("node_disk_read_bytes_total", {"device": "nvme0n1"}, host.read_bytes_per_s, _UP_S),
    ]


def _processors(host: Host) -> list[Line]:
    busy = min(0.98, host.busy_cpus / host.cpus)
    shares = {"idle": 1 - busy, "user": busy}
    return [
        counter("node_cpu_seconds_total", {"cpu": str(cpu), "mode": mode}, share, _UP_S)
        for cpu in range(host.cpus)
        for mode, share in shares.items()
    ]
