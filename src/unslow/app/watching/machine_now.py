"""The devices and the host as the sampler sees them now, with their limits as the probes know them."""

from collections.abc import Mapping

from unslow.facts.machine import Gpu, Machine
from unslow.look.sampler.reading import Device
from unslow.think.view.live import DeviceNow, HostNow

SHOWN = 0.2
"""Of the samples in which a reason must be set to be shown."""
_OF_IDLE = ("gpu_idle", "none", "applications_clocks_setting")
"""Reasons that hold nothing back."""


def devices_now(seen: Mapping[str, float], devices: tuple[Device, ...], machine: Machine) -> tuple[DeviceNow, ...]:
    """Every GPU that is sampled, then those that only a probe has seen."""
    gpus = machine.gpus.value_or(())
    sampled = tuple(_sampled(seen, device, _gpu_of(device, gpus)) for device in devices)
    return sampled or tuple(_probed(gpu) for gpu in gpus)


def _gpu_of(device: Device, gpus: tuple[Gpu, ...]) -> Gpu | None:
    same = [gpu for gpu in gpus if device.name in (gpu.name.value_or(""), gpu.bus_id.value_or(""))]
    numbered = [gpu for gpu in same or gpus if gpu.index == device.number]
    return next(iter([*numbered, *same]), None)


def _sampled(seen: Mapping[str, float], device: Device, gpu: Gpu | None) -> DeviceNow:
    def value(name: str) -> float | None:
        return seen.get(device.prefix + name)

    start = f"{device.prefix}reason_"
    reasons = (name.removeprefix(start) for name, share in seen.items() if name.startswith(start) and share >= SHOWN)
    known = gpu or Gpu(index=device.number)
    return DeviceNow(
        number=device.number,
        name=known.name.value_or(device.name),
        busy=value("busy"),
        memory_busy=value("memory_busy"),
        clock_hz=value("clock_hz"),
        clock_max_hz=known.clock_max_hz.value_or(None),
        power_w=value("power_w"),
        power_limit_w=known.power_limit_w.value_or(None),
        temperature_c=value("temperature_c"),
        vram_used_bytes=value("vram_used_bytes"),
        vram_total_bytes=known.vram_total_bytes.value_or(None),
        reasons=tuple(reason for reason in reasons if reason not in _OF_IDLE),
    )


def _probed(gpu: Gpu) -> DeviceNow:
    return DeviceNow(
        number=gpu.index,
        name=gpu.name.value_or("GPU"),
        busy=gpu.busy.value_or(None),
        clock_hz=gpu.clock_hz.value_or(None),
        power_w=gpu.power_w.value_or(None),
        temperature_c=gpu.temperature_c.value_or(None),
        vram_used_bytes=gpu.vram_used_bytes.value_or(None),
        vram_total_bytes=gpu.vram_total_bytes.value_or(None),
    )


def host_now(seen: Mapping[str, float], machine: Machine) -> HostNow:
    """The host; what is not sampled is None."""
    return HostNow(
        cpus=machine.cpu.logical_cpus.value_or(None),
        busy_cpus=seen.get("busy_cpus"),
        own_cpus=seen.get("own_cpus"),
        others_cpus=seen.get("others_cpus"),
        throttled=seen.get("cpu_throttled_share"),
        ram_total_bytes=machine.memory.total_bytes.value_or(None),
        ram_available_bytes=seen.get("memory_available_bytes"),
        own_ram_bytes=seen.get("own_rss_bytes"),
        swap_in_bytes_per_s=seen.get("swap_in_bytes_per_s"),
        swap_out_bytes_per_s=seen.get("swap_out_bytes_per_s"),
        disk_read_bytes_per_s=seen.get("disk_read_bytes_per_s"),
    )
