"""Where the built machines come from: each page was read, and says what the comment beside it says."""

from typing import NamedTuple


class Source(NamedTuple):
    """What a machine rests on; unchecked where nobody read it again, and then without an address."""

    text: str
    checked: bool = True


def _of(*parts: str) -> Source:
    return Source("; ".join(parts))


_GITHUB = "https://github.com"
_LINUX = f"{_GITHUB}/torvalds/linux/blob/master"
_LLAMA = f"{_GITHUB}/ggml-org/llama.cpp"
_OLLAMA = f"{_GITHUB}/ollama/ollama/issues"
_ROCM = f"{_GITHUB}/ROCm/legacy-rocm-build/issues"
_CPUFREQ = f"files: {_LINUX}/Documentation/admin-guide/pm/cpufreq.rst"
_REASONS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
_STATES = f"{_GITHUB}/NVIDIA/open-gpu-kernel-modules/issues/731"

# Clocks
HEAT = _of(_REASONS, f"such a report: {_GITHUB}/rammsguns/llm-rig/issues/100")  # the bits; an A4000 down to 375 MHz
REASONS = _of(_REASONS)  # what each bit says; SwPowerCap: clocks that respect the limit that is set
POWER_AS_EVER = _of(_REASONS, f"such a report: {_GITHUB}/noonghunna/club-3090/issues/104")  # bit set, speed unharmed
STATES = _of(
    f"the states: {_STATES}", "no report of such a machine was found"
)  # P0 is the highest, P8 the lowest there
STARVED = _of(f"{_OLLAMA}/3301", f"{_LLAMA}/issues/5178")  # 23 of 33 layers, GPU at 15 %: it waits for the CPU
HELD_AMD = _of(f"{_ROCM}/6289", "files: https://docs.kernel.org/6.6/gpu/amdgpu/thermal.html")  # 41 MHz, 50 W, busy
MAC_HEAT = _of(
    f"{_GITHUB}/ml-explore/mlx-examples/pull/1078",  # from 30 W to 1 W while it cools down
    f"the line: {_GITHUB}/angristan/MacThrottle/issues/19",
)
MAC_SPEEDS = _of(f"{_LLAMA}/discussions/4167")  # lists an M2 Max with 38 GPU cores, with other models
SLOW_CPU = _of(f"{_GITHUB}/LostRuins/koboldcpp/issues/318", _CPUFREQ)  # clocks fall while tokens are generated
CPUFREQ = _of(_CPUFREQ)

# Memory
WIRED = _of(f"{_OLLAMA}/16030", f"iogpu.wired_limit_mb: {_GITHUB}/AlexsJones/llmfit/issues/570")
SYSMEM = _of("https://nvidia.custhelp.com/app/answers/detail/a_id/5490", f"{_LLAMA}/issues/4498")
GTT = _of(
    f"files: {_LINUX}/Documentation/gpu/amdgpu/driver-misc.rst",
    f"a healthy card: {_GITHUB}/sudoingX/qwen38-mtp/pull/66",  # 36 tokens/s with a 27B model
)
TOO_LARGE = _of(f"{_OLLAMA}/3818")  # a 70B model beside too little VRAM: slow as it has to be
LONG_CONTEXT = _of(f"{_OLLAMA}/11815")  # slow since num_ctx was raised, with the same short prompt

# Backends
KFD_GROUP = _of(f"{_GITHUB}/ROCm/ROCT-Thunk-Interface")  # /dev/kfd belongs to the group render
CONTAINER = _of("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html")
CPU_BUILD = _of(f"{_GITHUB}/abetlen/llama-cpp-python/issues/658")  # Windows 11, BLAS = 0, GPU unused
NO_GFX = _of(f"{_ROCM}/2061")  # an RX 6600 and the message
NO_SM = _of(f"the message: {_LLAMA}/issues/4215")  # on compute capability 5.0
WRONG_GPU = _of(f"{_OLLAMA}/16536")  # Intel UHD taken, an RTX 4070 idle

# Links and several GPUs
LINK_ASLEEP = _of(_STATES)  # generation 1 in P8, more in the higher states
RISER = _of(f"what crosses the link: {_LLAMA}/pull/15346", f"link fields: {_STATES}")
ROWS = _of(f"{_LLAMA}/issues/5619")  # rows 27, layers 40 tokens/s; it depends on the interconnect
ONE_IS_ENOUGH = _of(f"{_LLAMA}/issues/4747")  # a 7B model: 31 tokens/s on four GPUs, 72 on one
SERVER_FLAGS = _of(f"{_LLAMA}/blob/master/tools/server/README.md")

# Processors
HYBRID = _of(f"{_LLAMA}/issues/7176", f"files: {_LINUX}/tools/perf/Documentation/intel-hybrid.txt")  # half the speed
NODES = _of(
    f"{_GITHUB}/mozilla-ai/llamafile/issues/765",  # two sockets 4, one of them 8 tokens/s
    "files: https://manpages.ubuntu.com/manpages/noble/man7/numa.7.html",
)

# Servers
PREEMPTED = _of(
    "https://docs.vllm.ai/en/stable/configuration/optimization/", f"{_GITHUB}/vllm-project/vllm/issues/18115"
)
COUNTERS = _of("https://docs.vllm.ai/en/stable/usage/metrics/", "https://docs.vllm.ai/en/v0.5.5/serving/metrics.html")
AWQ = _of(f"{_GITHUB}/vllm-project/vllm/issues/21376")  # 23 tokens/s with --quantization awq, 123 without
RELOADS = _of(f"{_OLLAMA}/7773")  # a request with another num_ctx makes room for itself
THINKING = _of("https://ollama.com/blog/thinking")  # thinking is told apart from the answer
REGRESSED = _of("the form of the history of unslow bench", f"such a report: {_GITHUB}/LostRuins/koboldcpp/issues/458")
FRAGMENTED = _of(
    f"the message: {_GITHUB}/vllm-project/compressed-tensors/pull/587", f"{_GITHUB}/pytorch/pytorch/issues/35901"
)
CAREFUL = _of(f"{_OLLAMA}/11747")  # layers on the CPU beside free VRAM

# Settings
BUILDS = _of(f"{_GITHUB}/oobabooga/textgen/pull/4052")  # 0.27 tokens/s without AVX and FMA, 0.89 and more with them
CACHE_TYPES = _of(f"{_LLAMA}/issues/28455")  # q5_1: attention on the CPU, without a word in the log
DRAFTS = _of(f"{_LLAMA}/issues/10664")  # slower with a draft than without
TINY = _of(
    f"{_GITHUB}/turboderp-org/exllamav3/issues/97",  # one core full, the GPU not
    "the model: https://huggingface.co/HuggingFaceTB/SmolLM2-135M",
)
LAUNCHES = _of(f"{_GITHUB}/turboderp-org/exllamav2/issues/109")  # A100: 13B 35.41, 30B 33.43 tokens/s
REPROCESSED = _of(f"{_LLAMA}/issues/20153")  # "forcing full prompt re-processing"
LOCALHOST = _of(f"{_GITHUB}/lmstudio-ai/lmstudio-bug-tracker/issues/384")  # two seconds by name, none by 127.0.0.1
QUOTA = _of(f"{_OLLAMA}/17916", f"files: {_LINUX}/Documentation/admin-guide/cgroup-v2.rst")  # 0.27 and 12 tokens/s
STREAMED = _of(f"{_LLAMA}/issues/702")  # a 65B model, disk read all through generation
DISK = _of(f"{_OLLAMA}/4350", f"files: {_LINUX}/Documentation/block/queue-sysfs.rst")  # 565 s to load, then fast
