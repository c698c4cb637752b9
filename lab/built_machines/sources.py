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
BATTERY = _of(_REASONS, f"{_GITHUB}/seerge/g-helper/issues/5244")  # held to 20 to 30 W on battery

# Memory
WIRED = _of(f"{_OLLAMA}/16030", f"iogpu.wired_limit_mb: {_GITHUB}/AlexsJones/llmfit/issues/570")
SYSMEM = _of("https://nvidia.custhelp.com/app/answers/detail/a_id/5490", f"{_LLAMA}/issues/4498")
GTT = _of(
    f"files: {_LINUX}/Documentation/gpu/amdgpu/driver-misc.rst",
    f"a healthy card: {_GITHUB}/sudoingX/qwen38-mtp/pull/66",  # 36 tokens/s with a 27B model
)
TOO_LARGE = _of(f"{_OLLAMA}/3818")  # a 70B model beside too little VRAM: slow as it has to be
MAC_SMALL = _of(f"{_OLLAMA}/5680", f"{_OLLAMA}/4996")  # llama3 of 8B on an M1 of 8 GB: `ollama ps` says 100% GPU
MAC_TAKEN = _of(f"{_OLLAMA}/12912")  # its lines: 10 of 29 layers with 3.0 of 16 GiB free
PARTIAL = _of(f"{_OLLAMA}/4585")  # Windows, `4%/96% CPU/GPU`
SLOTS = _of("https://dev.to/multigrid/ollamas-numparallel-setting-for-concurrent-requests-386l")  # times num_ctx
GTT_LIMIT = _of(
    f"{_GITHUB}/noamsto/nix-amd-ai/issues/42",  # ttm.pages_limit sets the ceiling, the carve-out hardly matters
    f"{_GITHUB}/antirez/ds4/issues/475",  # 63968M of GTT by default, of 128 GB
)
FIT_LINES = _of(f"the lines: {_LLAMA}/pull/16653", f"{_LLAMA}/pull/21489")  # what the fit prints
DEFAULT_CONTEXT = _of(  # 256k where there are 48 GiB or more
    f"{_GITHUB}/ollama/ollama/blob/948f69330acf96a2310f1b53fdfc211731a386d8/docs/context-length.mdx"
)
LONG_CONTEXT = _of(f"{_OLLAMA}/11815")  # slow since num_ctx was raised, with the same short prompt

# Backends
KFD_GROUP = _of(f"{_GITHUB}/ROCm/ROCT-Thunk-Interface")  # /dev/kfd belongs to the group render
CONTAINER = _of("https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html")
OVERRIDE = _of(f"{_OLLAMA}/3107")  # an RX 6700 XT under Windows: HSA_OVERRIDE_GFX_VERSION does nothing
OLD_DRIVER = _of(f"{_OLLAMA}/16415")  # the line: driver 535 on a GTX 1070 Ti, 570 wanted
APU = _of(f"{_GITHUB}/Crosstalk-Solutions/project-nomad/issues/1092", f"{_OLLAMA}/16690")  # the line; an 890M unused
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

# Boards, virtual machines, volumes, proxies
BOARD_BUILDS = _of(f"{_LLAMA}/blob/master/ggml/src/CMakeLists.txt")  # the variants for ARM, and what each uses
BOARD_HEAT = _of(
    f"{_GITHUB}/raspberrypi/rpi-eeprom/issues/518",  # throttles until it is at 1.5 GHz
    f"a warm one: {_GITHUB}/geerlingguy/sbc-reviews/issues/60",  # Llama 3.2 3B 4.53 tokens/s, 80 to 85 degrees
)
BIG_CORES = _of(
    f"{_LLAMA}/issues/7176",  # -t 4: 6.9, all of them: 3.8 tokens/s
    f"{_GITHUB}/airockchip/rknn-llm/issues/29",  # 408 MHz while idle
)
HIDDEN_AVX = _of(f"{_GITHUB}/serge-chat/serge/issues/842")  # on Proxmox: the type `host` shows AVX
STEAL = _of(f"the counter: {_LINUX}/Documentation/filesystems/proc.rst", "no report of such a machine was found")
MEMORY_HIGH = _of(f"files: {_LINUX}/Documentation/admin-guide/cgroup-v2.rst", f"such a load: {_LLAMA}/issues/702")
CLOUD_VOLUME = _of(f"{_OLLAMA}/9292")  # the default volume of a cloud: minutes until the model is there
WINDOWS_DRIVE = _of(f"{_GITHUB}/oobabooga/textgen/issues/2607", f"{_GITHUB}/microsoft/WSL/issues/4197")  # 113 s, 0.3 s
BUFFERED = _of(f"{_GITHUB}/LostRuins/koboldcpp/pull/1168", f"{_GITHUB}/dstackai/dstack/issues/4269")  # all at its end
NODES_CACHED = _of(f"{_LLAMA}/issues/11744")  # cached anew: 2.4 and then 4.3 tokens/s
