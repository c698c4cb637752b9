"""Say whether a model fits, byte by byte on each device, and what would fit.

MODEL is a GGUF file, a folder with safetensors, a URL of a GGUF file, a name listed by `unslow models`, `-` for a
header on standard input, or a known name (llama-3.3-70b), which needs no file.

examples:
  unslow fit llama-3.3-70b --quant Q4_K_M --device "RTX 4090"
  unslow fit model.gguf --context 32768 --kv-type q8_0
  unslow fit gpt-oss-120b --device "2x RTX 3090" --n-cpu-moe 20 --ram 64GB
  unslow fit gemma-3-27b --device 24GB --context 128k --json
  unslow fit --list qwen3

exit status: 0 fits, 1 fits only partly or not at all, 2 could not run, 3 cannot tell
"""

from typing import TYPE_CHECKING, Annotated, Literal

from unslow.commands._request import NUMBER, PATH, SIZE, Kind, Option, Quant, ShownRequest, function_of, one_of
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.look.system import System
    from unslow.think.fit.report import FitReport

RUNTIMES = ("llama_cpp", "ollama", "vllm", "transformers")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
OTHER_CACHE_TYPES = ("f16", "bf16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2")
_RUNTIME_WORDS = {"llamaserver": "llama_cpp", "hf": "transformers", "huggingface": "transformers"}
_CACHE_WORDS = {"q8": "q8_0", "q4": "q4_0", "q5": "q5_0", "fp16": "f16", "fp32": "f32"}
_SETTINGS = "llama.cpp settings"
_LARGEST = 2**31 - 1
CACHE_TYPE = Kind("a type", lambda text: _CACHE_WORDS.get(text.lower(), text.lower()), str)
"""Which types there are depends on the runtime."""


class FitRequest(ShownRequest, frozen=True, kw_only=True):
    """Whether a model fits: the memory it needs on each device, byte by byte, and what would fit."""

    model: Annotated[
        str,
        Option("file, folder, URL, stored model or model name", metavar="MODEL", kind=PATH, positional=True,
               needed=True),
    ] = ""  # fmt: skip
    list: Annotated[
        str | None, Option("list the known models: all, or one family", metavar="WORD", bare="", only="cli")
    ] = None
    devices: Annotated[
        tuple[str, ...],
        Option("RTX 4090, 2x H100, M3 Max 64GB, 24GB, cpu, or auto for this machine's (default); repeatable",
               name="device", metavar="NAME"),
    ] = ("auto",)  # fmt: skip
    ram_bytes: Annotated[
        int | None, Option("host memory, if not this machine's: 64GB", name="ram", metavar="SIZE", kind=SIZE)
    ] = None
    quant: Quant = None
    runtime: Annotated[
        str,
        Option("llama_cpp (default), ollama (its own models only), vllm or transformers", metavar="NAME",
               kind=one_of(RUNTIMES, _RUNTIME_WORDS)),
    ] = "llama_cpp"  # fmt: skip
    margin_bytes: Annotated[
        int | None,
        Option("memory to keep free on each device (default: 1GiB)", name="margin", metavar="SIZE", kind=SIZE),
    ] = None
    context: Annotated[
        int | None,
        Option("context length, shared by all slots (Ollama: per slot); 0 for the model's trained limit "
               "(default: 8192; vLLM: the longest that fits)",
               "-c", metavar="N", least=0, most=2**27, group=_SETTINGS),
    ] = None  # fmt: skip
    parallel: Annotated[
        int | None,
        Option("slots (default: llama-server's 4 with a unified cache, else 1)", "-np", metavar="N", least=1,
               most=256, group=_SETTINGS),
    ] = None  # fmt: skip
    kv_unified: Annotated[
        bool | None, Option("one KV cache shared by all slots", "-kvu", group=_SETTINGS, seldom=True)
    ] = None
    kv_type: Annotated[
        str,
        Option("KV cache type; of keys only if --kv-type-v is given (default: f16)", "-ctk", metavar="TYPE",
               kind=CACHE_TYPE, group=_SETTINGS),
    ] = "f16"  # fmt: skip
    kv_type_v: Annotated[
        str | None,
        Option("KV cache type of the values", "-ctv", metavar="TYPE", kind=CACHE_TYPE, group=_SETTINGS, seldom=True),
    ] = None
    kv_offload: Annotated[
        bool,
        Option(
            "keep the KV cache with its layer, or in host memory (-nkvo)", off="-nkvo", group=_SETTINGS, seldom=True
        ),
    ] = True
    swa_full: Annotated[bool, Option("sliding-window layers cache the whole context", group=_SETTINGS, seldom=True)] = (
        False
    )
    gpu_layers: Annotated[
        int | None,
        Option("GPU layers, the output layer included (default: all)", "-ngl", metavar="N", least=-1,
               most=_LARGEST, group=_SETTINGS),
    ] = None  # fmt: skip
    n_cpu_moe: Annotated[
        int,
        Option("keep the experts of the first N layers in host memory", "-ncmoe", metavar="N", least=0, most=_LARGEST,
               group=_SETTINGS),
    ] = 0  # fmt: skip
    override_tensor: Annotated[
        tuple[str, ...],
        Option("tensor override such as exps=CPU", "-ot", metavar="PATTERN=DEVICE", group=_SETTINGS, seldom=True),
    ] = ()
    tensor_split: Annotated[
        tuple[float, ...],
        Option("share of each GPU (default: by free memory)", "-ts", metavar="A,B", group=_SETTINGS, seldom=True),
    ] = ()
    batch: Annotated[
        int | None,
        Option("logical batch (default: 2048)", "-b", metavar="N", least=1, most=2**20, group=_SETTINGS, seldom=True),
    ] = None
    ubatch: Annotated[
        int | None,
        Option("micro-batch (default: 512)", "-ub", metavar="N", least=1, most=2**16, group=_SETTINGS, seldom=True),
    ] = None
    outputs: Annotated[
        int | None,
        Option("tokens with logits per batch: the slots (default), 0 for all", metavar="N", least=0,
               most=2**20, group=_SETTINGS, seldom=True),
    ] = None  # fmt: skip
    flash_attention: Annotated[
        Literal["on", "off", "auto"], Option("flash attention (default: auto)", "-fa", group=_SETTINGS)
    ] = "auto"
    op_offload: Annotated[
        bool, Option("prefill on the GPU with weights from host memory", group=_SETTINGS, seldom=True)
    ] = True
    gpu_memory_utilization: Annotated[
        float | None,
        Option(
            "as in vLLM (default: 0.92, as of vLLM 0.20)", metavar="SHARE", kind=NUMBER, group=_SETTINGS, seldom=True
        ),
    ] = None

    def check(self) -> None:
        """UserError where fields don't go together."""
        known = CACHE_TYPES if self.runtime in ("llama_cpp", "ollama") else OTHER_CACHE_TYPES
        for kind in (self.kv_type, self.kv_type_v or self.kv_type):
            if kind not in known:
                raise UserError(f"{kind!r} is not a KV cache type", f"{self.runtime} has {', '.join(known)}")
        if self.gpu_memory_utilization is not None and not 0 < self.gpu_memory_utilization <= 1:
            why = f"--gpu-memory-utilization must be a share above 0, up to 1 (got {self.gpu_memory_utilization:g})"
            raise UserError(why, "vLLM's own default is 0.92 (before 0.20: 0.9)")


def answer(request: FitRequest) -> "FitReport":
    """What the model asks of the devices."""
    from unslow.look.system.live import LiveSystem

    if not request.model:
        raise UserError("no model given", "`unslow fit MODEL`; `unslow fit --list` lists known models")
    return fit_model(LiveSystem(), request)


def fit_model(system: "System", request: FitRequest) -> "FitReport":
    """Whether the model fits; UserError where the question can't be answered."""
    if request.runtime in ("vllm", "transformers"):
        from unslow.commands.fit.safetensors import hf_answer

        return hf_answer(system, request)
    from unslow.commands.fit.gguf import gguf_answer

    return gguf_answer(system, request)


def run(request: FitRequest) -> int:
    """Answer and show."""
    from unslow.catalog.models import listed_models
    from unslow.commands._output import color, width, write
    from unslow.show.fit import render_fit, render_known

    render_fit.check_format(request.format)
    if request.list is not None:
        write(render_known(listed_models(request.list), request.format, width=width()))
        return 0
    report = answer(request)
    write(render_fit(report, request.format, width=width(), color=color()))
    return {True: 0, False: 1, None: 3}[report.fits]


fit = function_of(FitRequest, answer)
