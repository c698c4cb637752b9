"""Settings, builds and clients that cost speed, and limits that a process was given."""

from lab.built_machines.built import Built, Write, recording, snapshot
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.llama_server import CPU_FEATURES, Device, Server, serve
from lab.built_machines.nvidia import Card
from lab.built_machines.parts import CUDA_FEATURES, DESKTOP, RTX_4090, answers, cuda_start, on_card, one_card
from lab.built_machines.shapes import LLAMA_8B, LLAMA_70B, QWEN_32B, SMOLLM_135M
from lab.built_machines.sources import (
    BUILDS,
    CACHE_TYPES,
    DISK,
    DRAFTS,
    LOCALHOST,
    QUOTA,
    REPROCESSED,
    SERVER_FLAGS,
    STREAMED,
    TINY,
)

from unslow.facts.model import Model
from unslow.facts.run import AtDepth, GpuUnderLoad, LongPrompt, Route, Run, TrialInTurns, Turn
from unslow.facts.values import measured_fact, reported_fact

RYZEN = Cpu()
TRIED = "in turns"


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_builds(), *_on_the_gpu(), *_tiny(), *_prompts(), *_users(), *_limits())


def _builds() -> tuple[Built, ...]:
    plain = "CPU : SSE3 = 1 | SSSE3 = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "
    return (
        Built(
            "ryzen_build_without_avx", "generic_cpu_build",
            "a build without AVX, AVX2 and FMA on a Ryzen 7 5800X that has them", BUILDS, _on_cpu(plain, 2.2),
        ),
        Built(
            "ryzen_native_build", "", "the same processor with a build for it", BUILDS, _on_cpu(CPU_FEATURES, 7.6),
            "normal",
        ),
    )  # fmt: skip


def _on_cpu(features: str, tokens_per_s: float) -> Write:
    server = Server(LLAMA_8B, (), answers(tokens_per_s, 512, 40 / tokens_per_s), features=features, busy=True)
    return recording(serve(linux(RYZEN, DESKTOP, busy_cpus=8.0), server))


def _on_the_gpu() -> tuple[Built, ...]:
    away = Device("CUDA0", RTX_4090.name, RTX_4090.total_mib, 24164, 32)
    output = Server(
        LLAMA_8B, (away,), answers(52.0), args=("-ot", "output=CPU"), start=cuda_start(RTX_4090),
        features=CUDA_FEATURES, busy=True,
    )  # fmt: skip
    plain = on_card(RTX_4090, answered=answers(118.0), args=("-fa", "off"), flash_attention=False, context=32768)
    odd = on_card(
        RTX_4090, QWEN_32B, answered=answers(9.0, 512, 2.6), args=("-ctk", "q5_1", "-ctv", "q5_1"), cache_type="q5_1",
        splits=130, busy=True,
    )  # fmt: skip
    short = odd._replace(
        args=("-ctk", "q8_0", "-ctv", "q8_0"), cache_type="q8_0", splits=2, answered=answers(36.0, 512, 0.3)
    )
    draft = on_card(
        RTX_4090, answered=answers(71.0), args=("-md", "draft.gguf", "--draft-max", "8"), drafted=(4000, 460), busy=True
    )
    deep = (AtDepth(depth_tokens=128, tokens_per_s=118.0), AtDepth(depth_tokens=16384, tokens_per_s=41.0))
    slow = Run(
        depths=measured_fact(deep, TRIED),
        decode_tokens_per_s=measured_fact(41.0, TRIED),
        depth_tokens=measured_fact(16384, TRIED),
    )
    return (
        Built(
            "rtx_4090_output_layer_on_cpu", "output_layer_on_cpu",
            "-ot output=CPU: all layers on an RTX 4090, and the output tensor in the host's memory", SERVER_FLAGS,
            recording(one_card(RTX_4090._replace(busy=40), output)),
        ),
        Built(
            "rtx_4090_flash_attention_off", "flash_attention_off",
            "-fa off: 118 tokens per second at first, 41 at 16,384 tokens", SERVER_FLAGS,
            snapshot(one_card(RTX_4090, plain), slow),
        ),
        Built(
            "rtx_4090_cache_type_without_kernel", "type_without_gpu_kernel",
            "a KV cache in q5_1, for which a usual CUDA build has no attention: 130 splits of the graph", CACHE_TYPES,
            recording(one_card(RTX_4090._replace(busy=30), odd)),
        ),
        Built(
            "rtx_4090_cache_type_with_kernel", "", "the same with q8_0", CACHE_TYPES,
            recording(one_card(RTX_4090, short)), "normal",
        ),
        Built(
            "rtx_4090_draft_hardly_accepted", "speculative_decoding_hurts",
            "a draft of eight tokens of which one in nine is taken: 71 instead of 131 tokens per second", DRAFTS,
            recording(one_card(RTX_4090, draft)),
        ),
    )  # fmt: skip


def _tiny() -> tuple[Built, ...]:
    starved = RTX_4090._replace(busy=13, mhz=2700, watts=70, celsius=40)
    server = on_card(RTX_4090, SMOLLM_135M, answered=answers(92.0, 512, 0.03), busy=True)
    under = GpuUnderLoad(index=0, samples=20, busy=measured_fact(0.13, TRIED), clock_hz=measured_fact(2.7e9, TRIED))
    slow = Run(own_cpus=measured_fact(1.0, TRIED), gpus=measured_fact((under,), TRIED))
    fast = Run(own_cpus=measured_fact(0.9, TRIED))
    return (
        Built(
            "rtx_4090_tiny_model_round_trips", "cpu_round_trip_bound",
            "a 135M model at 92 tokens per second on an RTX 4090 that is busy 13 % of the time, beside one full core",
            TINY, snapshot(one_card(starved, server), slow),
        ),
        Built(
            "rtx_4090_tiny_model_healthy", "", "the same model at 620 tokens per second", TINY,
            snapshot(one_card(RTX_4090._replace(busy=70), server._replace(answered=answers(620.0, 512, 0.03))), fast),
            "normal",
        ),
    )  # fmt: skip


def _prompts() -> tuple[Built, ...]:
    small = on_card(RTX_4090, answered=answers(131.0, 512, 1.0), args=("-ub", "16"), ubatch=16)
    usual = on_card(RTX_4090, answered=answers(131.0, 512, 0.07))
    again = (
        Turn(prompt_tokens=4000, new_tokens=4000, computed_tokens=4000, first_token_s=0.6),
        Turn(prompt_tokens=4200, new_tokens=80, computed_tokens=4200, first_token_s=0.63),
        Turn(prompt_tokens=4400, new_tokens=80, computed_tokens=4400, first_token_s=0.66),
    )
    long = LongPrompt(tokens=2048, seconds=1.46)
    kept = tuple(turn if n == 0 else _kept(turn) for n, turn in enumerate(again))
    return (
        Built(
            "rtx_4090_ubatch_16", "prefill_batch_too_small", "-ub 16: a long prompt at 1400 tokens per second",
            SERVER_FLAGS, snapshot(one_card(RTX_4090, small), Run(long_prompt=measured_fact(long, TRIED))),
        ),
        Built(
            "rtx_4090_prompts_read_again", "prompt_reprocessed",
            "three turns of a conversation of 4000 tokens, each computed anew", REPROCESSED,
            snapshot(one_card(RTX_4090, usual), Run(turns=measured_fact(again, TRIED))),
        ),
        Built(
            "rtx_4090_prompts_kept", "", "the same turns with only the new tokens computed", REPROCESSED,
            snapshot(one_card(RTX_4090, usual), Run(turns=measured_fact(kept, TRIED))), "normal",
        ),
    )  # fmt: skip


def _kept(turn: Turn) -> Turn:
    return Turn(prompt_tokens=turn.prompt_tokens, new_tokens=80, computed_tokens=84, first_token_s=0.03)


def _users() -> tuple[Built, ...]:
    sorting = on_card(RTX_4090, answered=answers(61.0), args=("--top-k", "0"))
    tried = TrialInTurns(changed="the likeliest token taken", as_set_tokens_per_s=61.0, changed_tokens_per_s=130.0)
    usual = on_card(RTX_4090, answered=answers(131.0, 512, 0.07))
    slow = (Route(host="localhost", seconds=2.03), Route(host="127.0.0.1", seconds=0.004))
    fast = (Route(host="localhost", seconds=0.005), Route(host="127.0.0.1", seconds=0.004))
    return (
        Built(
            "rtx_4090_whole_vocabulary_sorted", "sampling_on_cpu",
            "--top-k 0: 61 tokens per second, 130 with the likeliest token taken", SERVER_FLAGS,
            snapshot(one_card(RTX_4090, sorting), Run(plain_sampling=measured_fact(tried, TRIED))),
        ),
        Built(
            "localhost_waits_for_ipv6", "client_overhead",
            "every connection by the name localhost waits two seconds before it is tried by IPv4", LOCALHOST,
            snapshot(one_card(RTX_4090, usual), Run(routes=measured_fact(slow, TRIED))),
        ),
        Built(
            "localhost_answers_at_once", "", "the same with both names answering at once", LOCALHOST,
            snapshot(one_card(RTX_4090, usual), Run(routes=measured_fact(fast, TRIED))), "normal",
        ),
    )  # fmt: skip


def _limits() -> tuple[Built, ...]:
    return (
        Built(
            "container_of_two_cpus_with_16_threads", "threads_exceed_cpu_quota",
            "a container with the time of two CPUs in which 16 threads wait for each other", QUOTA,
            _in_quota(16, 0.4, 0.97), also=("threads_exceed_cores",),
        ),
        Built(
            "container_of_two_cpus_with_2_threads", "", "the same with two threads", QUOTA,
            _in_quota(2, 3.4, 0.0), "normal",
        ),
        Built(
            "llama_70b_in_32_gib", "weights_streamed_from_disk",
            "a 70B model of 40 GiB on a machine of 32 GiB: its weights are read from disk for every token", STREAMED,
            _too_large(0.05), also=("swapping",),
        ),
        Built(
            "model_on_a_hard_disk", "slow_model_load",
            "an 8B model that takes 38 s to load from a hard disk, and is as fast as it should be then", DISK,
            _on_hdd(38.0),
        ),
    )  # fmt: skip


def _in_quota(threads: int, tokens_per_s: float, throttled: float) -> Write:
    cpu = Cpu("AMD EPYC 7543P 32-Core Processor", 16, mhz=3600, max_mhz=3700)
    server = Server(
        LLAMA_8B, (), answers(tokens_per_s, 512, 120.0), args=("-t", str(threads)), threads=threads, cpus=16,
        cpu=(cpu.model, 65536), busy=True,
    )  # fmt: skip
    world = serve(linux(cpu, Memory(64, 50, 1, 120.0, 20.0), busy_cpus=2.0), server)
    stopped = round(throttled * 1000)
    for group in ("user.slice", "system.slice/llama.service"):
        world.files[f"/sys/fs/cgroup/{group}/cpu.max"] = "200000 100000\n"
        world.files[f"/sys/fs/cgroup/{group}/cpu.stat"] = (
            f"usage_usec 900000000\nnr_periods 1000\nnr_throttled {stopped}\nthrottled_usec {stopped * 80000}\n"
        )
    return snapshot(world, Run(cpu_throttled_fraction=measured_fact(throttled, "cpu.stat")))


def _too_large(tokens_per_s: float) -> Write:
    memory = Memory(32, 3, 1, 42.0, 21.0)
    server = Server(LLAMA_70B, (), answers(tokens_per_s, 64, 900.0), cpu=(RYZEN.model, 32000), busy=True)
    world = serve(linux(RYZEN, memory), server)
    status = world.files["/proc/4242/status"]
    world.files["/proc/4242/status"] = (
        f"{str(status).partition('VmRSS')[0]}VmRSS:\t28000000 kB\nCpus_allowed_list:\t0-7\n"
    )
    world.files["/proc/pressure/io"] = "some avg10=92.10 avg60=91.00 avg300=90.00 total=9\nfull avg10=88.00 total=9\n"
    return recording(world)


def _on_hdd(seconds: float) -> Write:
    card: Card = RTX_4090
    world = one_card(card, on_card(card, answered=answers(131.0, 512, 0.07)))
    mounts = str(world.files["/proc/self/mountinfo"])
    world.add(
        {
            "/proc/self/mountinfo": f"{mounts}30 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n",
            "/sys/class/block/sda/queue/rotational": "1\n",
            "/sys/class/block/sda1/partition": "1\n",
        },
        links={"/sys/dev/block/8:1": "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/block/sda/sda1"},
    )
    world.links["/sys/class/block/sda1"] = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/block/sda/sda1"
    path = Model(path=reported_fact("/home/user/.cache/llama-3.1-8b.gguf", "command line"))
    return snapshot(world, Run(load_s=measured_fact(seconds, "the start of the server")), model=path)
