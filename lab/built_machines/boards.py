"""Boards and servers with ARM processors: builds that fit any of them, heat, two kinds of cores, and pods."""

from lab.built_machines.boxes import boxed
from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import CPUS, Cpu, Memory, linux
from lab.built_machines.llama_server import PID, Server, serve
from lab.built_machines.measured import Answer, Others, measured_run
from lab.built_machines.parts import answers
from lab.built_machines.shapes import LLAMA_8B, Shape
from lab.built_machines.sources import BIG_CORES, BOARD_BUILDS, BOARD_HEAT, QUOTA
from lab.built_machines.world import World

# by its config.json and what llama.cpp prints of its Q4_K_M: the table is the output too
LLAMA_3B = Shape("Llama 3.2 3B", 3_212_749_888, 28, 3072, 8192, 24, 8, 128256, 1610.1, 308.23, 0.0)
CORTEX_A76 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
NEOVERSE_V1 = f"{CORTEX_A76} sve asimdfhm i8mm bf16 svei8mm svebf16"
ANY_ARM = "CPU : NEON = 1 | ARM_FMA = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "
FOR_A76 = "CPU : NEON = 1 | ARM_FMA = 1 | FP16_VA = 1 | DOTPROD = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "
FOR_V1 = "CPU : NEON = 1 | ARM_FMA = 1 | FP16_VA = 1 | MATMUL_INT8 = 1 | SVE = 1 | DOTPROD = 1 | SVE_CNT = 32 | "


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_boards(), *_two_kinds(), *_pods())


def _boards() -> tuple[Built, ...]:
    return (
        Built(
            "raspberry_pi_5_build_for_any_arm", "generic_cpu_build",
            "a build for any 64-bit ARM on a Raspberry Pi 5, whose processor has products of 8-bit numbers",
            BOARD_BUILDS, _on_pi(1.7, ANY_ARM, 2.4e9, 62.0),
        ),
        Built(
            "raspberry_pi_5_without_cooler", "cpu_clock_limited",
            "a Raspberry Pi 5 without a cooler: 1.5 of 2.4 GHz at 85 °C", BOARD_HEAT, _on_pi(2.8, FOR_A76, 1.5e9, 85.2),
        ),
        Built(
            "raspberry_pi_5_warm", "", "a Raspberry Pi 500 at 82 °C and 2.25 GHz, as fast as ever", BOARD_HEAT,
            _on_pi(4.53, FOR_A76, 2.25e9, 82.0), "normal", figures="the speed is the report's, the rest chosen",
        ),
    )  # fmt: skip


def _two_kinds() -> tuple[Built, ...]:
    return (
        Built(
            "rk3588_threads_on_all_cores", "threads_on_efficiency_cores",
            "-t 8 on four A76 and four A55 of a Rockchip RK3588", BIG_CORES, _on_rk3588(8, 2.6, 0.5, 1.8e9, FOR_A76),
        ),
        Built(
            "rk3588_on_its_fast_cores", "",
            "the same with taskset -c 4-7 and -t 4, while the first core idles at 408 MHz", BIG_CORES,
            _on_rk3588(4, 7.4, 0.0, 4.08e8, FOR_A76), "normal",
        ),
        Built(
            "rk3588_on_its_fast_cores_build_for_any_arm", "generic_cpu_build",
            "the same with a build for any 64-bit ARM: the clock of the idle core is not why", BOARD_BUILDS,
            _on_rk3588(4, 2.1, 0.0, 4.08e8, ANY_ARM),
        ),
    )  # fmt: skip


def _pods() -> tuple[Built, ...]:
    crowd = Answer(1.1, 40.0, 32)
    return (
        Built(
            "graviton_pod_of_six_cpus_with_16_threads", "threads_exceed_cpu_quota",
            "a pod with a limit of six CPUs on a Graviton 3 of 16, all of which get a thread", QUOTA,
            _on_graviton((16, 6, 16), crowd, Others(waiting_s=2.0), throttled=0.95), also=("threads_exceed_cores",),
        ),
        Built(
            "graviton_pod_within_its_limit", "",
            "a pod with a limit of eight CPUs and -t 8 on a Graviton 3 of 64, beside pods that use 20", QUOTA,
            _on_graviton((64, 8, 8), Answer(13.0, 2.6), Others(20.4, (), 0.001), throttled=0.02), "normal",
        ),
    )  # fmt: skip


def arm(world: World, cores: int, flags: str, *, board: str = "", name: str = "") -> World:
    """The world with such cores: boards name themselves in /proc/cpuinfo, servers only to lscpu."""
    one = f"BogoMIPS\t: 108.00\nFeatures\t: {flags}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0b\n"
    listed = "\n".join(f"processor\t: {number}\n{one}" for number in range(cores))
    world.files["/proc/cpuinfo"] = f"{listed}\nModel\t\t: {board}\n" if board else listed
    counted = f"Thread(s) per core: 1\nCore(s) per socket: {cores}\nSocket(s): 1\nFlags: {flags}\n"
    world.commands["lscpu"] = f"Architecture: aarch64\nCPU(s): {cores}\nVendor ID: ARM\nModel name: {name}\n{counted}"
    return world


def _on_pi(tokens_per_s: float, features: str, clock_hz: float, celsius: float) -> Write:
    cpu = Cpu("", 4, mhz=round(clock_hz / 1e6), max_mhz=2400, governor="ondemand")
    server = Server(
        LLAMA_3B, (), answers(tokens_per_s, 64, 14.0), features=features, threads=4, cpus=4, context=4096,
        cpu=("Cortex-A76", 8062), system="Linux aarch64",
    )  # fmt: skip
    world = arm(linux(cpu, Memory(8, 5, 1, 13.2, 9.8)), 4, CORTEX_A76, board="Raspberry Pi 5 Model B Rev 1.0")
    heat = "/sys/class/hwmon/hwmon0"
    world.add({f"{heat}/name": "cpu_thermal\n", f"{heat}/temp1_input": f"{round(celsius * 1000)}\n"})
    return snapshot(serve(world, server), measured_run(Answer(tokens_per_s, 14.0, 64), 4.0, own_clock_hz=clock_hz))


def _on_rk3588(threads: int, tokens_per_s: float, slow_share: float, first_hz: float, features: str) -> Write:
    """The first four are the slow ones; the clock that is sampled is that of the first, as in older recordings."""
    server = Server(
        LLAMA_3B, (), answers(tokens_per_s, 64, 9.0), args=("-t", str(threads)), features=features, threads=threads,
        cpus=8, context=4096, cpu=("Cortex-A76", 15800), system="Linux aarch64",
    )  # fmt: skip
    cpu = Cpu("", 8, mhz=2352, max_mhz=2352, governor="ondemand")
    world = serve(arm(linux(cpu, Memory(16, 12, 1, 21.0, 9.0)), 8, CORTEX_A76, name="Cortex-A76"), server)
    slow = {f"{CPUS}/cpu{n}/cpu_capacity": "530\n" for n in range(4)}
    slow |= {f"{CPUS}/cpufreq/policy{n}/scaling_cur_freq": f"{round(first_hz / 1e3)}\n" for n in range(4)}
    world.add({f"{CPUS}/cpu{n}/cpu_capacity": "1024\n" for n in range(8)} | slow)
    status, bound = f"/proc/{PID}/status", "4-7" if threads == 4 else "0-7"
    world.files[status] = str(world.files[status]).replace("list:\t0-7", f"list:\t{bound}")
    run = measured_run(
        Answer(tokens_per_s, 9.0, 64), float(threads), own_slow_core_share=slow_share, cpu_clock_hz=first_hz
    )
    return snapshot(world, run)


def _on_graviton(counts: tuple[int, int, int], answer: Answer, others: Others, *, throttled: float) -> Write:
    """By its cores, the limit of the pod, and the threads."""
    cores, limit, threads = counts
    server = Server(
        LLAMA_8B, (), answers(answer.tokens_per_s, 128, answer.prompt_s),
        args=() if threads == cores else ("-t", str(threads)), features=FOR_V1, threads=threads, cpus=cores,
        cpu=("Neoverse-V1", 2048 * cores), system="Linux aarch64",
    )  # fmt: skip
    memory = Memory(2 * cores, 1.5 * cores, 1, 200.0, 22.0)
    world = arm(linux(Cpu("", cores), memory), cores, NEOVERSE_V1, name="Neoverse-V1")
    for path in [path for path in world.files if "/cpufreq/" in path]:
        del world.files[path]  # a virtual machine has none
    boxed(serve(world, server), "kubernetes", limit, throttled)
    return snapshot(world, measured_run(answer, limit - 0.1, others, cpu_throttled_share=throttled))
