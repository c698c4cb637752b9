"""The system around the runtime: distribution, kernel, container, WSL, hypervisor, battery."""

import platform
import re

from unslow.facts.machine import Machine
from unslow.facts.machine import System as SystemFacts
from unslow.facts.merge import overlaid
from unslow.facts.values import Fact, Unknown, not_found, reported_fact
from unslow.look.kernel import CPUINFO, CPUINFO_LIMIT_BYTES, is_there, read_word
from unslow.look.kernel.processes import MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES, parse_mounts
from unslow.look.system import System, read_text, try_fact, try_look

OS_RELEASE = "/etc/os-release"
KERNEL = "/proc/sys/kernel/osrelease"
DMI_VENDOR = "/sys/class/dmi/id/sys_vendor"
CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
_NAME = re.compile(r"^PRETTY_NAME=[\"']?([^\"'\n]{1,200})", re.MULTILINE)
_FLAGS = re.compile(r"^flags[ \t]*:([^\n]*)", re.MULTILINE)
# Parts of control group paths, and of where a container's root and /etc/hosts come from; the first fit counts.
_CONTAINER_SIGNS = (
    ("kubernetes", ("kubepods", "/kubelet/")),
    ("podman", ("libpod", "containers/storage/")),
    ("docker", ("/docker/", "docker-")),
    ("lxc", ("/lxc/", "lxc.payload", "lxcfs")),
    ("systemd-nspawn", ("systemd-nspawn", "machine-nspawn")),
    ("containerd", ("containerd",)),
)
_CONTAINER_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_VIRTUAL_CLOCKS = {"kvm-clock": "KVM", "hyperv_clocksource_tsc_page": "Hyper-V", "xen": "Xen"}
_VIRTUAL_VENDORS = ("qemu", "vmware", "xen", "innotek", "parallels", "apple virtualization")
SUPPLIES = "/sys/class/power_supply"
_MOST_SUPPLIES = 32


def read(system: System) -> Machine:
    """What the kernel's files say; on other systems, what Python's `platform` does."""
    word = try_look("", read_word, system, KERNEL)
    kernel = reported_fact(word, KERNEL) if word else try_fact(_ask_platform, system, "release")
    match = _NAME.search(try_look("", read_text, system, OS_RELEASE))
    facts = SystemFacts(
        name=reported_fact(match[1].strip(), OS_RELEASE) if match else try_fact(_ask_platform, system, "name"),
        kernel=kernel,
        container=_read_container(system),
        wsl=kernel
        if isinstance(kernel, Unknown)
        else reported_fact("microsoft" in kernel.value.lower(), kernel.source),
        hypervisor=try_fact(_read_hypervisor, system),
    )
    return Machine(system=overlaid(facts, _read_power(system)))


def _ask_platform(system: System, key: str) -> Fact[str]:
    answer = system.ask("platform", lambda: {"name": platform.platform(terse=True), "release": platform.release()})
    word = answer.get(key) if isinstance(answer, dict) else None
    return reported_fact(word, "platform") if isinstance(word, str) and word else not_found("the platform has no name")


def _read_container(system: System) -> Fact[str]:
    """The kind of container; each sign is a file that the container's own manager puts there."""
    word = try_look("", read_word, system, "/run/systemd/container")
    if word and word != "wsl":
        return reported_fact(word[:40], "/run/systemd/container")
    if is_there(system, "/run/.containerenv"):
        return reported_fact("podman", "/run/.containerenv")
    for path in ("/proc/1/cgroup", MOUNT_TABLE):
        text = try_look("", read_text, system, path, MOUNT_TABLE_LIMIT_BYTES)
        if path == MOUNT_TABLE:  # a host's table also lists its containers' mounts
            points = ("/", *_CONTAINER_FILES)
            own = (m for m in parse_mounts(text) if m.point in points or m.point.startswith("/proc/"))
            text = "\n".join(f"{m.root} {m.filesystem} {m.source} {m.options}" for m in own)
        if kind := next((kind for kind, signs in _CONTAINER_SIGNS if any(sign in text for sign in signs)), ""):
            return reported_fact(kind, path)
    if is_there(system, "/.dockerenv"):
        return reported_fact("docker", "/.dockerenv")
    return not_found("no sign of a container")


def _read_hypervisor(system: System) -> Fact[str]:
    """Its name; on x86 a CPU flag decides, for hosts of a cloud carry its name on bare metal too."""
    flags = _FLAGS.search(read_text(system, CPUINFO, CPUINFO_LIMIT_BYTES))
    clocks = try_look("", read_word, system, CLOCKS)[:200].split()
    clock = next((name for clock, name in _VIRTUAL_CLOCKS.items() if clock in clocks), "")
    vendor = try_look("", read_word, system, DMI_VENDOR)[:200]
    if not flags:
        virtual = vendor.lower().startswith(_VIRTUAL_VENDORS)
        return reported_fact(vendor, DMI_VENDOR) if virtual else not_found("no sign of a hypervisor")
    if "hypervisor" not in flags[1].split():
        return not_found(f"no hypervisor flag in {CPUINFO}")
    if clock:
        return reported_fact(clock, CLOCKS)
    return reported_fact(vendor, DMI_VENDOR) if vendor else reported_fact("unnamed", f"{CPUINFO}: hypervisor flag")


def _read_power(system: System) -> SystemFacts:
    """Whether it runs on battery; nothing at all where there is no battery: a desktop always has mains power."""
    names = try_look([], system.list_dir, SUPPLIES)[:_MOST_SUPPLIES]
    words = [
        {key: try_look("", read_word, system, f"{SUPPLIES}/{name}/{key}") for key in ("type", "status", "online")}
        for name in names
    ]
    batteries = [supply for supply in words if supply["type"] == "Battery"]
    if not batteries:
        return SystemFacts()
    mains = any(supply["type"] != "Battery" and supply["online"] == "1" for supply in words)
    drained = any(battery["status"] == "Discharging" for battery in batteries)
    return SystemFacts(on_battery=reported_fact(drained and not mains, SUPPLIES))
