"""MLX-LM's server on a CPU, which mlx[cpu] has on Linux, with models of random weights.

    python -m lab.real.mlx_lm FOLDER                                               make the models
    python -m lab.faults --where mlx_lm --server VENV/bin --models FOLDER --out FOLDER --rounds 1

The server has no Hugging Face cache unless a stage makes one: its list of models then breaks off after the status line.
"""

import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lab.faults.asked import USUAL, Asked
from lab.faults.control_groups import cpu_quota, limited
from lab.faults.fault import Fault, Heard, Metric, Playing, SkippedError, Stage
from lab.faults.measuring import watched
from lab.faults.neighbours import busy_loops, short_jobs, slow_proxy
from lab.faults.playing import Place, loaded, started
from lab.faults.running import Runtime
from lab.real._mlx_models import make_models
from lab.real._openai import ask

HERE = ("mlx_lm",)
CPUS = os.cpu_count() or 1
USERS = 4
ANSWERS, ANSWER, SHORT_PROMPT, LONG_PROMPT, MOST_KEPT = 3, 48, 32, 128, 256
AS_IT_COMES = Stage()


def text(count: int, seed: int | None = None) -> str:
    """A prompt of about so many tokens: a space and three letters are two."""
    dice = random.Random(seed)
    return " ".join("".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=3)) for _ in range(max(1, count // 2)))


@contextmanager
def played(fault: Fault, stage: Stage, place: Place) -> Iterator[Playing]:
    """The server with its model loaded; it loads at its start, and is healthy before that."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{fault.name}-", dir=place.scratch))
        folder = place.models.absolute() / (stage.model or fault.model)
        if not (folder / "config.json").is_file():
            raise SkippedError(f"there is no model {folder.name}; python -m lab.real.mlx_lm FOLDER makes it")
        given = [word.replace("{models}", str(place.models.absolute())) for word in stage.arguments]
        url = f"http://127.0.0.1:{place.port}"
        command = [
            *stage.wrap, str((place.servers / "mlx_lm.server").absolute()), "--model", str(folder),
            "--host", "127.0.0.1", "--port", str(place.port), *given,
        ]  # fmt: skip
        environment = {**os.environ, "HF_HOME": f"{scratch}/hf", "HF_HUB_OFFLINE": "1", **stage.environment}
        playing = Playing(url, place.port, scratch, command, environment, models=str(place.models.absolute()))
        playing.log = f"{scratch}/server.log"
        for surround in stage.around:
            stack.enter_context(surround(playing))
        start = time.monotonic()
        server = stack.enter_context(started(command, environment, Path(playing.log) if place.logs else None))
        playing.pid = server.pid
        if loaded(server, url):
            ask(url, str(folder), text(SHORT_PROMPT), 2)  # kernels are compiled with the first answer
            playing.load_s = time.monotonic() - start
            for go_on in stage.beside:
                stack.enter_context(go_on(playing))
        yield playing


@contextmanager
def hugging_face_cache(playing: Playing) -> Iterator[None]:
    """An empty cache, so that the server can list its models."""
    Path(playing.environment["HF_HOME"], "hub").mkdir(parents=True)
    yield


Question = Callable[[int], tuple[str, int]]
"""The prompt and the length of the answer, by the number of the turn."""


def clocked(turn: int) -> tuple[str, int]:
    """A long prompt behind a clock that never shows the same time twice."""
    return f"{text(8)} {text(256, seed=1)} {text(8 * (turn % 8 + 1), seed=2)}", 4


def steady(turn: int) -> tuple[str, int]:
    """The same with the clock at its end."""
    return f"{text(256, seed=1)} {text(8 * (turn % 8 + 1), seed=2)} {text(8)}", 4


def short(_turn: int) -> tuple[str, int]:
    """A new short prompt each time."""
    return text(16), 32


def three_talks(turn: int) -> tuple[str, int]:
    """One of three conversations after the other, each a little longer every time."""
    return f"{text(256, seed=turn % 3)} {text(8 * (turn // 3 % 8 + 1), seed=2)} {text(8)}", 4


def growing(turn: int) -> tuple[str, int]:
    """One conversation that grows, and answers of ordinary length."""
    return steady(turn)[0], 24


def users(
    count: int, question: Question = short, pause_s: float = 0.01, **settings: Any
) -> Callable[[Playing], AbstractContextManager[object]]:
    """So many users, each of whom asks again once answered."""

    def ask_on(playing: Playing, end: threading.Event) -> None:
        turn = 0
        while not end.wait(pause_s):
            prompt, length = question(turn)
            try:
                playing.heard.append(asked_once(playing, prompt, length, **settings))
            except OSError:
                end.wait(0.5)
            turn += 1

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        end = threading.Event()
        playing.clients += count
        for _ in range(count):
            threading.Thread(target=ask_on, args=(playing, end), daemon=True).start()
        time.sleep(4.0)
        try:
            yield
        finally:
            end.set()

    return beside


def asked_once(playing: Playing, prompt: str, answer: int, **settings: Any) -> Heard:
    """One streamed answer of the model that the server was started with."""
    url, model = playing.diagnose_url or playing.url, playing.command[playing.command.index("--model") + 1]
    return ask(url, model, prompt, answer, **settings).as_heard()


def _measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """The metric on a stage that is being played."""
    if playing.load_s is None or metric == "load":
        return playing.load_s
    if playing.clients:
        return watched(metric, playing)
    match metric:
        case "first_token":
            return statistics.median(_second_turn(playing, asked) for _ in range(ANSWERS))
        case "prefill":
            answers = [asked_once(playing, text(LONG_PROMPT), 2) for _ in range(2)]
            return statistics.median(one.prompt_tokens / one.first_token_s for one in answers)
        case _:
            heard = [asked_once(playing, text(SHORT_PROMPT), ANSWER) for _ in range(ANSWERS)]
            return statistics.median(one.tokens_per_s for one in heard)


def _second_turn(playing: Playing, asked: Asked) -> float:
    talk = text(min(asked.kept, MOST_KEPT))
    if asked.kept:
        asked_once(playing, talk, 2)
    return asked_once(playing, f"{talk} {text(asked.new)}", 2).first_token_s


FAULTS = (
    Fault(
        "prompt_cache_off",
        "--prompt-cache-size 0: every turn of a conversation is read whole",
        HERE,
        "mlx_30m",
        Stage(("--prompt-cache-size", "0")),
        "prompt_reprocessed",
        cure=AS_IT_COMES,
        metric="first_token",
    ),
    Fault(
        "cpu_contended",
        "a busy loop on every core",
        HERE,
        "mlx_135m",
        Stage(beside=(busy_loops(CPUS),)),
        "cpu_contended",
        cure=AS_IT_COMES,
    ),
    Fault(
        "queueing",
        f"--decode-concurrency 1 --prompt-concurrency 1 and {USERS} users who ask all the while",
        HERE,
        "mlx_30m",
        Stage(("--decode-concurrency", "1", "--prompt-concurrency", "1"), beside=(users(USERS),)),
        "queueing",
        cure=Stage(beside=(users(USERS),)),
        metric="first_token",
    ),
    Fault(
        "draft_never_agrees",
        "--draft-model with other random weights: what it drafts is never accepted",
        HERE,
        "mlx_135m",
        Stage(("--draft-model", "{models}/mlx_draft", "--num-draft-tokens", "4")),
        "speculative_decoding_hurts",
        cure=AS_IT_COMES,
    ),
    Fault("healthy", "nothing; there is no Hugging Face cache", HERE, "mlx_135m", AS_IT_COMES, verdict="normal"),
    Fault(
        "healthy_listed",
        "nothing; a model of 300M, and a Hugging Face cache, so that the server can list it",
        HERE,
        "mlx_300m",
        Stage(around=(hugging_face_cache,)),
        verdict="normal",
    ),
    Fault(
        "three_neighbours",
        "three busy loops, and a model of 300M",
        HERE,
        "mlx_300m",
        Stage(beside=(busy_loops(3),)),
        "cpu_contended",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "eight_users_for_two",
        "--decode-concurrency 2 --prompt-concurrency 2 and eight users who ask all the while",
        HERE,
        "mlx_30m",
        Stage(("--decode-concurrency", "2", "--prompt-concurrency", "2"), beside=(users(8),)),
        "queueing",
        cure=Stage(beside=(users(8),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "clock_in_prompt",
        "a client whose long prompts start with another text each time, as with a clock",
        HERE,
        "mlx_30m",
        Stage(beside=(users(1, clocked),)),
        "prompt_reprocessed",
        cure=Stage(beside=(users(1, steady),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "draft_of_two",
        "--draft-model with other random weights and --num-draft-tokens 2",
        HERE,
        "mlx_300m",
        Stage(("--draft-model", "{models}/mlx_draft", "--num-draft-tokens", "2")),
        "speculative_decoding_hurts",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "healthy_two_users",
        "two users who ask with pauses, as batches are made for",
        HERE,
        "mlx_135m",
        Stage(beside=(users(2, pause_s=1.0),)),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_roomy_cache",
        "--prompt-cache-size 20 --prefill-step-size 512, asked before",
        HERE,
        "mlx_135m",
        Stage(("--prompt-cache-size", "20", "--prefill-step-size", "512")),
        verdict="normal",
        fresh=True,
    ),
    # thought up after the causes were mended with the fresh ones above
    Fault(
        "three_users_for_one",
        "--decode-concurrency 1 and three users of a model of 135M",
        HERE,
        "mlx_135m",
        Stage(("--decode-concurrency", "1"), beside=(users(3),)),
        "queueing",
        cure=Stage(beside=(users(3),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "shuffled_prompts",
        "a client whose long prompts start with another text each time, and answers of 16 tokens",
        HERE,
        "mlx_30m",
        Stage(beside=(users(1, lambda turn: (clocked(turn)[0], 16)),)),
        "prompt_reprocessed",
        cure=Stage(beside=(users(1, lambda turn: (steady(turn)[0], 16)),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "healthy_small_asked_before",
        "a model of 30M that was asked before",
        HERE,
        "mlx_30m",
        AS_IT_COMES,
        verdict="normal",
        fresh=True,
    ),
    # the third round: thought up by someone who had not seen the causes' code
    Fault(
        "kv_bits_and_five_users",
        "--kv-bits 8, with which the server answers one after the other, and five users who ask all the while",
        HERE,
        "mlx_30m",
        Stage(("--kv-bits", "8"), beside=(users(5),)),
        "queueing",
        cure=Stage(beside=(users(5),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "seeded_users",
        'three users whose clients send "seed": 42, which the server never answers together with others',
        HERE,
        "mlx_135m",
        Stage(beside=(users(3, seed=42),)),
        "queueing",
        cure=Stage(beside=(users(3),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "three_talks_one_cache",
        "--prompt-cache-size 1 and three conversations in turns: each pushes the others out",
        HERE,
        "mlx_30m",
        Stage(("--prompt-cache-size", "1"), beside=(users(1, three_talks),)),
        "prompt_reprocessed",
        cure=Stage(beside=(users(1, three_talks),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "draft_half_as_large",
        "--draft-model of 135M for a model of 300M, which never agree; as many tokens ahead as it comes",
        HERE,
        "mlx_300m",
        Stage(("--draft-model", "{models}/mlx_135m")),
        "speculative_decoding_hurts",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "build_beside",
        "a build with four jobs at a time, each of which lives for a fraction of a second",
        HERE,
        "mlx_135m",
        Stage(beside=(short_jobs(2 * CPUS),)),
        "cpu_contended",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "container_of_0_4_cpus",
        "a control group with 0.4 of a CPU's time",
        HERE,
        "mlx_30m",
        Stage(around=(limited(cpu_quota(0.4)),)),
        "threads_exceed_cpu_quota",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "late_gateway",
        "a gateway that passes each question on 2.5 s late",
        HERE,
        "mlx_30m",
        Stage(beside=(slow_proxy(0, 0.0, 2.5),)),
        "client_overhead",
        cure=AS_IT_COMES,
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "healthy_told_more",
        "--log-level DEBUG --decode-concurrency 8 --max-tokens 1024, and a Hugging Face cache",
        HERE,
        "mlx_300m",
        Stage(
            ("--log-level", "DEBUG", "--decode-concurrency", "8", "--max-tokens", "1024"), around=(hugging_face_cache,)
        ),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_conversation",
        "one user whose conversation grows, with pauses to read the answers",
        HERE,
        "mlx_30m",
        Stage(beside=(users(1, growing, pause_s=3.0),)),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "draft_and_four_users",
        "--draft-model, with which the server answers one after the other, and four users who ask all the while",
        HERE,
        "mlx_135m",
        Stage(("--draft-model", "{models}/mlx_draft"), beside=(users(4),)),
        "queueing",
        also=("speculative_decoding_hurts",),
        cure=Stage(beside=(users(4),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "kv_bits_and_three_users",
        "--kv-bits 4 --decode-concurrency 16, and three users of a model of 135M",
        HERE,
        "mlx_135m",
        Stage(("--kv-bits", "4", "--decode-concurrency", "16"), beside=(users(3),)),
        "queueing",
        cure=Stage(("--decode-concurrency", "16"), beside=(users(3),)),
        metric="first_token",
        fresh=True,
    ),
    Fault(
        "five_busy_loops",
        "five busy loops, and a model of 30M",
        HERE,
        "mlx_30m",
        Stage(beside=(busy_loops(5),)),
        "cpu_contended",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "half_a_cpu_300m",
        "a control group with half of a CPU's time, and a model of 300M",
        HERE,
        "mlx_300m",
        Stage(around=(limited(cpu_quota(0.5)),)),
        "threads_exceed_cpu_quota",
        cure=AS_IT_COMES,
        fresh=True,
    ),
    Fault(
        "healthy_one_at_a_time",
        "--decode-concurrency 1 --prompt-concurrency 1, and nobody asks",
        HERE,
        "mlx_135m",
        Stage(("--decode-concurrency", "1", "--prompt-concurrency", "1")),
        verdict="normal",
        fresh=True,
    ),
    Fault(
        "healthy_large_steps",
        "--prefill-step-size 4096 --prompt-cache-size 2, and a Hugging Face cache",
        HERE,
        "mlx_30m",
        Stage(("--prefill-step-size", "4096", "--prompt-cache-size", "2"), around=(hugging_face_cache,)),
        verdict="normal",
        fresh=True,
    ),
)
RUNTIME = Runtime(played, _measured)

if __name__ == "__main__":
    make_models(Path(sys.argv[1]))
