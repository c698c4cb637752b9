"""AMD GPUs in a built world: the files of amdgpu under /sys, as the kernel documents them."""

from typing import Any, NamedTuple

from unslow.facts.values import MIB


class AmdCard(NamedTuple):
    """One GPU: what it is, and what it does while somebody looks."""

    name: str = "AMD Radeon RX 7900 XTX"
    device: str = "744c"
    revision: str = "c8"
    target: int = 110000
    """gfx_target_version of the kernel's topology: 110000 is gfx1100."""
    vram_mib: int = 24560
    used_mib: int = 0
    gtt_mib: int = 31932
    gtt_used_mib: int = 64
    busy: int = 97
    mhz: int = 2482
    max_mhz: int = 2482
    watts: int = 301
    limit_w: int = 339
    celsius: int = 58
    integrated: bool = False
    """Whether it is part of a processor: then amdgpu shows the voltage of a northbridge and no limit of power."""


def amd_files(number: int, card: AmdCard) -> dict[str, str]:
    """The files of one card."""
    drm, bus = f"/sys/class/drm/card{number}/device", number + 3
    hwmon, node = f"{drm}/hwmon/hwmon{number}", f"/sys/class/kfd/kfd/topology/nodes/{number + 1}"
    capped = {
        f"{hwmon}/power1_cap": f"{card.limit_w * 10**6}\n",
        f"{hwmon}/power1_cap_default": f"{card.limit_w * 10**6}\n",
    }
    return (_northbridge(hwmon) if card.integrated else capped) | {
        f"{drm}/vendor": "0x1002\n",
        f"{drm}/device": f"0x{card.device}\n",
        f"{drm}/revision": f"0x{card.revision}\n",
        f"{drm}/uevent": f"DRIVER=amdgpu\nPCI_ID=1002:{card.device.upper()}\nPCI_SLOT_NAME=0000:{bus:02x}:00.0\n",
        f"{drm}/mem_info_vram_total": f"{card.vram_mib * MIB}\n",
        f"{drm}/mem_info_vram_used": f"{card.used_mib * MIB}\n",
        f"{drm}/mem_info_gtt_total": f"{card.gtt_mib * MIB}\n",
        f"{drm}/mem_info_gtt_used": f"{card.gtt_used_mib * MIB}\n",
        f"{drm}/gpu_busy_percent": f"{card.busy}\n",
        f"{drm}/pp_dpm_sclk": f"0: 500Mhz \n1: {card.mhz}Mhz *\n2: {card.max_mhz}Mhz \n",
        f"{drm}/power_dpm_force_performance_level": "auto\n",
        f"{hwmon}/name": "amdgpu\n",
        f"{hwmon}/freq1_label": "sclk\n",
        f"{hwmon}/freq1_input": f"{card.mhz * 10**6}\n",
        f"{hwmon}/temp1_label": "edge\n",
        f"{hwmon}/temp1_input": f"{card.celsius * 1000}\n",
        f"{hwmon}/temp1_crit": "100000\n",
        f"{hwmon}/power1_average": f"{card.watts * 10**6}\n",
        f"{node}/gpu_id": f"{30463 + number}\n",
        f"{node}/properties": f"simd_count 192\ngfx_target_version {card.target}\nlocation_id {bus * 256}\ndomain 0\n",
    }


def _northbridge(hwmon: str) -> dict[str, str]:
    return {f"{hwmon}/in1_label": "vddnb\n", f"{hwmon}/in1_input": "750\n"}


def clients(pid: int, name: str, number: int, vram_mib: int, gtt_mib: int) -> list[dict[str, Any]]:
    """What /proc/PID/fdinfo tells of a process that uses the card."""
    info = f"drm-driver:\tamdgpu\ndrm-client-id:\t61\ndrm-pdev:\t0000:{number + 3:02x}:00.0\n"
    info += f"drm-memory-vram:\t{vram_mib * 1024} KiB\ndrm-memory-gtt:\t{gtt_mib * 1024} KiB\n"
    return [{"pid": pid, "name": name, "fdinfo": info}] if vram_mib else []


def add_amd(world: Any, pid: int, *cards: AmdCard, may_open: bool = True) -> Any:
    """The world with these cards in it, on which one process runs the model."""
    for number, card in enumerate(cards):
        world.add(amd_files(number, card))
        ids = world.files.get("/usr/share/libdrm/amdgpu.ids", "1.0.0\n")
        world.files["/usr/share/libdrm/amdgpu.ids"] = (
            f"{ids}{card.device.upper()},\t{card.revision.upper()},\t{card.name}\n"
        )
    held = [
        c for n, card in enumerate(cards) for c in clients(pid, "llama-server", n, card.used_mib, card.gtt_used_mib)
    ]
    return world.add(asks={"access /dev/kfd": {"exists": True, "allowed": may_open}, "drm clients": held})
