import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Unknown
from unslow.look.kernel import CPUINFO
from unslow.look.probes.operating_system import CLOCKS, DMI_VENDOR, KERNEL, OS_RELEASE, read

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n'
GUEST = "processor : 0\nflags\t\t: fpu vme hypervisor avx\n"
HOST = "processor : 0\nflags\t\t: fpu vme avx\n"
OVERLAY = (
    "600 500 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB,upperdir=/var/lib/docker/x\n"
    "610 600 8:1 /var/lib/docker/containers/ab/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
)
# A host's own table lists what its containers have mounted.
DOCKER_HOST = (
    "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
    "90 27 0:50 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB\n"
)


def facts(**files):
    return read(FakeSystem(files={KERNEL: "6.8.0-45-generic\n", **files})).system


def test_a_linux_machine_gives_name_and_kernel():
    system = facts(**{OS_RELEASE: DEBIAN, CPUINFO: HOST, DMI_VENDOR: "Amazon EC2\n"})
    assert system.name.need() == "Debian GNU/Linux 12 (bookworm)"
    assert system.kernel.need() == "6.8.0-45-generic"
    assert system.wsl.need() is False
    assert system.container.absence is Absence.NOT_FOUND
    assert system.hypervisor.absence is Absence.NOT_FOUND


def test_wsl_is_recognised_by_its_kernel():
    assert facts(**{KERNEL: "5.15.153.1-microsoft-standard-WSL2\n"}).wsl.need() is True


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/run/systemd/container": "lxc\n"}, "lxc"),
        ({"/run/systemd/container": "wsl\n", "/.dockerenv": ""}, "docker"),
        ({"/proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/x\n", "/.dockerenv": ""}, "kubernetes"),
        ({"/proc/1/cgroup": "0::/\n", "/proc/self/mountinfo": OVERLAY}, "docker"),
        ({"/proc/1/cgroup": "0::/system.slice/docker-abc.scope\n"}, "docker"),
    ],
)
def test_containers_are_recognised_by_their_marks(files, kind):
    assert facts(**files).container.need() == kind


def test_a_docker_host_is_not_a_container():
    files = {"/proc/1/cgroup": "0::/init.scope\n", "/proc/self/mountinfo": DOCKER_HOST}
    assert isinstance(facts(**files).container, Unknown)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({CPUINFO: GUEST, CLOCKS: "tsc kvm-clock acpi_pm\n", DMI_VENDOR: "QEMU\n"}, "KVM"),
        ({CPUINFO: GUEST, DMI_VENDOR: "VMware, Inc.\n"}, "VMware, Inc."),
        ({CPUINFO: GUEST}, "unnamed"),
        ({CPUINFO: "Features : asimd\n", DMI_VENDOR: "QEMU\n"}, "QEMU"),
    ],
)
def test_hypervisors_are_named(files, name):
    assert facts(**files).hypervisor.need() == name


def test_other_operating_systems_are_read_through_platform():
    asks = {"platform": {"name": "macOS-15.1", "release": "24.1.0"}}
    system = read(FakeSystem(asks=asks)).system
    assert system.name.need() == "macOS-15.1"
    assert system.kernel.need() == "24.1.0"
    assert isinstance(system.container, Unknown)


@pytest.mark.parametrize("answer", [None, [], {"name": 5, "release": ""}])
def test_a_malformed_platform_answer_gives_unknown_facts(answer):
    system = read(FakeSystem(asks={"platform": answer})).system
    assert isinstance(system.name, Unknown)
    assert isinstance(system.wsl, Unknown)


def test_an_ordinary_cgroup_path_is_not_a_container():
    cgroup = "0::/user.slice/user-1000.slice/session-2.scope"
    assert isinstance(read(FakeSystem(files={"/proc/1/cgroup": cgroup})).system.container, Unknown)
