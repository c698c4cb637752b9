"""The system around the runtime: distribution, kernel, container, WSL, hypervisor."""

import platform
import re
from collections.abc import Iterable

from unslow.facts.machine import Machine
from unslow.facts.machine import System as SystemFacts
from unslow.facts.values import Fact, Unknown, not_found, reported
from unslow.look.kernel import is_there, read_word
from unslow.look.kernel.processes import MOUNT_TABLE, MOUNT_TABLE_LIMIT_BYTES, Mount, parse_mounts
from unslow.look.system import LookError, System, read_text, unknown

OS_RELEASE = "/etc/os-release"
KERNEL = "/proc/sys/kernel/osrelease"
CPUINFO = "/proc/cpuinfo"
CPUINFO_LIMIT_BYTES = 16 * 1024**2
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


def read(system: System) -> Machine:
    """What the kernel's files say; on other systems, what Python's `platform` does."""
    kernel = _first_word(system, KERNEL, "release")
    return Machine(
        system=SystemFacts(
            name=_read_name(system),
            kernel=kernel,
            container=_read_container(system),
            wsl=kernel if isinstance(kernel, Unknown) else reported("microsoft" in kernel.value.lower(), kernel.source),
            hypervisor=_read_hypervisor(system),
        )
    )


def _read_name(system: System) -> Fact[str]:
    try:
        match = _NAME.search(read_text(system, OS_RELEASE))
    except LookError:
        match = None
    return reported(match[1].strip(), OS_RELEASE) if match else _ask_platform(system, "name")


def _first_word(system: System, path: str, otherwise: str) -> Fact[str]:
    try:
        return reported(read_word(system, path), path)
    except LookError:
        return _ask_platform(system, otherwise)


def _ask_platform(system: System, key: str) -> Fact[str]:
    """What Python was told about the system that it runs on."""
    try:
        answer = system.ask("platform", lambda: {"name": platform.platform(terse=True), "release": platform.release()})
    except LookError as error:
        return unknown(error)
    word = answer.get(key) if isinstance(answer, dict) else None
    return reported(word, "platform") if isinstance(word, str) and word else not_found("the platform has no name")


def _read_container(system: System) -> Fact[str]:
    """The kind of container; each sign is a file that the container's own manager puts there."""
    try:
        word = read_word(system, "/run/systemd/container")
        if word != "wsl":
            return reported(word[:40], "/run/systemd/container")
    except LookError:
        pass
    if is_there(system, "/run/.containerenv"):
        return reported("podman", "/run/.containerenv")
    for path, text in _read_container_paths(system):
        kind = parse_container(text)
        if kind:
            return reported(kind, path)
    if is_there(system, "/.dockerenv"):
        return reported("docker", "/.dockerenv")
    return not_found("no sign of a container")


def _read_container_paths(system: System) -> Iterable[tuple[str, str]]:
    for path in ("/proc/1/cgroup", MOUNT_TABLE):
        try:
            text = read_text(system, path, MOUNT_TABLE_LIMIT_BYTES)
        except LookError:
            continue
        yield path, _origins(parse_mounts(text)) if path == MOUNT_TABLE else text


def _origins(mounts: Iterable[Mount]) -> str:
    """Where the root and the files that managers put in come from; a host's table also lists its containers' mounts."""
    own = (m for m in mounts if m.point == "/" or m.point in _CONTAINER_FILES or m.point.startswith("/proc/"))
    return "\n".join(f"{m.root} {m.filesystem} {m.source} {m.options}" for m in own)


def parse_container(text: str) -> str:
    """The container manager that paths speak of; empty where they speak of none."""
    return next((kind for kind, signs in _CONTAINER_SIGNS if any(sign in text for sign in signs)), "")


def _read_hypervisor(system: System) -> Fact[str]:
    """Its name; on x86 a CPU flag decides, for hosts of a cloud carry its name on bare metal too."""
    try:
        flags = _FLAGS.search(read_text(system, CPUINFO, CPUINFO_LIMIT_BYTES))
    except LookError as error:
        return unknown(error)
    text = _word_or_blank(system, CLOCKS)
    parse_clocks = next((name for clock, name in _VIRTUAL_CLOCKS.items() if clock in text.split()), "")
    vendor, clock = _word_or_blank(system, DMI_VENDOR), parse_clocks
    if not flags:
        virtual = vendor.lower().startswith(_VIRTUAL_VENDORS)
        return reported(vendor, DMI_VENDOR) if virtual else not_found("no sign of a hypervisor")
    if "hypervisor" not in flags[1].split():
        return not_found(f"no hypervisor flag in {CPUINFO}")
    if clock:
        return reported(clock, CLOCKS)
    return reported(vendor, DMI_VENDOR) if vendor else reported("unnamed", f"{CPUINFO}: hypervisor flag")


def _word_or_blank(system: System, path: str) -> str:
    try:
        return read_word(system, path)[:200]
    except LookError:
        return ""
