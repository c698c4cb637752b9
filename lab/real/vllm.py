"""A real vLLM on a GPU: `--server` is the folder of `vllm`, `--models` that of folders with a config and a tokenizer.

Weights are random, made at the start (`--load-format dummy`), so that a folder holds no weights. A start takes a
minute, most of it compilers: `--together N` starts the servers of N faults at once. With UNSLOW_VLLM_SWEEP=FILE every
server that stands idle is also measured over users and depths: from that its terms of physics are learned.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.faults.asked import USUAL, Asked
from lab.faults.fault import Fault, Metric, Playing, SkippedError, Stage
from lab.faults.neighbours import bound_to, busy_loops, short_jobs, slow_proxy
from lab.faults.playing import Place, loaded, started
from lab.faults.running import Runtime
from lab.faults.strangers import holds, leaves
from lab.real import _openai
from lab.real._openai import Load, users

GIB = 1024**3
B1, B3, B8, B70 = "llama-1b", "llama-3b", "llama-8b", "llama-70b"
FP8 = ("--quantization", "fp8")
CACHE = "--kv-cache-memory-bytes"
WARM_TOKENS = 16
SWEEP = "UNSLOW_VLLM_SWEEP"
STEPS = ((1, 32), (1, 2048), (1, 8192), (1, 31_000), (4, 512), (4, 16_000), (8, 2048), (16, 512), (16, 8192), (32, 512),
         (32, 4096), (64, 512), (64, 2048), (128, 512), (256, 512), (512, 256))  # fmt: skip
"""Users who decode at once, and the depth of each."""
PROMPTS = (512, 2048, 8192, 31_000)
LOADS = (Load(16, 1024, 128, 8), Load(128, 512, 128, 10))
SETTLE_S = 3.0


class Started(NamedTuple):
    """A server that was started ahead."""

    process: subprocess.Popen[Any]
    playing: Playing


_ahead: dict[tuple[Any, ...], Started] = {}


def cache(gib: float, *arguments: str, length: int = 32_768) -> tuple[str, ...]:
    """A server beside others: a KV cache of so much, whatever is left of the GPU."""
    shared = ("--gpu-memory-utilization", "0.1")  # what must be free at its start; the cache is as large as is said
    return ("--max-model-len", str(length), CACHE, str(int(gib * GIB)), *shared, *arguments)


def _key(fault: Fault, stage: Stage) -> tuple[Any, ...]:
    return (stage.model or fault.model, stage.wrap, stage.arguments, tuple(sorted(stage.environment.items())))


def _prepared(fault: Fault, stage: Stage, place: Place, port: int) -> Playing:
    model = place.models.absolute() / (stage.model or fault.model)
    if not (model / "config.json").is_file():
        raise SkippedError(f"there is no folder {model.name} with a config.json and a tokenizer among the models")
    scratch = tempfile.mkdtemp(prefix=f"{fault.name}-", dir=place.scratch)
    named = ["--served-model-name", model.name, "--load-format", "dummy"]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    given = [word.replace("{models}", str(place.models.absolute())) for word in stage.arguments]
    return Playing(
        url=f"http://127.0.0.1:{port}",
        port=port,
        scratch=scratch,
        command=[*stage.wrap, str(place.program("vllm")), "serve", str(model), *named, *address, *given],
        environment={**os.environ, **stage.environment},
        models=str(place.models.absolute()),
        log=str(Path(scratch) / "server.log"),
    )


@contextmanager
def ahead(faults: Sequence[Fault], place: Place) -> Iterator[None]:
    """The servers of these faults, started at once; those that want the GPU for themselves are started when played."""
    with ExitStack() as stack:
        start = time.monotonic()
        for fault in faults:
            key = _key(fault, fault.stage)
            if key in _ahead or fault.stage.around or CACHE not in fault.stage.arguments:
                continue
            playing = _prepared(fault, fault.stage, place, place.port + 1 + len(_ahead))
            server = started(playing.command, playing.environment, Path(playing.log))
            _ahead[key] = Started(stack.enter_context(server), playing)
        for process, playing in _ahead.values():
            if loaded(process, playing.url):
                playing.load_s = time.monotonic() - start
        try:
            yield
        finally:
            _ahead.clear()


@contextmanager
def played(fault: Fault, stage: Stage, place: Place) -> Iterator[Playing]:
    """The stage with its server loaded, or ended where it could not load."""
    with ExitStack() as stack:
        ready = _ahead.get(_key(fault, stage)) if not stage.around else None
        playing = ready.playing if ready else _prepared(fault, stage, place, place.port)
        playing.clients, playing.heard, playing.diagnose_url = 0, [], ""
        for surround in stage.around:
            stack.enter_context(surround(playing))
        if ready is None:
            start = time.monotonic()
            server = stack.enter_context(started(playing.command, playing.environment, Path(playing.log)))
            playing.load_s = time.monotonic() - start if loaded(server, playing.url) else None
        else:
            server = ready.process
        playing.pid = server.pid
        if playing.load_s is not None:
            _openai.ask(playing.url, _openai.model_of(playing.url), _openai.words(WARM_TOKENS), WARM_TOKENS)
            for go_on in stage.beside:
                stack.enter_context(go_on(playing))
        yield playing


def measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """The metric; and, where it was asked for, the server over users and depths."""
    path = os.environ.get(SWEEP)
    idle = playing.load_s is not None and not playing.clients and not playing.diagnose_url
    if path and idle and not Path(playing.scratch, "swept").exists():
        Path(playing.scratch, "swept").touch()
        with Path(path).open("a") as file:
            for row in sweep(playing):
                file.write(json.dumps({"arguments": playing.command[2:], **row}) + "\n")
                file.flush()
    return _openai.measured(metric, playing, asked)


def sweep(playing: Playing) -> Iterator[dict[str, Any]]:
    """Steps of decoding by users and depth, prompts alone, and loads; what does not fit its cache is left out."""
    url, model = playing.url, _openai.model_of(playing.url)
    room = _cache_tokens(playing)
    for length in PROMPTS:
        if length < room:
            answers = [_openai.ask(url, model, _openai.words(length), 1) for _ in range(3)]
            yield {"kind": "prompt", "tokens": length, "seconds": min(a.pieces[0] - a.start for a in answers)}
    for many, depth in STEPS:
        if many * (depth + 200) < room:
            yield {"kind": "step", **_openai.decode_together(url, model, many, depth, 48 if many < 16 else 160)}
    for load in LOADS:
        if load.users * (load.prompt + load.answer) < room:
            yield {"kind": "load", **load._asdict(), **_openai.measure_load(url, model, load, SETTLE_S)}


def _cache_tokens(playing: Playing) -> int:
    """How many tokens its KV cache holds, by its log."""
    for line in Path(playing.log).read_text(errors="replace").splitlines():
        if "GPU KV cache size:" in line:
            return int(line.split("GPU KV cache size:")[1].split()[0].replace(",", ""))
    return 0


RUNTIME = Runtime(played, measured, ahead)


def fault(name: str, what: str, cause: str, stage: Stage, model: str = B8, **more: Any) -> Fault:
    """One of vLLM's; `without` are the words that its cure leaves out."""
    if without := more.pop("without", ()):
        kept = tuple(word for word in stage.arguments if word not in without)
        more["cure"] = replace(stage, arguments=kept, wrap=())
    return Fault(name, what, ("vllm",), model, stage, cause, **more)


def healthy(name: str, what: str, stage: Stage, model: str = B8, **more: Any) -> Fault:
    """A control."""
    return fault(name, what, "", stage, model, verdict="normal", **more)


PLAIN = Stage(cache(32))
SHARED = cache(16)
"""Of one server that several cases ask, one after the other."""
CROWD = ("queueing", "gpu_underused_by_one_stream")
OWN_SAMPLERS = ("--generation-config", "vllm")
UNFUSED = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
FIRST_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
DRAFTS = '{"model": "{models}/llama-1b", "num_speculative_tokens": 5}'
FAULTS = (
    healthy("8b", "as installed, but for the size of its cache; nobody asks", PLAIN),
    fault("eager", "--enforce-eager", "eager_mode", Stage(cache(8, "--enforce-eager")), cure=PLAIN),
    healthy("3b", "a model of 3 billion weights in BF16", Stage(cache(16)), B3),
    fault(
        "1b",
        "VLLM_USE_FLASHINFER_SAMPLER=0 and a model of 1 billion weights, whose generation_config.json sets top_p: "
        "the vocabulary is sorted for each token",
        "sampling_on_cpu",
        Stage(cache(8), UNFUSED),
        B1,
        cure=Stage(cache(8, *OWN_SAMPLERS)),
    ),
    healthy("1b_plain_sampling", "the same with --generation-config vllm", Stage(cache(8, *OWN_SAMPLERS)), B1),
    healthy(
        "64_users",
        "sixty-four users at once, as it is made for",
        Stage(PLAIN.arguments, beside=(users(Load(64, 512, 128)),)),
    ),
    fault(
        "slow_client",
        "a proxy before the server holds each piece back for 20 ms",
        "client_overhead",
        Stage(PLAIN.arguments, beside=(slow_proxy(8768, 0.02),)),
        cure=PLAIN,
    ),
    fault(
        "busy_cpus",
        "sixty-four busy loops on sixteen CPUs",
        "cpu_contended",
        Stage(PLAIN.arguments, beside=(busy_loops(64),)),
        cure=PLAIN,
    ),
    fault(
        "gpu_shared",
        "another process multiplies matrices on the same GPU",
        "gpu_shared_with_other_work",
        Stage(PLAIN.arguments, beside=(holds(0.5, works=True),)),
        cure=PLAIN,
    ),
    fault(
        "eager_1b",
        "--enforce-eager of a small model",
        "eager_mode",
        Stage(cache(4, "--enforce-eager")),
        B1,
        without=("--enforce-eager",),
    ),
    fault(
        "graphs_off",
        "CUDA graphs switched off by --compilation-config, compiled kernels kept",
        "eager_mode",
        Stage(cache(4, "--compilation-config", '{"cudagraph_mode":"NONE"}')),
        B3,
        without=("--compilation-config", '{"cudagraph_mode":"NONE"}'),
    ),
    # other quants and shapes
    healthy("8b_fp8", "--quantization fp8", Stage(cache(32, *FP8))),
    healthy("8b_gptq", "4-bit GPTQ weights, which the Machete kernel multiplies", Stage(cache(16)), "llama-8b-gptq"),
    healthy("3b_fp8", "--quantization fp8 of a model of 3 billion weights", Stage(cache(10, *FP8)), B3),
    # the cache, the queue, the batch
    fault(
        "preempted",
        "--num-gpu-blocks-override 640 and 128 users: requests are thrown out and begun again",
        "kv_cache_preemption",
        Stage(cache(6, "--num-gpu-blocks-override", "640", length=8192), beside=(users(Load(128, 512, 256)),)),
        also=CROWD,
        metric="together",
        without=("--num-gpu-blocks-override", "640"),
    ),
    fault(
        "four_sequences",
        "--max-num-seqs 4 and 32 users: twenty-eight of them wait",
        "queueing",
        Stage(cache(5, "--max-num-seqs", "4"), beside=(users(Load(32, 512, 128)),)),
        also=CROWD[1:],
        metric="first_token",
        without=("--max-num-seqs", "4"),
    ),
    fault(
        "one_sequence",
        "--max-num-seqs 1 and eight users",
        "gpu_underused_by_one_stream",
        Stage(cache(4, "--max-num-seqs", "1"), beside=(users(Load(8, 512, 128)),)),
        B3,
        also=CROWD[:1],
        metric="together",
        without=("--max-num-seqs", "1"),
    ),
    fault(
        "prefix_cache_off",
        "--no-enable-prefix-caching and four users whose prompts begin with the same 12,000 tokens",
        "prompt_reprocessed",
        Stage(cache(8, "--no-enable-prefix-caching"), beside=(users(Load(4, 12_200, 16, shared=12_000)),)),
        metric="first_token",
        without=("--no-enable-prefix-caching",),
    ),
    fault(
        "small_batches",
        "--max-num-batched-tokens 128: a prompt is read in pieces of 128 tokens",
        "prefill_batch_too_small",
        Stage(cache(5, "--max-num-batched-tokens", "128", "--max-num-seqs", "64")),
        metric="prefill",
        without=("--max-num-batched-tokens", "128"),
    ),
    healthy(
        "weights_on_host",
        "--cpu-offload-gb 8, which the V2 model runner of 0.26 ignores: all weights stay on the GPU",
        Stage(cache(4, "--cpu-offload-gb", "8", length=16_384)),
    ),
    # starts that fail
    fault(
        "context_refused",
        "--max-model-len 131072 --gpu-memory-utilization 0.17: the cache of one request does not fit",
        "memory_allocation_failed",
        Stage(("--max-model-len", "131072", "--gpu-memory-utilization", "0.17")),
        verdict="failed",
    ),
    fault(
        "full_card",
        "another process holds all but 20 GiB, and vLLM wants 0.92 of the card",
        "other_process_holds_vram",
        Stage(("--max-model-len", "8192"), around=(leaves(20),)),
        also=("memory_allocation_failed",),
        verdict="failed",
    ),
    fault(
        "gpu_hidden",
        "CUDA_VISIBLE_DEVICES is empty",
        "gpu_backend_not_loaded",
        Stage(cache(4), {"CUDA_VISIBLE_DEVICES": ""}),
        B1,
        verdict="failed",
    ),
    # a large model
    healthy("70b_fp8", "70 billion weights in fp8", Stage(cache(30, *FP8)), B70),
    # thought up after the causes were mended with those above
    fault(
        "slower_by_a_little",
        "a proxy before the server holds each piece back for 5 ms",
        "client_overhead",
        Stage(cache(8), beside=(slow_proxy(8769, 0.005),)),
        B3,
        cure=Stage(cache(8)),
        fresh=True,
    ),
    fault(
        "graphs_off_by_field",
        "-cc.cudagraph_mode=NONE, the short spelling, of a model of 8 billion weights",
        "eager_mode",
        Stage(cache(6, "-cc.cudagraph_mode=NONE")),
        cure=Stage(cache(6)),
        fresh=True,
    ),
    fault(
        "tiny_batches",
        "--max-num-batched-tokens 64 of a model of 3 billion weights",
        "prefill_batch_too_small",
        Stage(cache(6, "--max-num-batched-tokens", "64", "--max-num-seqs", "32")),
        B3,
        metric="prefill",
        fresh=True,
        without=("--max-num-batched-tokens", "64"),
    ),
    fault(
        "two_sequences",
        "--max-num-seqs 2 of a model of 3 billion weights and sixteen users",
        "queueing",
        Stage(cache(4, "--max-num-seqs", "2"), beside=(users(Load(16, 256, 192)),)),
        B3,
        also=CROWD[1:],
        metric="first_token",
        fresh=True,
        without=("--max-num-seqs", "2"),
    ),
    fault(
        "small_cache_long_prompts",
        "a KV cache of 2 GiB and sixteen users with prompts of 3,000 tokens: six of them fit",
        "kv_cache_preemption",
        Stage(cache(2, length=8192), beside=(users(Load(16, 3000, 512)),)),
        B3,
        also=CROWD,
        metric="first_token",
        fresh=True,
        cure=Stage(cache(16, length=8192), beside=(users(Load(16, 3000, 512)),)),
    ),
    fault(
        "one_cpu",
        "the API server, the engine and all their threads are bound to one CPU, as by taskset",
        "threads_exceed_cpu_quota",
        Stage(cache(8), beside=(bound_to(0),)),
        B3,
        also=("cpu_contended", "threads_exceed_cores"),
        fresh=True,
        cure=Stage(cache(8)),
    ),
    fault(
        "drafts_never_agree",
        "--speculative-config with a draft model of random weights: no draft is ever accepted",
        "speculative_decoding_hurts",
        Stage(cache(6, "--speculative-config", DRAFTS)),
        B3,
        cure=Stage(cache(6)),
        fresh=True,
    ),
    fault(
        "weights_offloaded",
        "--cpu-offload-gb 8 with the first model runner, which does as told: half of the weights cross the link",
        "gpu_layers_set_too_low",
        Stage(cache(4, "--cpu-offload-gb", "8", length=16_384), FIRST_RUNNER),
        also=("weights_spill_to_ram",),
        cure=Stage(cache(4, length=16_384), FIRST_RUNNER),
        fresh=True,
    ),
    fault(
        "shared_prompts_uncached",
        "--no-enable-prefix-caching and eight users of a model of 3 billion weights with the same 6,000 tokens first",
        "prompt_reprocessed",
        Stage(cache(6, "--no-enable-prefix-caching"), beside=(users(Load(8, 6200, 32, shared=6000)),)),
        B3,
        also=CROWD[:1],
        metric="first_token",
        fresh=True,
        without=("--no-enable-prefix-caching",),
    ),
    fault(
        "another_trains",
        "another process holds 10 GiB and multiplies matrices beside sixteen users",
        "gpu_shared_with_other_work",
        Stage(SHARED, beside=(holds(10, works=True), users(Load(16, 256, 128)))),
        also=CROWD,
        fresh=True,
        cure=Stage(SHARED, beside=(users(Load(16, 256, 128)),)),
    ),
    healthy("200_users", "two hundred users at once", Stage(SHARED, beside=(users(Load(200, 256, 128)),)), fresh=True),
    healthy(
        "few_users_of_many_places",
        "--max-num-seqs 256 and ten users",
        Stage(cache(8, "--max-num-seqs", "256"), beside=(users(Load(10, 512, 256)),)),
        fresh=True,
    ),
    healthy(
        "deep_conversation",
        "one user whose conversation of 30,000 tokens is kept by the prefix cache",
        Stage(SHARED, beside=(users(Load(1, 30_100, 512, shared=30_000)),)),
        fresh=True,
    ),
    healthy(
        "shared_prompts",
        "eight users whose prompts begin with the same 6,000 tokens, which the prefix cache keeps",
        Stage(SHARED, beside=(users(Load(8, 6200, 128, shared=6000)),)),
        fresh=True,
    ),
    healthy("fp8_cache", "--kv-cache-dtype fp8", Stage(cache(8, "--kv-cache-dtype", "fp8")), fresh=True),
    fault(
        "graphs_of_pieces",
        "-cc.cudagraph_mode=PIECEWISE: attention is launched by itself, all else as graphs (a control at first)",
        "eager_mode",
        Stage(cache(6, "-cc.cudagraph_mode=PIECEWISE")),
        fresh=True,
        without=("-cc.cudagraph_mode=PIECEWISE",),
    ),
    # a second round, thought up after the mends that the first one asked for
    fault(
        "graphs_of_pieces_3b",
        "cudagraph_mode PIECEWISE in --compilation-config, of a model of 3 billion weights",
        "eager_mode",
        Stage(cache(6, "--compilation-config", '{"cudagraph_mode": "PIECEWISE"}')),
        B3,
        fresh=True,
        without=("--compilation-config", '{"cudagraph_mode": "PIECEWISE"}'),
    ),
    fault(
        "one_cpu_of_sixteen_users",
        "the API server, the engine and all their threads are bound to one CPU, and sixteen users ask",
        "threads_exceed_cpu_quota",
        Stage(cache(8), beside=(bound_to(0), users(Load(16, 256, 128)))),
        B3,
        also=("cpu_contended", "threads_exceed_cores", *CROWD),
        fresh=True,
        cure=Stage(cache(8), beside=(users(Load(16, 256, 128)),)),
    ),
    fault(
        "busy_cpus_of_eight_users",
        "ninety-six busy loops on sixteen CPUs beside eight users",
        "cpu_contended",
        Stage(cache(8), beside=(busy_loops(96), users(Load(8, 512, 128)))),
        B3,
        also=CROWD,
        fresh=True,
        cure=Stage(cache(8), beside=(users(Load(8, 512, 128)),)),
    ),
    fault(
        "another_works_beside_four",
        "another process multiplies matrices beside four users of a model of 1 billion weights",
        "gpu_shared_with_other_work",
        Stage(cache(4, *OWN_SAMPLERS), beside=(holds(2, works=True), users(Load(4, 512, 256)))),
        B1,
        also=CROWD,
        fresh=True,
        cure=Stage(cache(4, *OWN_SAMPLERS), beside=(users(Load(4, 512, 256)),)),
    ),
    fault(
        "eager_of_eight_bits",
        "--enforce-eager of a model of 3 billion weights in fp8",
        "eager_mode",
        Stage(cache(5, "--enforce-eager", *FP8)),
        B3,
        fresh=True,
        without=("--enforce-eager",),
    ),
    fault(
        "eight_sequences",
        "--max-num-seqs 8 and sixty-four users of a model of 1 billion weights",
        "queueing",
        Stage(cache(4, "--max-num-seqs", "8", *OWN_SAMPLERS), beside=(users(Load(64, 256, 256)),)),
        B1,
        also=CROWD[1:],
        metric="first_token",
        fresh=True,
        without=("--max-num-seqs", "8"),
    ),
    healthy(
        "hundred_users_3b",
        "one hundred users of a model of 3 billion weights",
        Stage(cache(8), beside=(users(Load(100, 300, 200)),)),
        B3,
        fresh=True,
    ),
    healthy(
        "two_deep_users",
        "two users whose conversations of 16,000 tokens are kept by the prefix cache",
        Stage(cache(8), beside=(users(Load(2, 16_100, 400, shared=16_000)),)),
        B3,
        fresh=True,
    ),
    healthy(
        "long_prompts_short_answers",
        "four users with new prompts of 4,000 tokens and answers of 64",
        Stage(cache(8), beside=(users(Load(4, 4000, 64)),)),
        B3,
        fresh=True,
    ),
    # a third round, thought up after the mends of the second
    fault(
        "late_gateway",
        "a gateway passes each question on half a second late",
        "client_overhead",
        Stage(cache(8), beside=(slow_proxy(8767, 0.0, 0.5),)),
        B3,
        metric="first_token",
        fresh=True,
        cure=Stage(cache(8)),
    ),
    fault(
        "two_cpus_of_thirty_users",
        "the API server and the engine are bound to two CPUs, and thirty-two users ask",
        "threads_exceed_cpu_quota",
        Stage(cache(8), beside=(bound_to(0, 1), users(Load(32, 200, 150)))),
        B3,
        also=("cpu_contended", "threads_exceed_cores", *CROWD),
        fresh=True,
        cure=Stage(cache(8), beside=(users(Load(32, 200, 150)),)),
    ),
    fault(
        "a_build_beside",
        "sixty-four jobs of a build on sixteen CPUs beside four users",
        "cpu_contended",
        Stage(cache(8), beside=(short_jobs(64), users(Load(4, 300, 200)))),
        B3,
        also=CROWD,
        fresh=True,
        cure=Stage(cache(8), beside=(users(Load(4, 300, 200)),)),
    ),
    fault(
        "another_works_beside_a_deep_one",
        "another process multiplies matrices beside one user whose conversation is 12,000 tokens long",
        "gpu_shared_with_other_work",
        Stage(cache(8), beside=(holds(2, works=True), users(Load(1, 12_100, 300, shared=12_000)))),
        B3,
        fresh=True,
        cure=Stage(cache(8), beside=(users(Load(1, 12_100, 300, shared=12_000)),)),
    ),
    fault(
        "small_cache_8b",
        "a KV cache of 1 GiB and twelve users with prompts of 2,500 tokens: two or three of them fit",
        "kv_cache_preemption",
        Stage(cache(1, length=4096), beside=(users(Load(12, 2500, 400)),)),
        also=CROWD,
        metric="first_token",
        fresh=True,
        cure=Stage(cache(8, length=4096), beside=(users(Load(12, 2500, 400)),)),
    ),
    fault(
        "sixteen_sequences",
        "--max-num-seqs 16 and one hundred users",
        "queueing",
        Stage(cache(4, "--max-num-seqs", "16"), beside=(users(Load(100, 200, 150)),)),
        B3,
        also=CROWD[1:],
        metric="first_token",
        fresh=True,
        without=("--max-num-seqs", "16"),
    ),
    fault(
        "eager_of_four_users",
        "--enforce-eager of a model of 1 billion weights and four users",
        "eager_mode",
        Stage(cache(4, "--enforce-eager", *OWN_SAMPLERS), beside=(users(Load(4, 200, 200)),)),
        B1,
        also=CROWD[1:],
        fresh=True,
        without=("--enforce-eager",),
    ),
    fault(
        "graphs_of_pieces_1b",
        "-cc.cudagraph_mode=PIECEWISE of a model of 1 billion weights",
        "eager_mode",
        Stage(cache(4, "-cc.cudagraph_mode=PIECEWISE", *OWN_SAMPLERS)),
        B1,
        fresh=True,
        without=("-cc.cudagraph_mode=PIECEWISE",),
    ),
    fault(
        "shared_documents_uncached",
        "--no-enable-prefix-caching and six users who ask about the same document of 10,000 tokens",
        "prompt_reprocessed",
        Stage(
            cache(4, "--no-enable-prefix-caching", *OWN_SAMPLERS), beside=(users(Load(6, 10_100, 100, shared=10_000)),)
        ),
        B1,
        also=CROWD,
        metric="first_token",
        fresh=True,
        without=("--no-enable-prefix-caching",),
    ),
    healthy(
        "a_few_busy_cpus",
        "four busy loops on sixteen CPUs, which a model on the GPU does not feel",
        Stage(cache(8), beside=(busy_loops(4),)),
        B3,
        fresh=True,
    ),
    healthy(
        "a_new_document_each_time",
        "one user with a new document of 8,000 tokens each time, and answers of 300",
        Stage(cache(8), beside=(users(Load(1, 8000, 300)),)),
        B3,
        fresh=True,
    ),
    healthy(
        "thirty_users_1b",
        "thirty users of a model of 1 billion weights",
        Stage(cache(4, *OWN_SAMPLERS), beside=(users(Load(30, 150, 250)),)),
        B1,
        fresh=True,
    ),
)
