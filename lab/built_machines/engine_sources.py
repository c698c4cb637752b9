"""Where the machines with serving engines come from: each page was read, and says what the comment beside it says."""

from lab.built_machines.sources import COUNTERS, Source

_VLLM = "https://github.com/vllm-project/vllm"

GATHERING = Source(f"{_VLLM}/issues/56128; the line: {_VLLM}/issues/13719")  # TP over PCIe without NVLink
GGUF = Source(f"{_VLLM}/issues/35987")  # far slower than an AWQ checkpoint of the same model
BITSANDBYTES = Source(f"{_VLLM}/issues/9535; {_VLLM}/issues/8743")  # slower than 16 bits, and than AWQ
OFFLOADED = Source(f"{_VLLM}/issues/22692; {_VLLM}/issues/57771")  # 6 tokens/s with --cpu-offload-gb 16
FP8_BY_MARLIN = Source(f"{_VLLM}/pull/5975; the line: {_VLLM}/issues/31387")  # weights alone, and no slower for it
EAGER = Source("https://github.com/vllm-project/vllm-omni/issues/7960")  # 22 and 13 ms a token without and with graphs
COUNTED = COUNTERS
HEAT_OF_ONE = Source("the bits: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html")
TABBY = Source("the form of the list of models of TabbyAPI; no report of such a machine was found", checked=False)
