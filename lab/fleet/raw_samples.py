"""Every sample that a Prometheus scraped, as OpenMetrics with times: a recording that can be judged anew."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.fleet.blocks import make_blocks
from lab.fleet.lines import Line
from lab.fleet.prometheus import Prometheus

KEPT = (
    "llamacpp:.+", "vllm:.+", "sglang:.+", "DCGM_.+", "unslow_.+", "up", "process_start_time_seconds",
    "node_cpu_seconds_total", "node_memory_(MemTotal|MemAvailable|SwapTotal|SwapFree)_bytes",
    "node_vmstat_pswp(in|out)", "node_pressure_.+", "node_load1", "node_disk_read_bytes_total", "node_uname_info",
    "node_cpu_package_throttles_total",
)  # fmt: skip
"""What a fleet is judged by; a node exporter has a thousand series more."""


def raw_samples(prometheus: Prometheus, seconds: int) -> Iterator[str]:
    """The lines of all samples of so many seconds until now, a metric after the other, without buckets."""
    for name in KEPT:
        found = prometheus.ask(f'{{__name__=~"{name}",__name__!~".+_bucket|.+_created"}}[{seconds}s]')
        for series in sorted(found, key=lambda one: sorted(one["metric"].items())):
            labels = dict(series["metric"])
            identity = Line(labels.pop("__name__"), labels, 0.0).identity
            yield from (f"{identity} {value} {time:.3f}\n" for time, value in series["values"])


def replayed(lines: Iterable[str], promtool: Path, folder: Path, end_s: float) -> None:
    """The recording as blocks for a Prometheus, in the folder, moved in time so that its last sample is at `end_s`."""
    kept = [line.rstrip("\n") for line in lines]
    later_s = end_s - max(float(line.rpartition(" ")[2]) for line in kept)
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "recorded.om"
    text.write_text("\n".join([*(_later(line, later_s) for line in kept), "# EOF\n"]), encoding="utf-8")
    make_blocks(promtool, text, folder)
    text.unlink()


def _later(line: str, seconds: float) -> str:
    """A sample at another time; a value that is itself a moment moves with it."""
    identity, value, time = line.rsplit(" ", 2)
    if identity.partition("{")[0].endswith(("_timestamp_seconds", "_start_time_seconds")):
        value = f"{float(value) + seconds:.3f}"
    return f"{identity} {value} {float(time) + seconds:.3f}"
