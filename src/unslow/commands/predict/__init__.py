"""Predict decode speed, prefill speed and time to first token.

Every prediction has an interval that holds four of five measurements.

MODEL is a well-known name (llama-3.3-70b), a GGUF file, a URL of one, or a model that `unslow models` lists. Without
--device, this machine is used. As many layers as fit are on the GPU, the rest on the host; --gpu-layers overrides it.

With --csv every row of a table is predicted: columns model, hardware and test are required; quant, model_size_gib,
params_b, n_gpus, backend, runtime, ngl, ctx_or_depth, flash_attn, kv_type, threads, batch, date_or_build and note are
used if present. OUT repeats the table with predicted_tok_s, predicted_low, predicted_high, basis and reason.

examples:
  unslow predict llama-3.3-70b --quant Q4_K_M --device "RTX 4090"
  unslow predict qwen3-8b --quant Q6_K --device "RTX 5090" --explain
  unslow predict gpt-oss-120b --device "2x RTX 3090" --context 32k --kv-type q8_0
  unslow predict model.gguf --batch 8 --prompt 4096
  unslow predict qwen3-32b --device H100 --draft qwen3-0.6b --draft-tokens 4 --acceptance 0.7
  unslow predict --csv measurements.csv --out predicted.csv

exit status: 0 predicted, 2 could not run, 3 cannot tell
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._request import (
    PATH,
    SIZE,
    SPEED,
    Kind,
    Option,
    Quant,
    ShownRequest,
    fields_of,
    function_of,
    one_of,
    parse_count,
)
from unslow.commands.fit import CACHE_TYPE, CACHE_TYPES, OTHER_CACHE_TYPES
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.think.speed.report import PredictionReport

RUNTIMES = {"llama.cpp": "", "ollama": "", "vllm": "vllm", "transformers": "transformers"}
"""By the name that its factors were learned under; llama.cpp and what is built on it have none."""
BACKENDS = {
    "cuda": "cuda", "rocm": "rocm", "hip": "rocm", "metal": "metal", "mlx": "metal", "vulkan": "vulkan",
    "sycl": "vulkan", "cpu": "cpu",
}  # fmt: skip
SPLITS = ("layer", "row", "tensor")
_BUILT_ON_LLAMA_CPP = ("llamaserver", "llamacli", "llamafile", "lmstudio", "koboldcpp", "jan", "gpt4all")
_RUNTIME_WORDS = {**dict.fromkeys(_BUILT_ON_LLAMA_CPP, "llama.cpp"), "hf": "transformers"}
_LLAMA_CPP_ALONE = ("gpu_layers", "cpu_moe")
_MOST_LAYERS = 10_000
_SETTINGS, _DRAFT, _TABLE = "settings", "speculative decoding", "tables"
_TABLES = ("csv", "out", "force")


def _layers(text: str) -> int | None:
    """A number, `all`, or None for `auto`."""
    word = text.strip().lower()
    return None if word == "auto" else _MOST_LAYERS if word == "all" else parse_count(text)


class PredictRequest(ShownRequest, frozen=True, kw_only=True):
    """How fast a model should be: decode, prefill and first token, each with an 80 % interval.

    It offloads as many layers as fit, unless gpu_layers says otherwise. Without a prediction, `reason` says why.
    """

    model: Annotated[
        str, Option("model name, file, URL or stored model", metavar="MODEL", kind=PATH, positional=True, needed=True)
    ] = ""
    explain: Annotated[bool, Option("explain what limits the speed: parts, batching, quants")] = False
    quant: Quant = None
    devices: Annotated[
        tuple[str, ...],
        Option("RTX 4090, 2x H100, M3 Max 64GB, a CPU, or auto for this machine's (default)", name="device",
               metavar="NAME"),
    ] = ("auto",)  # fmt: skip
    gpus: Annotated[
        int | None, Option("number of these devices (default: 1)", metavar="N", least=1, most=64, seldom=True)
    ] = None
    runtime: Annotated[
        str,
        Option("llama.cpp (default), ollama (its own models only), vllm or transformers", metavar="NAME",
               kind=one_of(tuple(RUNTIMES), _RUNTIME_WORDS)),
    ] = "llama.cpp"  # fmt: skip
    backend: Annotated[
        str,
        Option("cuda, rocm, metal, vulkan or cpu (default: by vendor)", metavar="NAME",
               kind=one_of(tuple(BACKENDS)), seldom=True),
    ] = ""  # fmt: skip
    ram_bandwidth: Annotated[
        float | None,
        Option("host memory bandwidth: 80GB/s (default: measured here)", metavar="SPEED", kind=SPEED, seldom=True),
    ] = None
    """Bytes per second."""
    ram_bytes: Annotated[
        int | None, Option("host memory, if not this machine's: 64GB", name="ram", metavar="SIZE", kind=SIZE)
    ] = None
    threads: Annotated[
        int | None, Option("host threads (default: its cores)", metavar="N", least=1, most=4096, seldom=True)
    ] = None
    depth: Annotated[
        int,
        Option("tokens already in the context: 8192 or 128k (default: 0)", "-c --depth", name="context",
               metavar="N", least=0, most=2**27, group=_SETTINGS),
    ] = 0  # fmt: skip
    gpu_layers: Annotated[
        int | None,
        Option("GPU layers, the output layer included (default: auto)", "-ngl", metavar="N",
               kind=Kind("a number of layers, all or auto", _layers, int | str, int), least=0, most=_MOST_LAYERS,
               group=_SETTINGS),
    ] = None  # fmt: skip
    cpu_moe: Annotated[
        int | None,
        Option("keep the experts of the first N layers in host memory", "-ncmoe --n-cpu-moe", metavar="N", least=0,
               most=_MOST_LAYERS, group=_SETTINGS, seldom=True),
    ] = None  # fmt: skip
    kv_type: Annotated[
        str, Option("KV cache type (default: f16)", "-ctk", metavar="TYPE", kind=CACHE_TYPE, group=_SETTINGS)
    ] = "f16"
    split: Annotated[
        str,
        Option("split across GPUs: layer, row or tensor (default: layer; vLLM: tensor)", "-sm", metavar="HOW",
               kind=one_of(SPLITS), group=_SETTINGS, seldom=True),
    ] = ""  # fmt: skip
    """Empty is the runtime's usual way."""
    batch: Annotated[
        int, Option("concurrent conversations (default: 1)", metavar="N", least=1, most=4096, group=_SETTINGS)
    ] = 1
    prompt: Annotated[
        int,
        Option("prompt tokens for the prefill prediction (default: 512)", metavar="N", least=1, most=2**24,
               group=_SETTINGS),
    ] = 512  # fmt: skip
    ubatch: Annotated[
        int,
        Option("micro-batch (default: 512)", "-ub", metavar="N", least=1, most=2**16,
               group=_SETTINGS, seldom=True),
    ] = 512  # fmt: skip
    flash_attention: Annotated[bool, Option("flash attention (default: on)", group=_SETTINGS, seldom=True)] = True
    graphs: Annotated[bool, Option("CUDA graphs (default: on)", group=_SETTINGS, seldom=True)] = True
    draft: Annotated[str, Option("draft model", metavar="MODEL", group=_DRAFT)] = ""
    draft_tokens: Annotated[
        int, Option("drafted tokens per step (default: 4)", metavar="N", least=1, most=64, group=_DRAFT, seldom=True)
    ] = 4
    acceptance: Annotated[
        float | None,
        Option("acceptance rate of drafted tokens: 0.7", metavar="SHARE", least=0, most=1, group=_DRAFT, seldom=True),
    ] = None
    csv: Annotated[
        str | None,
        Option("predict every row of a CSV file; - for standard input", metavar="IN", group=_TABLE, only="cli"),
    ] = None
    out: Annotated[
        str | None, Option("output file (default: standard output)", metavar="OUT", group=_TABLE, only="cli")
    ] = None
    force: Annotated[bool, Option("overwrite OUT", group=_TABLE, only="cli")] = False

    def check(self) -> None:
        """UserError where fields don't go together."""
        if self.csv is not None:
            if alone := [field.flag for field in fields_of(type(self)) if field.attribute in self.given - {*_TABLES}]:
                hint = "each row of the table sets its own values"
                raise UserError(f"{alone[0]} cannot be combined with --csv", hint)
            return
        if "draft_tokens" in self.given and not self.draft:
            raise UserError("--draft-tokens needs a draft model", "name it: --draft qwen3-0.6b")
        known = CACHE_TYPES if self.is_llama_cpp else OTHER_CACHE_TYPES
        if self.kv_type not in known:
            why = f"--kv-type must be one of {', '.join(known)} (got {self.kv_type!r})"
            raise UserError(why, "choose another type")
        if not self.is_llama_cpp and (given := [n for n in _LLAMA_CPP_ALONE if getattr(self, n) is not None]):
            flag = given[0].replace("_", "-")
            raise UserError(f"--{flag} is a setting of llama.cpp, not of {self.runtime}", "omit it")
        if self.acceptance is not None and not self.draft:
            raise UserError("--acceptance needs a draft model", "name it: --draft qwen3-0.6b")
        if self.draft and self.batch > 1:
            raise UserError("--draft and --batch cannot be combined", "omit one of them")

    @property
    def is_llama_cpp(self) -> bool:
        """Whether llama.cpp does the work."""
        return not RUNTIMES[self.runtime]


def answer(request: PredictRequest) -> "PredictionReport":
    """The speed of one case."""
    from unslow.commands.predict.speeds import answer as predicted
    from unslow.look.system.live import LiveSystem

    if not request.model:
        raise UserError("no model given", "`unslow predict MODEL`, or `unslow predict --csv IN --out OUT` for a table")
    return predicted(LiveSystem(), request)


def run(request: PredictRequest) -> int:
    """Predict and show."""
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.show.predict import render_predict

    render_predict.check_format(request.format)
    if request.csv is not None:
        try:
            from unslow.commands.predict.tables import predict_table
        except ModuleNotFoundError as error:  # one case needs no arrays
            hint = "pip install numpy"
            raise UserError(f"tables need {error.name}, which is not installed", hint) from error
        with ProgressBar() as progress:
            rows, predicted = predict_table(request.csv, request.out or "-", progress, force=request.force)
        return 0 if predicted or not rows else 3
    if request.out is not None or request.force:
        raise UserError("--out and --force work only with --csv", "add --csv IN, or redirect standard output")
    report = answer(request)
    write(render_predict(report, request.format, width=width(), color=color()))
    return 0 if report.decode else 3


predict = function_of(PredictRequest, answer)
