"""Devices of the catalogue as the physics takes them, and the year of the software on them."""

import re
from functools import lru_cache

from unslow.catalog.devices import Device
from unslow.think.physics.chip import Chip

_MATRIX_OVER_PLAIN = {"NVIDIA": 4.0, "AMD": 2.0, "Intel": 8.0, "Apple": 1.0}
"""How much faster 16-bit matrix units are than plain ones, where only one of the two is known."""
_BYTES_PER_FLOP = 0.02  # of a GPU of which only the bandwidth is known: between those of a large and of a small one
_FLOPS_A_CYCLE, _FLOPS_OF_NARROW_CORES = 16.0, 8.0
"""Products and sums in 32 bits by a core's vectors of 256 bits, or of 128: what a product takes is learned in them."""
USUAL_CLOCK_HZ = 3.5e9
"""Of processors of which nothing is known: servers boost to 3.2 to 3.8 GHz, laptops and desktops to 4 to 5.5."""
_CLOCKS_HZ = (0.8e9, 6.5e9)  # a clock beyond these is a mistake
CORE_FLOPS_PER_S = _FLOPS_A_CYCLE * USUAL_CLOCK_HZ
_BYTES_PER_S_OF_A_CORE = 8e9  # a platform has about as many cores as its memory can feed: 64 for 460 GB/s, 8 for 60
_FEWEST_CORES = 4.0
_WIDE = re.compile(
    r"Ryzen (?:[3579] )?(?:PRO )?[789]\d[045]\d|Ryzen (?:AI|Z[12])\b|EPYC [489]\d\d[45]|Threadripper (?:PRO )?[79]\d{3}"
    r"|\bi[3579] 11\d{2,3}|\bi[3579] 10\d{2}G|\bi[79] (?:7[89]|9[89]|109)\d\dXE?\b"
    r"|Xeon (?:Gold |Silver |Platinum |W )\d[123]\d\d",
    re.IGNORECASE,
)
"""CPUs with AVX-512 and without AMX: AMD's since Zen 4 (the third figure of a laptop's tells its cores), and Intel's
before Sapphire Rapids."""
_SERVER = re.compile(
    r"Xeon (?:Gold |Silver |Bronze |Platinum |Max |W )?\d[45]\d\d\w?\b|Xeon 6\b|\b6[79]\d\dP\b"
    r"|Sapphire Rapids|Emerald Rapids",
    re.IGNORECASE,
)
"""Intel's servers since Sapphire Rapids, which have AMX."""
_BETWEEN_WORDS = re.compile(r"(?:\((?:R|TM)\)|[\s-])+", re.IGNORECASE)
_BY_VENDOR = {"NVIDIA": "cuda", "Apple": "metal"}
_ROCM = re.compile(r"rdna[34]|cdna\d")
_ROCM_BY_NAME = re.compile(r"RX 6[89]\d\d|PRO W6800", re.IGNORECASE)
_DATE = re.compile(r"(20\d\d)(?:-(\d\d))?")
_BUILD = re.compile(r"\bb(\d{4,5})\b")
_BUILDS = (
    (1300, 2023.75), (1700, 2024.0), (2300, 2024.15), (3000, 2024.4), (3600, 2024.65), (4200, 2024.9), (4800, 2025.15),
    (5300, 2025.35), (5863, 2025.53), (6500, 2025.7), (7300, 2025.93), (7941, 2026.1), (8382, 2026.25), (9187, 2026.4),
    (10586, 2026.8),
)  # fmt: skip
"""Builds by when they were made: releases as they are dated in the table of measurements itself."""
USUAL_YEAR = 2025.5  # where nothing says when a build was made


def gpu_chip(device: Device) -> Chip:
    """A GPU; what its datasheet leaves open is taken from what is usual of its maker."""
    ratio = _MATRIX_OVER_PLAIN.get(device.vendor, 2.0)
    plain = device.fp32_flops_per_s or device.fp16_flops_per_s / ratio
    plain = plain or device.memory_bytes_per_s / _BYTES_PER_FLOP
    matrix = max(device.fp16_flops_per_s, plain)
    return Chip(
        bytes_per_s=device.memory_bytes_per_s,
        flops_per_s=plain,
        matrix_flops_per_s=matrix if device.fp16_flops_per_s else plain * ratio,
        watts=device.tdp_w,
        cache_bytes=float(device.l2_bytes),
    )


def cpu_chip(device: Device, threads: float = 0.0) -> Chip:
    """A CPU with its memory."""
    core = core_flops_per_s(device.clock_hz, narrow=device.narrow_cores)
    return host_chip(device.memory_bytes_per_s, core_count(device, threads), core)


def core_count(device: Device, threads: float = 0.0) -> float:
    """The cores of a CPU that compute: as asked for, as the catalogue has them, or as its memory can feed."""
    fed = max(_FEWEST_CORES, round(device.memory_bytes_per_s / _BYTES_PER_S_OF_A_CORE))
    return threads or float(device.units) or fed


def core_flops_per_s(clock_hz: float, *, narrow: bool = False) -> float:
    """What a core computes at its boost clock; at the usual one where that is not known."""
    return (_FLOPS_OF_NARROW_CORES if narrow else _FLOPS_A_CYCLE) * sound_clock_hz(clock_hz)


def sound_clock_hz(clock_hz: float) -> float:
    """The boost clock; the usual one where that is not known, or can't be."""
    return clock_hz if _CLOCKS_HZ[0] <= clock_hz <= _CLOCKS_HZ[1] else USUAL_CLOCK_HZ


def host_chip(bytes_per_s: float, threads: float, core_flops: float = CORE_FLOPS_PER_S) -> Chip:
    """A CPU of which the memory's speed and the threads are known."""
    flops = threads * core_flops
    return Chip(bytes_per_s=bytes_per_s, flops_per_s=flops, matrix_flops_per_s=flops, threads=threads)


USUAL_HOST = host_chip(70e9, 8.0, core_flops_per_s(5e9))
"""A desktop with two channels of DDR5, of which nothing is known."""


def has_wide_vectors(name: str) -> bool:
    """Whether a CPU of this name multiplies vectors of 512 bits."""
    return bool(_WIDE.search(_BETWEEN_WORDS.sub(" ", name)))


def is_server_by_name(name: str) -> bool:
    """Whether a CPU of this name is a server with matrix units."""
    return bool(_SERVER.search(_BETWEEN_WORDS.sub(" ", name)))


def has_peers(device: Device) -> bool:
    """Whether such GPUs read each other's memory directly: GeForce cards since Ampere may not."""
    return not (device.vendor == "NVIDIA" and device.name.startswith(("RTX 3", "RTX 4090", "RTX 40", "RTX 50")))


def has_links(device: Device) -> bool:
    """Whether several of them are joined on a board by links of their own."""
    return bool(device.link_bytes_per_s) and "SXM" in device.name


def usual_backend(device: Device) -> str:
    """What people run llama.cpp on such a device with.

    Of AMD's cards those that ROCm supports: Instinct, RDNA 3 and 4, and the largest chip of RDNA 2 (gfx1030), by AMD's
    list for Linux (https://rocm.docs.amd.com/projects/install-on-linux/en/latest/reference/system-requirements.html);
    GPUs inside a processor and older cards run with Vulkan.
    """
    if device.vendor == "AMD" and not device.unified:
        rocm = _ROCM.fullmatch(device.family) or _ROCM_BY_NAME.search(device.name)
        return "rocm" if rocm else "vulkan"
    return _BY_VENDOR.get(device.vendor, "vulkan")


@lru_cache(maxsize=4096)
def year_of_build(text: str) -> float:
    """When a build was made, in years, by a date or by its number; the usual year where neither is."""
    date, build = _DATE.search(text), _BUILD.search(text)
    if date and date[2]:
        return int(date[1]) + (int(date[2]) - 0.5) / 12
    if build:
        return _between(float(build[1]))
    return int(date[1]) + 0.5 if date else USUAL_YEAR


def _between(build: float) -> float:
    """By the releases before and after it."""
    earlier = [b for b in _BUILDS if b[0] <= build]
    later = [b for b in _BUILDS if b[0] > build]
    if not earlier or not later:
        return (later or earlier)[0 if later else -1][1]
    (low, start), (high, end) = earlier[-1], later[0]
    return start + (end - start) * (build - low) / (high - low)


def is_numbered(text: str) -> bool:
    """Whether it names a build by its number."""
    return bool(_BUILD.search(text))
