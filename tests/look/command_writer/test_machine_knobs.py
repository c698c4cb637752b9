import pytest

from unslow.facts.knob import Knob
from unslow.look.command_writer.machine_knobs import Host, spell_machine


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Knob.OTHER_LOAD.to(77), ["renice -n 19 -p 77"]),
        (Knob.OTHER_LOAD.to(None), []),
        (Knob.POWER.to("performance"), ["sudo cpupower frequency-set -g performance"]),
        (Knob.POWER.to(350), ["sudo nvidia-smi -pl 350"]),
        (Knob.POWER.to(None), []),
        (Knob.WIRED_LIMIT.to(57344), ["sudo sysctl iogpu.wired_limit_mb=57344"]),
        (Knob.WIRED_LIMIT.to(56 * 1024**3), ["sudo sysctl iogpu.wired_limit_mb=57344"]),
        (Knob.THREADS.to(4), []),
    ],
)
def test_machine_knobs_are_spelled_as_commands(change, words):
    assert spell_machine(change) == words


def test_a_cpu_quota_is_spelled_for_docker_and_systemd():
    assert spell_machine(Knob.CPU_QUOTA.to(8)) == [
        "docker update --cpus 8 CONTAINER",
        "sudo systemctl set-property UNIT CPUQuota=800%",
    ]


@pytest.mark.parametrize(
    ("host", "line"),
    [
        (Host(container="kubernetes"), "by hand: resources.limits in the pod's manifest: memory: 10Gi, then kubectl"),
        (Host(container="lxc"), "by hand: Proxmox: pct set VMID"),
        (Host(container="docker"), "docker update --memory 10g --memory-swap 10g CONTAINER"),
        (Host(container="podman"), "podman update --memory 10g --memory-swap 10g CONTAINER"),
        (Host(unit="llama.service"), "sudo systemctl set-property llama.service MemoryHigh=infinity MemoryMax=10G"),
    ],
)
def test_a_memory_limit_is_raised_where_it_was_set(host, line):
    (said,) = spell_machine(Knob.MEMORY_LIMIT.to(10 * 2**30 - 1), host)
    assert said.startswith(line)


def test_cpu_clock_and_virtual_cpu_type_have_commands():
    assert spell_machine(Knob.POWER.to("-u 5132MHz")) == ["sudo cpupower frequency-set -u 5132MHz"]
    assert "--cpu host" in spell_machine(Knob.VIRTUAL_CPU.to("host"))[0]


@pytest.mark.parametrize(
    ("system", "maker", "first"),
    [
        ("Linux", "NVIDIA", "sudo nvidia-smi -rgc && sudo nvidia-smi -rmc"),
        ("Linux", "AMD", "sudo rocm-smi --resetclocks"),
        ("Windows", "NVIDIA", "by hand: in an administrator prompt: nvidia-smi -rgc, then nvidia-smi -rmc"),
        ("Windows", "AMD", "by hand: AMD Software > Performance > Tuning: Default"),
        ("macOS", "Apple", "by hand: System Settings > Battery: Low Power Mode off"),
        ("Linux", "Intel", "by hand: set the power profile of the system to performance, and reboot"),
    ],
)
def test_locked_gpu_clocks_are_reset_by_the_vendors_tool(system, maker, first):
    assert spell_machine(Knob.CLOCKS.to(None), Host(system, frozenset({maker})))[0] == first


def test_no_vendor_gets_the_tool_of_another():
    for maker in ("AMD", "Intel", "Apple"):
        host = Host("Linux", frozenset({maker}))
        lines = [line for knob in (Knob.CLOCKS, Knob.POWER) for line in spell_machine(knob.to(250), host)]
        assert not any("nvidia" in line for line in lines)
    assert spell_machine(Knob.POWER.to(250), Host("Linux", frozenset({"AMD"}))) == [
        "sudo rocm-smi --setpoweroverdrive 250"
    ]


def test_windows_and_macos_get_no_sudo_for_cpu_power():
    assert spell_machine(Knob.POWER.to("performance"), Host("Windows")) == ["powercfg /setactive SCHEME_MIN"]
    assert spell_machine(Knob.POWER.to("performance"), Host("macOS"))[0].startswith("by hand: ")
    assert spell_machine(Knob.OTHER_LOAD.to(7), Host("Windows"))[0].startswith("by hand: ")


def test_the_pytorch_allocator_is_set_by_a_variable():
    change = Knob.ALLOCATOR.to("expandable_segments:True")
    assert spell_machine(change) == ["export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]


def test_gpu_share_of_unified_memory_is_set_per_operating_system():
    (linux,) = spell_machine(Knob.WIRED_LIMIT.to(98304), Host("Linux", frozenset({"AMD"})))
    assert "ttm.pages_limit=25165824" in linux
    (windows,) = spell_machine(Knob.WIRED_LIMIT.to(98304), Host("Windows", frozenset({"AMD"})))
    assert "Variable Graphics Memory" in windows
    assert not any("sysctl" in line for line in (linux, windows))
