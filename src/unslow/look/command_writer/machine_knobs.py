"""Knobs of the machine, which are turned in the same way whatever runs on it, and otherwise on each system."""

from typing import NamedTuple

from unslow.facts.commands import by_hand
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.values import GIB, MIB

_SMALLEST_BYTES = 2**24  # a number below is one of MiB already
_NO_FALLBACK = "NVIDIA Control Panel, Manage 3D settings: CUDA - Sysmem Fallback Policy = Prefer No Sysmem Fallback"
_ADMINISTRATOR = "in an administrator prompt"
_LOW_POWER_MODE = "System Settings > Battery: Low Power Mode off"
_UNCLOCKED = {
    "NVIDIA": ["sudo nvidia-smi -rgc && sudo nvidia-smi -rmc"],
    "AMD": ["sudo rocm-smi --resetclocks", "sudo amd-smi reset --clocks"],
}
"""What takes locked clocks back on Linux: both tools of AMD's do, and many have only one."""
_POWER_PROFILE = "set the power profile of the system to performance, and reboot"
_UNCLOCKED_BY_HAND = {
    ("Windows", "NVIDIA"): f"{_ADMINISTRATOR}: nvidia-smi -rgc, then nvidia-smi -rmc",
    ("Windows", "AMD"): "AMD Software > Performance > Tuning: Default",
    ("macOS", "Apple"): _LOW_POWER_MODE,
}
_WATTS = {"NVIDIA": "nvidia-smi -pl {watts:g}", "AMD": "rocm-smi --setpoweroverdrive {watts:g}"}
_FAST_CPU = {"Windows": "powercfg /setactive SCHEME_MIN", "macOS": by_hand(_LOW_POWER_MODE)}
"""`SCHEME_MIN` is what Windows calls the profile with the least saving of power."""
_VARIABLE_GRAPHICS_MEMORY = "AMD Software > Performance > Tuning: more Variable Graphics Memory, and restart"
_PAGE_BYTES = 4096
_SHOWN_CPU = (
    "Proxmox: qm set VMID --cpu host; libvirt: virsh edit NAME, <cpu mode='host-passthrough'/>; then stop the virtual "
    "machine and start it anew"
)
_LXC = "Proxmox: pct set VMID, or LXD: lxc config set NAME, with a limit of {what}"
_POD = "resources.limits in the pod's manifest: {what}, then kubectl apply -f FILE"


class Host(NamedTuple):
    """The machine that a line is for: its system, its container, who made its GPUs; empty where unknown."""

    system: str = ""
    makers: frozenset[str] = frozenset()
    container: str = ""
    unit: str = ""  # Of systemd, in whose control group the runtime is

    @property
    def maker(self) -> str:
        """The one maker of all GPUs; NVIDIA where none is known, for most are theirs; empty for several."""
        return next(iter(self.makers or {"NVIDIA"})) if len(self.makers) <= 1 else ""


def spell_machine(change: Change, host: Host = Host()) -> list[str]:  # noqa: B008 (nothing in it can change)
    """What to type or click; empty for a knob of the runtime, and where the value is not known."""
    lines: list[str] = []
    match change.knob, change.value:
        case Knob.OTHER_LOAD, int(pid):
            clicked = by_hand(f"Task Manager > Details: the priority of process {pid} = Low")
            lines = [clicked if host.system == "Windows" else f"renice -n 19 -p {pid}"]
        case Knob.CPU_QUOTA, int(cpus) | float(cpus):
            lines = _limit(host, f"cpu: {cpus:g}", f"--cpus {cpus:g}", f"CPUQuota={cpus:.0%}")
        case Knob.MEMORY_LIMIT, int(size):
            gib = -(-size // GIB)
            unit = f"MemoryHigh=infinity MemoryMax={gib}G"
            lines = _limit(host, f"memory: {gib}Gi", f"--memory {gib}g --memory-swap {gib}g", unit)
        case Knob.VIRTUAL_CPU, _:
            lines = [by_hand(_SHOWN_CPU)]
        case Knob.WIRED_LIMIT, int(size):
            lines = _lent_to_the_gpu(size // MIB if size >= _SMALLEST_BYTES else int(size), host)
        case Knob.ALLOCATOR, str(settings):
            lines = [f"export PYTORCH_CUDA_ALLOC_CONF={settings}"]
        case Knob.DRIVER_FALLBACK, variable:
            unset = f"start it without {variable} in its environment"
            lines = [by_hand(unset if isinstance(variable, str) else _NO_FALLBACK)]
        case Knob.POWER, value:
            lines = _power(value, host)
        case Knob.CLOCKS, _:
            clicked = by_hand(_UNCLOCKED_BY_HAND.get((host.system, host.maker), _POWER_PROFILE))
            lines = _UNCLOCKED.get(host.maker, [clicked]) if host.system in ("", "Linux") else [clicked]
    return lines


def _limit(host: Host, pod: str, docker: str, unit: str) -> list[str]:
    """What lifts a limit, by who sets it; both usual ways where unknown."""
    if host.container == "kubernetes":
        return [by_hand(_POD.format(what=pod))]
    if host.container == "lxc":
        return [by_hand(_LXC.format(what=pod))]
    by_engine = f"{'podman' if host.container == 'podman' else 'docker'} update {docker} CONTAINER"
    by_unit = f"sudo systemctl set-property {host.unit or 'UNIT'} {unit}"
    if host.container in ("docker", "podman"):
        return [by_engine]
    return [by_unit] if host.unit else [by_engine, by_unit]


def _lent_to_the_gpu(mebibytes: int, host: Host) -> list[str]:
    """More of a memory that GPU and processor share; Linux counts the limit in pages, and reads it at its start."""
    if host.system == "Windows":
        return [by_hand(_VARIABLE_GRAPHICS_MEMORY)]
    if host.maker != "AMD":
        return [f"sudo sysctl iogpu.wired_limit_mb={mebibytes}"]
    pages = mebibytes * MIB // _PAGE_BYTES
    words = f"ttm.pages_limit={pages} ttm.page_pool_size={pages}"
    return [by_hand(f"add `{words}` to the kernel command line (GRUB_CMDLINE_LINUX), and restart")]


def _power(value: Setting, host: Host) -> list[str]:
    if isinstance(value, str):
        option = value if value.startswith("-") else f"-g {value}"
        return [_FAST_CPU.get(host.system, f"sudo cpupower frequency-set {option}")]
    line = _WATTS.get(host.maker, "").format(watts=value) if value else ""
    if not line or (host.system == "Windows" and host.maker != "NVIDIA"):
        return []
    return [by_hand(f"{_ADMINISTRATOR}: {line}") if host.system == "Windows" else f"sudo {line}"]
