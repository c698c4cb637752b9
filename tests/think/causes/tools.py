"""Tools that an advice may name, and where each of them is at home."""

import re

LINUX = r"/proc/|/sys/|\bls(?:cpu|blk|pci)\b|\bvmstat\b|\bfree -[gmh]|\b(?:journal|system)ctl\b|\bnuma(?:ctl|stat)\b"
SYSTEMS = {
    "Linux": re.compile(rf"{LINUX}|\btop -[Hb]"),
    "macOS": re.compile(r"\bpowermetrics\b|\bsysctl (?:hw|vm|iogpu|machdep)|\bmemory_pressure\b|\bvm_stat\b|\btop -l"),
    "Windows": re.compile(r"Task Manager|PowerShell|Resource Monitor|%\w+%|Get-C|the Explorer"),
}
NOT_ON_WINDOWS = re.compile(r"\bsudo\b|\bgrep\b|\btail\b|\bhead\b|`ls |`ps |`top ")
MAKERS = {
    "NVIDIA": re.compile(r"\bnvidia-smi\b|CUDA_VISIBLE_DEVICES"),
    "AMD": re.compile(r"\brocm-smi\b|\brocminfo\b|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|mem_info_gtt"),
    "Intel": re.compile(r"\bxpu-smi\b"),
    "Apple": re.compile(r"\bpowermetrics\b|iogpu"),
}
RUNTIMES = {
    "llama.cpp": re.compile(
        r"\bllama-(?:bench|cli|server (?:-|ARG))|llama-server's|`llama-server|-lv 4|\brequests_deferred\b"
    ),
    "Ollama": re.compile(r"\bollama\b|\bOLLAMA_|\bnum_(?:thread|batch|gpu|ctx)\b"),
    "LM Studio": re.compile(r"\blms\b|LM Studio|CPU Thread Pool Size|load settings"),
    "vLLM": re.compile(r"\bvLLM\b|--enforce-eager|--max-num-|--tensor-parallel-size|:8000/metrics"),
    "SGLang": re.compile(r":30000/|--disable-cuda-graph|--tp-size|--chunked-prefill-size"),
    "Transformers": re.compile(r"from_pretrained|hf_device_map|_attn_implementation|cache_implementation"),
    "KoboldCpp": re.compile(r"KoboldCpp|:5001/"),
    "MLX-LM": re.compile(r"\bmlx_lm\b|--prefill-step-size"),
}


def strangers(advice: str, *, system: str = "", makers: frozenset[str] = frozenset(), runtime: str = "") -> set[str]:
    """What the advice names that is not to be had here; where something is not known, every tool of its kind may be."""
    found = {name for name, tool in SYSTEMS.items() if system and name != system and tool.search(advice)}
    found |= {"no such shell"} if system == "Windows" and NOT_ON_WINDOWS.search(advice) else set()
    found |= {name for name, tool in MAKERS.items() if makers and name not in makers and tool.search(advice)}
    found |= {name for name, tool in RUNTIMES.items() if runtime and name != runtime and tool.search(advice)}
    return found - ({"Apple"} if system == "macOS" else set())
