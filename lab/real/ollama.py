"""A real Ollama on a CPU: `--server` is the folder of `ollama`, `--models` that of .gguf files.

Needs `smollm2-135m.gguf` and `qwen2.5-coder-1.5b.gguf`, and `experts.gguf` and `llama_1b.gguf` of
`python -m lab.faults --make-models`. Their copies in Ollama's own store are made at the first run. `arguments` of a
stage are parameters of the model's Modelfile. Its llama-server is built without OpenMP: threads wait for each other in
loops, so that eight or sixteen of them on two CPUs take minutes for a few tokens, too long to be played.
"""

import os
from typing import Any

from lab.faults.control_groups import Limit, cpu_quota, cpuset, disk, limited, memory
from lab.faults.fault import Fault, Playing, Stage
from lab.faults.neighbours import busy_loops, pausing_proxy, short_jobs, slow_proxy
from lab.faults.running import Runtime
from lab.faults.storage import swap_file
from lab.real._ollama import (
    STORE,
    Body,
    Question,
    asked_before,
    chatting,
    clients,
    clocked,
    cold_store,
    damaged_store,
    embedding,
    measured,
    options,
    played,
    short_questions,
    steady,
    text,
    with_options,
)

RUNTIME = Runtime(played, measured)
CPUS = os.cpu_count() or 1
SMALL, LARGE, EXPERTS, RANDOM = "smollm2-135m", "qwen2.5-coder-1.5b", "experts", "llama_1b"
MIB = 1024**2
RELOADS = "model_reloads_between_requests"
PLAIN = Stage()
ONE_CPU_OF_TIME, ONE_CPU = limited(cpu_quota(1.0)), limited(cpuset("0"))
SLOW_DISK = 40_000_000
"""Bytes per second: an old hard disk, or a share over Wi-Fi."""


def disk_of_store(rate: int) -> Any:
    """The disk that the store is on, throttled."""

    def limit(playing: Playing) -> Limit:
        return disk(rate, f"{playing.models}/{STORE}")

    return limited(limit)


def windowed(words: int, kept: int) -> Question:
    """A chat of which the client sends its last messages alone (an odd number, so that the first is the user's)."""

    def question(client: int, turn: int) -> Body:
        numbers = range(2 * turn, 2 * turn + kept)
        said = [text(words, seed=1000 * client + number) for number in numbers]
        return {"messages": [{"role": ("user", "assistant")[at % 2], "content": one} for at, one in enumerate(said)]}

    return question


def three_chats(_client: int, turn: int) -> Body:
    """One of three chats after the other, each a little longer every time."""
    return chatting(120, history=12)(turn % 3, turn // 3)


def fault(name: str, what: str, cause: str, stage: Stage, model: str = SMALL, **more: Any) -> Fault:
    """One of Ollama's."""
    return Fault(name, what, ("ollama",), model, stage, cause, **more)


def healthy(name: str, what: str, stage: Stage, model: str = SMALL, **more: Any) -> Fault:
    """A control."""
    return fault(name, what, "", stage, model, verdict="normal", **more)


def fresh(name: str, what: str, cause: str, stage: Stage, model: str = SMALL, **more: Any) -> Fault:
    """One that nothing was mended with; without a cause, a control."""
    return fault(name, what, cause, stage, model, verdict="slow" if cause else "normal", fresh=True, **more)


FAULTS = (
    healthy("default", "as installed, a small model", PLAIN),
    healthy("default_1_5b", "as installed, a model of 1.5 billion weights", PLAIN, LARGE),
    healthy(
        "three_models_kept",
        "three models that were each asked for twice and stay loaded",
        Stage(
            beside=(
                asked_before(*[{"prompt": "Hello"}] * 6, models=(SMALL, EXPERTS, RANDOM)),
                asked_before({"prompt": "Hello"}),
            )
        ),
    ),
    healthy(
        "warm_conversation",
        "one user whose conversation grows, with pauses to read the answers",
        Stage(beside=(clients(1, chatting(20), pause_s=2.0, answer=24),)),
    ),
    healthy(
        "two_users",
        "OLLAMA_NUM_PARALLEL=2 and two users",
        Stage((), {"OLLAMA_NUM_PARALLEL": "2"}, beside=(clients(2, pause_s=1.0),)),
    ),
    healthy("num_thread_of_cores", f"num_thread {CPUS} on {CPUS} cores", Stage(("num_thread", str(CPUS)))),
    healthy(
        "embeddings_beside",
        "another program embeds a passage with the same model now and then",
        Stage(beside=(clients(1, embedding, pause_s=4.0),)),
    ),
    # loads
    fault(
        "keep_alive_0",
        "OLLAMA_KEEP_ALIVE=0 and a user who asks every few seconds",
        RELOADS,
        Stage((), {"OLLAMA_KEEP_ALIVE": "0"}, beside=(clients(1, pause_s=2.0, answer=16),)),
        LARGE,
        cure=Stage(beside=(clients(1, pause_s=2.0, answer=16),)),
        metric="first_token",
    ),
    fault(
        "client_keep_alive_0",
        'a client that sends "keep_alive": 0 with each request',
        RELOADS,
        Stage(beside=(clients(1, with_options(short_questions, {"keep_alive": 0}), pause_s=2.0, answer=16),)),
        LARGE,
        cure=Stage(beside=(clients(1, pause_s=2.0, answer=16),)),
        metric="first_token",
    ),
    fault(
        "contexts_take_turns",
        "requests with num_ctx 2048 and 8192 in turns: each loads the model anew",
        RELOADS,
        Stage(
            beside=(
                clients(
                    1,
                    with_options(short_questions, options(num_ctx=2048), options(num_ctx=8192)),
                    pause_s=1.0,
                    answer=16,
                ),
            )
        ),
        LARGE,
        cure=Stage(beside=(clients(1, pause_s=1.0, answer=16),)),
        metric="first_token",
    ),
    fault(
        "models_take_turns",
        "OLLAMA_MAX_LOADED_MODELS=1 and two models that are asked in turns",
        RELOADS,
        Stage(
            (),
            {"OLLAMA_MAX_LOADED_MODELS": "1"},
            beside=(clients(1, pause_s=1.0, answer=16, models=(RANDOM, EXPERTS)),),
        ),
        RANDOM,
        cure=Stage(beside=(clients(1, pause_s=1.0, answer=16, models=(RANDOM, EXPERTS)),)),
        metric="first_token",
    ),
    fault(
        "slow_disk",
        "a disk that gives 40 MB/s, and a model of 1.1 GB that nobody has read before",
        "slow_model_load",
        Stage(around=(cold_store, disk_of_store(SLOW_DISK))),
        LARGE,
        cure=Stage(around=(cold_store,)),
        metric="load",
    ),
    # threads and CPUs
    fault(
        "num_thread_4", f"num_thread 4 on {CPUS} cores", "threads_exceed_cores", Stage(("num_thread", "4")), cure=PLAIN
    ),
    fault("num_thread_1", f"num_thread 1 on {CPUS} cores", "threads_too_few", Stage(("num_thread", "1")), cure=PLAIN),
    fault(
        "busy_neighbour", "a busy loop on every core", "cpu_contended", Stage(beside=(busy_loops(CPUS),)), cure=PLAIN
    ),
    fault(
        "cpu_quota",
        "a control group with one CPU's worth of time, and num_thread 2 as for the whole host",
        "threads_exceed_cpu_quota",
        Stage(("num_thread", "2"), around=(ONE_CPU_OF_TIME,)),
        cure=Stage(("num_thread", "1"), around=(ONE_CPU_OF_TIME,)),
    ),
    fault(
        "cpuset_of_one",
        "a control group with one CPU, and num_thread 2",
        "threads_exceed_cpu_quota",
        Stage(("num_thread", "2"), around=(ONE_CPU,)),
        also=("threads_exceed_cores",),
        cure=Stage(("num_thread", "1"), around=(ONE_CPU,)),
    ),
    # prompts and users
    fault(
        "num_batch_4",
        "num_batch 4: a prompt is read four tokens at a time",
        "prefill_batch_too_small",
        Stage(("num_batch", "4")),
        cure=PLAIN,
        metric="prefill",
    ),
    fault(
        "clock_in_prompt",
        "a client whose prompts start with the time of day",
        "prompt_reprocessed",
        Stage(beside=(clients(1, clocked, answer=8),)),
        cure=Stage(beside=(clients(1, steady, answer=8),)),
        metric="first_token",
    ),
    fault(
        "conversation_overflows",
        "num_ctx 1024 and a chat that is longer: Ollama drops its oldest messages, so that no start is like the last",
        "prompt_reprocessed",
        Stage(("num_ctx", "1024"), beside=(clients(1, chatting(60), answer=8),)),
        cure=Stage(("num_ctx", "8192"), beside=(clients(1, chatting(60), answer=8),)),
        metric="first_token",
    ),
    fault(
        "one_at_a_time",
        "OLLAMA_NUM_PARALLEL=1 and four users",
        "queueing",
        Stage((), {"OLLAMA_NUM_PARALLEL": "1"}, beside=(clients(4),)),
        cure=Stage((), {"OLLAMA_NUM_PARALLEL": "4"}, beside=(clients(4),)),
        metric="first_token",
    ),
    fault(
        "slow_client",
        "a proxy that holds back every piece for 60 ms",
        "client_overhead",
        Stage(beside=(slow_proxy(0, 0.06),)),
        cure=PLAIN,
    ),
    fault(
        "whole_vocabulary",
        "top_k 0 and typical_p 0.9: the whole vocabulary is sorted for every token",
        "sampling_on_cpu",
        Stage(("top_k", "0", "typical_p", "0.9")),
        cure=PLAIN,
    ),
    # memory
    fault(
        "swapping",
        "a model of 803 MB in a control group of 500 MiB with swap",
        "swapping",
        Stage(("num_ctx", "2048"), around=(swap_file(2048 * MIB), limited(memory(500 * MIB)))),
        RANDOM,
        cure=Stage(("num_ctx", "2048")),
    ),
    fault(
        "too_many_contexts",
        "OLLAMA_NUM_PARALLEL=64 and num_ctx 32768: the cache of all requests together is larger than the memory",
        "memory_allocation_failed",
        Stage(("num_ctx", "32768"), {"OLLAMA_NUM_PARALLEL": "64"}),
        LARGE,
        also=("parallel_slots_inflate_kv", "context_larger_than_needed"),
        verdict="failed",
    ),
    fault(
        "container_too_small",
        "a control group of 600 MiB without swap, and a model of 1.1 GB: the kernel ends the process that loads it",
        "memory_allocation_failed",
        Stage(around=(limited(memory(600 * MIB)),)),
        LARGE,
        verdict="failed",
    ),
    fault(
        "damaged_file",
        "the file of the model ends after nine tenths, as after a download that broke off",
        "",
        Stage(around=(damaged_store(0.9),)),
        verdict="failed",
    ),
    fault(
        "cache_without_flash_attention",
        "OLLAMA_KV_CACHE_TYPE=q8_0 with OLLAMA_FLASH_ATTENTION=0, which do not go together: llama-server refuses both",
        "",
        Stage((), {"OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_FLASH_ATTENTION": "0"}),
        verdict="failed",
    ),
    # thought up after the causes were mended with those above
    fresh(
        "keep_alive_too_short",
        "OLLAMA_KEEP_ALIVE=2s and a user who takes five seconds to read an answer",
        RELOADS,
        Stage((), {"OLLAMA_KEEP_ALIVE": "2s"}, beside=(clients(1, pause_s=5.0, answer=12),)),
        cure=Stage(beside=(clients(1, pause_s=5.0, answer=12),)),
        metric="first_token",
    ),
    fresh(
        "thread_counts_take_turns",
        "requests with num_thread 1 and 2 in turns: each loads the model anew",
        RELOADS,
        Stage(
            beside=(
                clients(1, with_options(short_questions, options(num_thread=1), options(num_thread=2)), 1.0, answer=12),
            )
        ),
        cure=Stage(beside=(clients(1, pause_s=1.0, answer=12),)),
        metric="first_token",
    ),
    fresh(
        "three_models_for_two",
        "OLLAMA_MAX_LOADED_MODELS=2 and three models that are asked in turns",
        RELOADS,
        Stage(
            (),
            {"OLLAMA_MAX_LOADED_MODELS": "2"},
            beside=(clients(1, pause_s=0.5, answer=12, models=(SMALL, RANDOM, EXPERTS)),),
        ),
        cure=Stage(beside=(clients(1, pause_s=0.5, answer=12, models=(SMALL, RANDOM, EXPERTS)),)),
        metric="first_token",
    ),
    fresh(
        "num_thread_3_1_5b",
        f"num_thread 3 on {CPUS} cores, a model of 1.5 billion weights",
        "threads_exceed_cores",
        Stage(("num_thread", "3")),
        LARGE,
        cure=PLAIN,
    ),
    fresh(
        "busy_neighbour_1_5b",
        "three busy loops, a model of 1.5 billion weights",
        "cpu_contended",
        Stage(beside=(busy_loops(3),)),
        LARGE,
        cure=PLAIN,
    ),
    fresh(
        "taskset_to_one",
        "pinned to one CPU with taskset, num_thread 2",
        "threads_exceed_cpu_quota",
        Stage(("num_thread", "2"), wrap=("taskset", "-c", "1")),
        also=("threads_exceed_cores",),
        cure=Stage(("num_thread", "1"), wrap=("taskset", "-c", "1")),
    ),
    fresh(
        "six_users_for_two",
        "OLLAMA_NUM_PARALLEL=2 and six users with long answers",
        "queueing",
        Stage((), {"OLLAMA_NUM_PARALLEL": "2"}, beside=(clients(6, answer=96),)),
        cure=Stage((), {"OLLAMA_NUM_PARALLEL": "6"}, beside=(clients(6, answer=96),)),
        metric="first_token",
    ),
    fresh(
        "pausing_client",
        "a proxy that stops for 0.8 s after every forty pieces of an answer",
        "client_overhead",
        Stage(beside=(pausing_proxy(0, 40, 0.8),)),
        cure=PLAIN,
    ),
    fresh(
        "num_batch_8_1_5b",
        "num_batch 8, a model of 1.5 billion weights",
        "prefill_batch_too_small",
        Stage(("num_batch", "8")),
        LARGE,
        cure=PLAIN,
        metric="prefill",
    ),
    fresh("flash_attention_off", "OLLAMA_FLASH_ATTENTION=0", "", Stage((), {"OLLAMA_FLASH_ATTENTION": "0"})),
    fresh(
        "two_models_for_ever",
        "OLLAMA_KEEP_ALIVE=-1, OLLAMA_CONTEXT_LENGTH=8192 and two models that were asked in turns",
        "",
        Stage(
            (),
            {"OLLAMA_KEEP_ALIVE": "-1", "OLLAMA_CONTEXT_LENGTH": "8192"},
            beside=(asked_before(*[{"prompt": "Tell me of the sea."}] * 6, models=(EXPERTS, SMALL), answer=24),),
        ),
    ),
    fresh(
        "one_user_of_four",
        "OLLAMA_NUM_PARALLEL=4 and one user who chats with a model of 1.5 billion weights",
        "",
        Stage((), {"OLLAMA_NUM_PARALLEL": "4"}, beside=(clients(1, chatting(15), pause_s=3.0, answer=24),)),
        LARGE,
    ),
    # thought up after the causes were mended with the fresh ones above
    fresh(
        "keep_alive_1s",
        'a client that sends "keep_alive": "1s" with each request and asks every four seconds',
        RELOADS,
        Stage(beside=(clients(1, with_options(short_questions, {"keep_alive": "1s"}), pause_s=4.0, answer=12),)),
        cure=Stage(beside=(clients(1, pause_s=4.0, answer=12),)),
        metric="first_token",
    ),
    fresh(
        "batches_take_turns",
        "requests with num_batch 256 and 512 in turns: each loads the model anew",
        RELOADS,
        Stage(
            beside=(
                clients(
                    1, with_options(short_questions, options(num_batch=256), options(num_batch=512)), 1.0, answer=12
                ),
            )
        ),
        cure=Stage(beside=(clients(1, pause_s=1.0, answer=12),)),
        metric="first_token",
    ),
    fresh(
        "num_thread_3",
        f"num_thread 3 on {CPUS} cores, a small model",
        "threads_exceed_cores",
        Stage(("num_thread", "3")),
        cure=PLAIN,
    ),
    fresh(
        "num_batch_2",
        "num_batch 2: a prompt is read two tokens at a time",
        "prefill_batch_too_small",
        Stage(("num_batch", "2")),
        cure=PLAIN,
        metric="prefill",
    ),
    fresh(
        "half_a_cpu",
        "a control group with half of a CPU's time",
        "threads_exceed_cpu_quota",
        Stage(("num_thread", "2"), around=(limited(cpu_quota(0.5)),)),
        cure=Stage(("num_thread", "1"), around=(limited(cpu_quota(0.5)),)),
    ),
    fresh(
        "three_users_one_place",
        "OLLAMA_NUM_PARALLEL=1 and three users of a model of 1.5 billion weights",
        "queueing",
        Stage((), {"OLLAMA_NUM_PARALLEL": "1"}, beside=(clients(3, answer=32),)),
        LARGE,
        cure=Stage((), {"OLLAMA_NUM_PARALLEL": "3"}, beside=(clients(3, answer=32),)),
        metric="first_token",
    ),
    fresh(
        "late_proxy",
        "a proxy that passes each question on 1.5 s late",
        "client_overhead",
        Stage(beside=(slow_proxy(0, 0.0, 1.5),)),
        cure=PLAIN,
        metric="first_token",
    ),
    fresh(
        "debug_and_small_context",
        "OLLAMA_DEBUG=1 and num_ctx 2048",
        "",
        Stage(("num_ctx", "2048"), {"OLLAMA_DEBUG": "1"}),
    ),
    fresh(
        "seldom_asked",
        "OLLAMA_KEEP_ALIVE=1h and a user who asks every ten seconds",
        "",
        Stage((), {"OLLAMA_KEEP_ALIVE": "1h"}, beside=(clients(1, pause_s=10.0, answer=32),)),
        LARGE,
    ),
    # the third round: thought up by someone who had not seen the causes' code
    fresh(
        "one_thread_by_environment",
        f"LLAMA_ARG_THREADS=1 in the service's environment, which llama-server inherits, on {CPUS} cores",
        "threads_too_few",
        Stage((), {"LLAMA_ARG_THREADS": "1", "OLLAMA_KEEP_ALIVE": "24h"}),
        LARGE,
        cure=Stage((), {"OLLAMA_KEEP_ALIVE": "24h"}),
    ),
    fresh(
        "container_of_0_7_cpus",
        "a control group with 0.7 of a CPU's time and 4 GiB, which is enough; threads as they come, one for each core",
        "threads_exceed_cpu_quota",
        Stage(around=(limited(cpu_quota(0.7), memory(4096 * MIB)),)),
        LARGE,
        cure=Stage(around=(limited(cpu_quota(float(CPUS)), memory(4096 * MIB)),)),
    ),
    fresh(
        "same_weights_two_contexts",
        "a model and another of the same weights with num_ctx 6144, asked in turns: Ollama keeps one of them loaded",
        RELOADS,
        Stage(
            ("num_ctx", "6144"),
            {"OLLAMA_MAX_LOADED_MODELS": "3"},
            beside=(clients(1, pause_s=1.0, answer=16, models=(LARGE, f"{LARGE}-num_ctx-6144")),),
        ),
        LARGE,
        cure=Stage(("num_ctx", "6144"), beside=(clients(1, pause_s=1.0, answer=16),)),
        metric="first_token",
    ),
    fresh(
        "one_client_maps",
        "requests with use_mmap and requests without it in turns: each loads the model anew",
        RELOADS,
        Stage(beside=(clients(1, with_options(short_questions, options(use_mmap=True), {}), 1.5, answer=12),)),
        EXPERTS,
        cure=Stage(beside=(clients(1, pause_s=1.5, answer=12),)),
        metric="first_token",
    ),
    fresh(
        "five_users_as_installed",
        "as installed, which is one request at a time, and five users",
        "queueing",
        Stage(beside=(clients(5, answer=96),)),
        cure=Stage((), {"OLLAMA_NUM_PARALLEL": "5"}, beside=(clients(5, answer=96),)),
        metric="first_token",
    ),
    fresh(
        "window_of_messages",
        "a client that sends the last 21 messages of a chat: each turn drops the oldest, and all that follows moves up",
        "prompt_reprocessed",
        Stage(("num_ctx", "8192"), beside=(clients(1, windowed(30, 21), pause_s=1.0, answer=8),)),
        cure=Stage(("num_ctx", "8192"), beside=(clients(1, chatting(30), pause_s=1.0, answer=8),)),
        metric="first_token",
    ),
    fresh(
        "chats_without_cache_ram",
        "LLAMA_ARG_CACHE_RAM=0, one place, and three chats in turns: each pushes the others out",
        "prompt_reprocessed",
        Stage((), {"LLAMA_ARG_CACHE_RAM": "0"}, beside=(clients(1, three_chats, pause_s=1.0, answer=8),)),
        cure=Stage(beside=(clients(1, three_chats, pause_s=1.0, answer=8),)),
        metric="first_token",
    ),
    fresh(
        "slow_client_1_5b",
        "a proxy that holds back every piece for 250 ms, a model of 1.5 billion weights",
        "client_overhead",
        Stage(beside=(slow_proxy(0, 0.25),)),
        LARGE,
        cure=PLAIN,
    ),
    fresh(
        "build_beside",
        "a build with two jobs at a time, each of which lives for a fraction of a second; a mixture of experts",
        "cpu_contended",
        Stage((), {"OLLAMA_NUM_PARALLEL": "2"}, beside=(short_jobs(CPUS),)),
        EXPERTS,
        cure=Stage((), {"OLLAMA_NUM_PARALLEL": "2"}),
    ),
    fresh(
        "one_busy_loop_1b",
        "one busy loop, a model of 1B",
        "cpu_contended",
        Stage(beside=(busy_loops(1),)),
        RANDOM,
        cure=PLAIN,
    ),
    fresh(
        "slow_share_of_experts",
        "a share that gives 15 MB/s, a model of 461 MB that nobody has read before, and OLLAMA_LOAD_TIMEOUT=15m",
        "slow_model_load",
        Stage((), {"OLLAMA_LOAD_TIMEOUT": "15m"}, around=(cold_store, disk_of_store(15_000_000))),
        EXPERTS,
        cure=Stage((), {"OLLAMA_LOAD_TIMEOUT": "15m"}, around=(cold_store,)),
        metric="load",
    ),
    fresh(
        "typical_p_of_experts",
        "top_k 0, top_p 1.0 and typical_p 0.5: the whole vocabulary is sorted for every token; a mixture of experts",
        "sampling_on_cpu",
        Stage(("top_k", "0", "top_p", "1.0", "typical_p", "0.5")),
        EXPERTS,
        cure=PLAIN,
    ),
    fresh(
        "mapped_in_a_small_container",
        "use_mmap true and LLAMA_ARG_REPACK=0, so that 803 MB stay mapped, in a control group of 600 MiB without swap",
        "weights_streamed_from_disk",
        Stage(
            ("num_ctx", "2048", "use_mmap", "true"),
            {"LLAMA_ARG_REPACK": "0"},
            around=(cold_store, limited(memory(600 * MIB))),
        ),
        RANDOM,
        cure=Stage(("num_ctx", "2048", "use_mmap", "true"), {"LLAMA_ARG_REPACK": "0"}, around=(cold_store,)),
    ),
    fault(
        "context_beyond_the_container",
        "num_ctx 131072 of a model of 1B, a cache of 4.3 GB, in a control group of 2560 MiB: the kernel ends the load",
        "memory_allocation_failed",
        Stage(("num_ctx", "131072"), around=(limited(memory(2560 * MIB)),)),
        RANDOM,
        also=("context_larger_than_needed",),
        verdict="failed",
        fresh=True,
    ),
    fresh(
        "num_gpu_99", "num_gpu 99, as a guide for others has it: there is no GPU", "", Stage(("num_gpu", "99")), LARGE
    ),
    fresh(
        "limits_of_a_container",
        f"a control group with the time of all {CPUS} CPUs and 6 GiB, a mixture of experts",
        "",
        Stage(around=(limited(cpu_quota(float(CPUS)), memory(6144 * MIB)),)),
        EXPERTS,
    ),
    fresh(
        "context_tried_once",
        "one question with num_ctx 2048, and eight since then without it: the model stays loaded",
        "",
        Stage(beside=(asked_before({"prompt": "Hello"} | options(num_ctx=2048), *[{"prompt": "Hello"}] * 8),)),
        EXPERTS,
    ),
    fresh(
        "small_cache_long_context",
        "OLLAMA_CONTEXT_LENGTH=16384, OLLAMA_KV_CACHE_TYPE=q8_0, OLLAMA_FLASH_ATTENTION=1, and a user who chats",
        "",
        Stage(
            (),
            {"OLLAMA_CONTEXT_LENGTH": "16384", "OLLAMA_KV_CACHE_TYPE": "q8_0", "OLLAMA_FLASH_ATTENTION": "1"},
            beside=(clients(1, chatting(20), pause_s=5.0, answer=24),),
        ),
        LARGE,
    ),
    fresh("num_batch_256", "num_batch 256: half of what it is by itself", "", Stage(("num_batch", "256"))),
)
