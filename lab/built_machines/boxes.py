"""What lies around a server: virtual machines, services with limits, volumes, proxies, power tools, memory nodes."""

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import CPUS, FLAGS, Cpu, Memory, linux
from lab.built_machines.llama_server import LOG, PID, Server, serve
from lab.built_machines.measured import Answer, Others, measured_run
from lab.built_machines.parts import DESKTOP, answers
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B, Shape
from lab.built_machines.sources import (
    BUFFERED,
    CLOUD_VOLUME,
    CPUFREQ,
    HIDDEN_AVX,
    MEMORY_HIGH,
    NODES_CACHED,
    STEAL,
    WINDOWS_DRIVE,
)
from lab.built_machines.world import World

from unslow.facts.machine import BusyProcess
from unslow.facts.run import Run
from unslow.facts.values import measured_fact

AVX512 = f"{FLAGS} avx512f avx512bw avx512vl avx512_vnni"
LLAMA_8B_Q8 = Shape(
    "Llama 3.1 8B Q8", 8_030_261_248, 32, 4096, 14336, 32, 8, 128256, 7073.0, 532.31, 532.31, quant="Q8_0", file_type=7
)
XEON = Cpu("Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", 12, mhz=3600, max_mhz=3900, flags=AVX512)
EPYC = Cpu("AMD EPYC 9175F 16-Core Processor", 32, 0, 2, mhz=4300, max_mhz=5000, flags=AVX512)
CGROUPS = "/sys/fs/cgroup"
NODE = "/sys/devices/system/node"
STOLEN = "steal: other virtual machines on this host"
"""As the reader of /proc/stat calls that time."""


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (
        Built(
            "virtual_machine_without_avx", "generic_cpu_build",
            "a virtual machine of the type x86-64-v2-AES, whose guest sees no AVX", HIDDEN_AVX, _without_avx(0.9),
        ),
        Built(
            "virtual_machine_with_stolen_time", "cpu_contended",
            "a virtual machine of four CPUs of which the hypervisor gives the time of 1.8 to others", STEAL,
            _stolen(1.8),
        ),
        Built(
            "service_with_memory_high", "weights_streamed_from_disk",
            "MemoryHigh=5G for a model of 8 GiB on a machine of 32: its pages are taken back and read again",
            MEMORY_HIGH, _under_memory_high(0.42),
        ),
        Built(
            "model_on_a_cloud_volume", "slow_model_load",
            "a 70B model on a volume of 125 MiB a second whose device is called nvme1n1", CLOUD_VOLUME,
            _on_volume(312.0),
        ),
        Built(
            "model_on_a_windows_drive", "slow_model_load", "an 8B model on /mnt/c under WSL: 96 s to load",
            WINDOWS_DRIVE, _on_windows_drive(96.0),
        ),
        Built(
            "proxy_collects_the_stream", "client_overhead",
            "a proxy that passes every answer on once it is whole", BUFFERED, _behind_proxy(16.0),
        ),
        Built(
            "laptop_limited_by_a_power_tool", "cpu_clock_limited",
            "a laptop on battery whose power tool allows 1.7 of 5.1 GHz", CPUFREQ, _limited(4.1),
        ),
        Built(
            "two_sockets_pages_cached_before", "numa_remote_memory",
            "--numa distribute on two sockets, with the file in the page cache of the first from before", NODES_CACHED,
            _on_nodes(3.9, (10_100_000, 241_000)),
        ),
        Built(
            "two_sockets_pages_spread", "", "the same with the pages on both", NODES_CACHED,
            _on_nodes(10.4, (5_300_000, 5_041_000)), "normal",
        ),
    )  # fmt: skip


def boxed(world: World, kind: str, cpus: float, throttled: float) -> World:
    """The world seen from within a container with a limit of CPUs, stopped in such a share of the periods."""
    inside = {f"/proc/{name}/cgroup": "0::/\n" for name in ("self", str(PID), "1")}
    for path in [path for path in world.files if path.startswith(f"{CGROUPS}/")]:
        del world.files[path]
    hosts = {"kubernetes": "/var/lib/kubelet/pods/0a1b/etc-hosts", "docker": "/var/lib/docker/containers/0a1b/hosts"}[
        kind
    ]
    stopped = round(throttled * 9000)
    counts = f"usage_usec 9000000000\nnr_periods 9000\nnr_throttled {stopped}\nthrottled_usec {stopped * 60000}\n"
    mounts = (
        "25 30 0:22 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n30 1 0:45 / / rw,relatime - overlay overlay rw\n"
        f"31 30 259:1 {hosts} /etc/hosts rw - xfs /dev/nvme0n1p1 rw\n"
    )
    limits = {f"{CGROUPS}/cpu.max": f"{round(cpus * 1e5)} 100000\n", f"{CGROUPS}/cpu.stat": counts}
    return world.add(inside | limits | {"/proc/self/mountinfo": mounts, f"{CGROUPS}/memory.max": "max\n"})


def virtual(world: World, vendor: str) -> World:
    """The world as a virtual machine shows it: without clocks of its own."""
    for path in [path for path in world.files if "/cpufreq/" in path]:
        del world.files[path]
    world.files["/proc/cpuinfo"] = str(world.files["/proc/cpuinfo"]).replace(
        "flags\t\t: fpu", "flags\t\t: fpu hypervisor"
    )
    return world.add({"/sys/class/dmi/id/sys_vendor": f"{vendor}\n"})


def _mount(world: World, line: str, read_gib: float) -> World:
    """One more file system, and what disks have given to the server."""
    mounts = str(world.files["/proc/self/mountinfo"])
    counted = f"rchar: 1\nwchar: 1\nread_bytes: {round(read_gib * 2**30)}\nwrite_bytes: 0\n"
    return world.add({"/proc/self/mountinfo": f"{mounts}{line}\n", f"/proc/{PID}/io": counted})


def _without_avx(tokens_per_s: float) -> Write:
    cpu = Cpu("QEMU Virtual CPU version 2.5+", 8, mhz=3394, flags="fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt aes")
    features = "CPU : SSE3 = 1 | SSSE3 = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "
    server = Server(LLAMA_8B, (), answers(tokens_per_s, 64, 60.0), features=features, cpu=(cpu.model, 24000))
    world = virtual(linux(cpu, Memory(24, 17, 1, 38.0, 19.0)), "QEMU")
    return snapshot(serve(world, server), measured_run(Answer(tokens_per_s, 60.0, 32), 7.9))


def _stolen(cpus: float) -> Write:
    cpu = Cpu("Intel Xeon Processor (Skylake, IBRS)", 4, mhz=2294, flags=AVX512)
    server = Server(LLAMA_8B, (), answers(1.6, 64, 9.0), threads=4, cpus=4, cpu=(cpu.model, 15900), context=4096)
    world = serve(virtual(linux(cpu, Memory(16, 9, 1, 36.0, 12.0)), "Hetzner"), server)
    others = Others(cpus + 0.05, (BusyProcess(pid=0, name=STOLEN, cpus=cpus),), 0.05)
    return snapshot(world, measured_run(Answer(1.6, 9.0), 4 - cpus - 0.1, others, cpu_pressure=0.05))


def _under_memory_high(tokens_per_s: float) -> Write:
    server = Server(LLAMA_8B_Q8, (), answers(tokens_per_s, 64, 30.0))
    world = serve(linux(memory=Memory(32, 24, 1, 42.0, 21.0)), server)
    group = f"{CGROUPS}/system.slice/llama.service"
    status = f"Name:\tllama-server\nPid:\t{PID}\nPPid:\t1\nVmRSS:\t4900000 kB\nCpus_allowed_list:\t0-7\n"
    world.add({f"{group}/memory.high": f"{5 * 2**30}\n", f"{group}/memory.max": "max\n", f"/proc/{PID}/status": status})
    run = measured_run(
        Answer(tokens_per_s, 30.0, 24), 1.6, disk_read_bytes_per_s=2.4e9, own_major_faults_per_s=18000.0,
        major_faults_per_s=18000.0, swap_in_bytes_per_s=0.0, memory_pressure=0.6, io_pressure=0.7,
    )  # fmt: skip
    return snapshot(world, run)


def _on_volume(seconds: float) -> Write:
    flags = f"{AVX512} amx_tile amx_int8 amx_bf16"
    cpu = Cpu("Intel(R) Xeon(R) Platinum 8488C", 32, mhz=2400, flags=flags)
    server = Server(LLAMA_70B, (), answers(4.2, 512, 15.0), threads=32, cpus=32, cpu=(cpu.model, 262144))
    world = serve(virtual(linux(cpu, Memory(256, 200, 1, 230.0, 14.0)), "Amazon EC2"), server)
    device = "/sys/devices/pci0000:00/0000:00:1f.0/nvme/nvme1/nvme1n1"
    _mount(world, "40 1 259:4 / /srv rw,relatime - ext4 /dev/nvme1n1 rw", 39.6)
    world.add({"/sys/class/block/nvme1n1/device/model": "Amazon Elastic Block Store\n"}, links={
        "/sys/dev/block/259:4": device, "/sys/class/block/nvme1n1": device,
    })  # fmt: skip
    return snapshot(world, _loaded(measured_run(Answer(4.2, 4.0), 32.0), seconds))


def _on_windows_drive(seconds: float) -> Write:
    cpu = Cpu("12th Gen Intel(R) Core(TM) i5-12400", 6, mhz=2496)
    server = Server(LLAMA_8B, (), answers(7.2, 128, 6.0), threads=6, cpus=6, cpu=(cpu.model, 15900))
    world = serve(virtual(linux(cpu, Memory(16, 11, 1, 41.0, 21.0)), "Microsoft Corporation"), server)
    path = "/mnt/c/models/llama-3.1-8b.gguf"
    for name in (f"/proc/{PID}/cmdline", f"/proc/{PID}/root{LOG}"):
        world.files[name] = str(world.files[name]).replace(server.model, path)
    world.http = {ask: answer.replace(server.model, path) for ask, answer in world.http.items()}
    world.asks[f"gguf /proc/{PID}/root{path}"] = server.shape.gguf(path)
    world.files["/proc/sys/kernel/osrelease"] = "5.15.167.4-microsoft-standard-WSL2\n"
    _mount(world, r"40 1 0:60 / /mnt/c rw,noatime - 9p C:\134 rw,aname=drvfs", 0.0)
    return snapshot(world, _loaded(measured_run(Answer(7.2, 6.0), 6.0), seconds))


def _loaded(run: Run, seconds: float) -> Run:
    return Run(
        **{name: getattr(run, name) for name in run.__struct_fields__} | {"load_s": measured_fact(seconds, "its log")}
    )


def _behind_proxy(tokens_per_s: float) -> Write:
    server = Server(
        LLAMA_8B, (), answers(tokens_per_s, 128, 1.9), threads=12, cpus=12, cpu=(XEON.model, 96000)
    )  # fmt: skip
    whole_s = 1.9 + 95 / tokens_per_s + 0.03
    run = measured_run(Answer(tokens_per_s, 1.9, 96, whole_s, whole_s + 0.004), 12.0, own_clock_hz=3.6e9)
    return snapshot(serve(linux(XEON, Memory(96, 80, 1, 88.0, 12.0)), server), run)


def _limited(tokens_per_s: float) -> Write:
    cpu = Cpu(
        "AMD Ryzen 7 7840U w/ Radeon  780M Graphics", 8, mhz=1700, max_mhz=5132, governor="powersave", flags=AVX512
    )
    server = Server(LLAMA_8B, (), answers(tokens_per_s, 128, 9.0), cpu=(cpu.model, 31500))
    world = serve(linux(cpu, DESKTOP._replace(total_gib=32, available_gib=22, read_gb_per_s=56.0)), server)
    world.add({f"{CPUS}/cpufreq/policy{n}/scaling_max_freq": "1700000\n" for n in range(8)})
    supply = "/sys/class/power_supply"
    world.add({f"{supply}/AC/type": "Mains\n", f"{supply}/AC/online": "0\n"})
    world.add({f"{supply}/BAT0/type": "Battery\n", f"{supply}/BAT0/status": "Discharging\n"})
    return snapshot(world, measured_run(Answer(tokens_per_s, 9.0), 8.0, own_clock_hz=1.7e9))


def _on_nodes(tokens_per_s: float, pages: tuple[int, int]) -> Write:
    server = Server(
        LLAMA_70B, (), answers(tokens_per_s, 512, 20.0), args=("--numa", "distribute", "-t", "32"), threads=32, cpus=32,
        cpu=(EPYC.model, 786432),
    )  # fmt: skip
    world = serve(linux(EPYC, Memory(768, 700, 2, 700.0, 42.0)), server)
    held = " ".join(f"N{node}={count}" for node, count in enumerate(pages))
    mapped = f"7f0000000000 default file={server.model} mapped={sum(pages)} {held} kernelpagesize_kB=4\n"
    world.add({f"/proc/{PID}/numa_maps": mapped})
    world.add({f"{NODE}/node{node}/cpulist": f"{node * 16}-{node * 16 + 15}\n" for node in range(2)})
    run = measured_run(
        Answer(tokens_per_s, 8.0), 32.0, own_node0_share=0.5, own_node1_share=0.5, own_clock_hz=4.3e9,
        swap_in_bytes_per_s=0.0,
    )  # fmt: skip
    return snapshot(world, run)
