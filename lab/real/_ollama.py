"""A real Ollama for the lab: its store of models, its start and its end, and the users who ask it."""

import http.client
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab.faults.asked import USUAL, Asked
from lab.faults.asking import TIMEOUT_S, get
from lab.faults.fault import Fault, Heard, Metric, Playing, SkippedError, Stage
from lab.faults.playing import Place
from lab.faults.storage import forget

STORE = "ollama"
"""The folder of the models that Ollama keeps its own copies in."""
UP_S, END_S, SETTLE_S = 20.0, 10.0, 2.0
S_PER_NS = 1e-9
ANSWERS, ANSWER, SHORT_PROMPT, LONG_PROMPT = 3, 64, 24, 600
WATCHED_S = 10.0
ANSWERS_BEFORE, LONGEST_BEFORE_S = 6, 40.0
"""What users have been answered before anyone looks."""
WORDS = """
the of and to in is you that it he was for on are as with his they at be this have from or one had by word but
not what all were we when your can said there use an each which she do how their if will up other about out
many then them these so some her would make like him into time has look two more write go see number no way
could people my than first water been call who oil its now find long down day did get come made may part over
new sound take only little work know place year live me back give most very after thing our just name good
sentence man think say great
""".split()  # noqa: SIM905 (readable)
Body = dict[str, Any]
Question = Callable[[int, int], Body]
"""What a client asks, by its number and its turn: a prompt, messages or an input, and all else of the request."""
Beside = Callable[[Playing], AbstractContextManager[object]]


@dataclass
class OllamaPlaying(Playing):
    """A stage of Ollama, with the name of its model."""

    name: str = ""


def text(count: int, seed: int | None = None) -> str:
    """A prompt of so many common words, each of them a token of its own; with a seed, the same one each time."""
    dice = random.Random(seed)
    return " ".join(dice.choice(WORDS) for _ in range(count))


def options(**given: Any) -> Body:
    """The options of a request."""
    return {"options": given}


def merged(*bodies: Body) -> Body:
    """One request of several parts; options are put together."""
    whole: Body = {key: value for body in bodies for key, value in body.items()}
    return whole | {"options": {key: value for body in bodies for key, value in body.get("options", {}).items()}}


def ask(url: str, model: str, body: Body, answer: int = ANSWER) -> Heard:
    """One streamed answer of about so many tokens; OSError where there is none."""
    path = "/api/chat" if "messages" in body else "/api/embed" if "input" in body else "/api/generate"
    usual: Body = {"model": model, "stream": True, **({"raw": True} if path == "/api/generate" else {})}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    start, pieces = time.monotonic(), list[float]()
    final: Body = {}
    try:
        whole = merged(usual, options(num_predict=answer), body)
        connection.request("POST", path, json.dumps(whole), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"{response.status}: {response.read(300).decode(errors='replace')}")
        for line in response:
            final = json.loads(line)
            if final.get("error"):
                raise OSError(str(final["error"])[:300])
            pieces.append(time.monotonic())
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    if not pieces:
        raise OSError("nothing came")
    spoken = pieces[:-1] or pieces  # the last piece has only the counts
    computed = final.get("prompt_eval_count", 0) - final.get("prompt_eval_cached_count", 0)
    prompt_s = final.get("prompt_eval_duration", 0) * S_PER_NS
    tokens = final.get("eval_count", len(spoken))
    return Heard(pieces[-1], spoken[0] - start, tokens, spoken[-1] - spoken[0], computed, prompt_s)


def short_questions(_client: int, _turn: int) -> Body:
    """A new short prompt each time."""
    return {"prompt": text(SHORT_PROMPT)}


def with_options(question: Question, *each: Body) -> Question:
    """The same questions, each with the next of these parts of a request in turn, whoever asks."""
    return lambda client, turn: merged(question(client, turn), each[(client + turn) % len(each)])


def clocked(client: int, turn: int) -> Body:
    """A long system prompt and a growing talk, all behind a clock that never shows the same time twice."""
    return {"prompt": f"It is {time.time_ns()}. {text(400, client)} {text(12 * (turn % 8 + 1), client + 1)}"}


def steady(client: int, turn: int) -> Body:
    """The same talk with the clock at its end, where it costs nothing."""
    return {"prompt": f"{text(400, client)} {text(12 * (turn % 8 + 1), client + 1)} It is {time.time_ns()}."}


def chatting(words: int, history: int = 40) -> Question:
    """A chat of which every message has so many words, and which is sent whole each time, as every client does."""

    def question(client: int, turn: int) -> Body:
        said = [text(words, seed=1000 * client + number) for number in range(2 * (turn % history) + 1)]
        roles = ("user", "assistant")
        return {"messages": [{"role": roles[at % 2], "content": one} for at, one in enumerate(said)]}

    return question


def embedding(_client: int, _turn: int) -> Body:
    """A passage to embed."""
    return {"input": text(40)}


def clients(
    count: int,
    question: Question = short_questions,
    pause_s: float = 0.0,
    answer: int = 48,
    models: tuple[str, ...] = (),
) -> Beside:
    """So many users, each of whom asks again once answered; with several models, one after the other."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        assert isinstance(playing, OllamaPlaying)
        end = threading.Event()
        playing.clients += count

        def ask_on(number: int) -> None:
            turn = 0
            while not end.is_set():
                name = models[(number + turn) % len(models)] if models else playing.name
                try:
                    playing.heard.append(ask(playing.url, name, question(number, turn), answer))
                except OSError:
                    end.wait(0.5)
                turn += 1
                end.wait(pause_s)

        users = [threading.Thread(target=ask_on, args=(number,), daemon=True) for number in range(count)]
        for user in users:
            user.start()
        since = time.monotonic()
        time.sleep(SETTLE_S)
        while len(playing.heard) < ANSWERS_BEFORE and time.monotonic() - since < LONGEST_BEFORE_S:
            time.sleep(0.2)
        try:
            yield
        finally:
            end.set()

    return beside


def asked_before(*bodies: Body, models: tuple[str, ...] = (), answer: int = 8) -> Beside:
    """What was asked before anyone looks: nothing is asked any more then."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        assert isinstance(playing, OllamaPlaying)
        for number, body in enumerate(bodies):
            name = models[number % len(models)] if models else playing.name
            with suppress(OSError):
                playing.heard.append(ask(playing.url, name, body, answer))
        yield

    return beside


@contextmanager
def own_store(playing: Playing) -> Iterator[None]:
    """A store of this stage's own: other names of the same files, so that it takes no room."""
    store = Path(playing.scratch) / STORE
    shutil.copytree(playing.environment["OLLAMA_MODELS"], store, copy_function=os.link)
    playing.environment["OLLAMA_MODELS"] = str(store)
    yield


@contextmanager
def cold_store(playing: Playing) -> Iterator[None]:
    """The files of the store are in nobody's file cache."""
    for path in Path(playing.environment["OLLAMA_MODELS"], "blobs").iterdir():
        forget(path)
    yield


def damaged_store(keep_share: float) -> Beside:
    """A store whose large files end too early, as after a download that broke off."""

    @contextmanager
    def around(playing: Playing) -> Iterator[None]:
        with own_store(playing):
            for path in Path(playing.environment["OLLAMA_MODELS"], "blobs").iterdir():
                if (size := path.stat().st_size) > 10_000_000:
                    short = path.with_suffix(".part")
                    with path.open("rb") as whole, short.open("wb") as part:
                        part.write(whole.read(int(size * keep_share)))
                    short.replace(path)
            yield

    return around


@contextmanager
def server(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[Any]]:
    """Ollama with what it starts: asked to end, so that it ends its own processes, and killed if it does not."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, process_group=0
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_up(process: subprocess.Popen[Any], url: str) -> bool:
    """Wait until it answers."""
    end = time.monotonic() + UP_S
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError):
            if get(url, "/")[0] == http.client.OK:
                return True
        time.sleep(0.05)
    return False


def environment_of(place: Place, scratch: str) -> dict[str, str]:
    """Of a server that reaches nobody else, with nothing of whoever plays it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OLLAMA_") and not k.lower().endswith("_proxy")}
    own = {"HOME": scratch, "OLLAMA_HOST": f"127.0.0.1:{place.port}", "OLLAMA_NO_CLOUD": "1", "OLLAMA_NOPRUNE": "1"}
    return kept | own | {"OLLAMA_MODELS": str(place.models.absolute() / STORE)}


def fill_store(place: Place) -> None:
    """Every model of the folder has its copy in the store."""
    store = place.models.absolute() / STORE
    listed = store / "manifests/registry.ollama.ai/library"
    missing = [path for path in sorted(place.models.glob("*.gguf")) if not (listed / path.stem).is_dir()]
    if not missing:
        return
    program, url = place.program("ollama"), f"http://127.0.0.1:{place.port}"
    environment = environment_of(place, str(place.scratch))
    with server([str(program), "serve"], environment, place.scratch / "store.log") as process:
        if not is_up(process, url):
            raise SkippedError("Ollama did not start")
        for path in missing:
            modelfile = place.scratch / "Modelfile"
            modelfile.write_text(f"FROM {path.absolute()}\n")
            create = [str(program), "create", path.stem, "-f", str(modelfile)]
            subprocess.run(create, env=environment, check=True, capture_output=True)


def derive(url: str, base: str, parameters: Mapping[str, str]) -> str:
    """The name of a model with these parameters in its Modelfile."""
    name = "-".join([base, *(f"{key}-{value}" for key, value in parameters.items())])
    given = {key: json.loads(value) for key, value in parameters.items()}
    body = json.dumps({"model": name, "from": base, "parameters": given, "stream": False})
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    connection.request("POST", "/api/create", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise OSError(f"{answer.status}: {answer.read(300).decode(errors='replace')}")
    connection.close()
    return name


@contextmanager
def played(fault: Fault, stage: Stage, place: Place) -> Iterator[Playing]:
    """The stage with its model loaded, as by someone's first question; `arguments` are parameters of its Modelfile."""
    fill_store(place)
    with ExitStack() as stack:
        scratch = str(place.scratch / f"{fault.name}-{time.monotonic_ns()}")
        Path(scratch).mkdir()
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        playing = OllamaPlaying(
            url=f"http://127.0.0.1:{place.port}",
            port=place.port,
            scratch=scratch,
            command=[*stage.wrap, str(place.program("ollama")), "serve"],
            environment=environment_of(place, scratch) | stage.environment,
            models=str(place.models.absolute()),
            log=str(Path(scratch) / "server.log"),
            name=stage.model or fault.model,
        )
        for surround in stage.around:
            stack.enter_context(surround(playing))
        process = stack.enter_context(server(playing.command, playing.environment, Path(playing.log)))
        playing.pid = process.pid
        if not is_up(process, playing.url):
            raise SkippedError("Ollama did not start")
        if stage.arguments:
            pairs = dict(zip(stage.arguments[::2], stage.arguments[1::2], strict=True))
            playing.name = derive(playing.url, playing.name, pairs)
        start = time.monotonic()
        with suppress(OSError):  # a load that fails is what some stages are for
            ask(playing.url, playing.name, {"prompt": text(8)}, 8)
        playing.load_s = time.monotonic() - start
        for go_on in stage.beside:
            stack.enter_context(go_on(playing))
        yield playing


def measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """The metric on a stage that is being played; None where it could not be had."""
    assert isinstance(playing, OllamaPlaying)
    if metric == "load":
        return playing.load_s
    if playing.clients:
        since = time.monotonic()
        while time.monotonic() - since < WATCHED_S or not any(one.at_s >= since for one in list(playing.heard)):
            if time.monotonic() - since > 6 * WATCHED_S:
                return None
            time.sleep(0.5)
        heard = [one for one in list(playing.heard) if one.at_s >= since]
        return _of_answers(metric, heard, time.monotonic() - since)
    url, name = playing.diagnose_url or playing.url, playing.name
    match metric:
        case "first_token":
            talk = text(asked.kept) if asked.kept else ""
            heard = []
            for _ in range(ANSWERS):
                ask(url, name, {"prompt": talk or "a"}, 2)
                heard.append(ask(url, name, {"prompt": f"{talk} {text(asked.new)}"}, 2))
        case "prefill":
            heard = [ask(url, name, {"prompt": text(LONG_PROMPT)}, 2) for _ in range(2)]
        case _:
            heard = [ask(url, name, {"prompt": text(SHORT_PROMPT)}, ANSWER) for _ in range(ANSWERS)]
    return _of_answers(metric, heard, sum(one.first_token_s + one.seconds for one in heard))


def _of_answers(metric: Metric, heard: list[Heard], seconds: float) -> float | None:
    match metric:
        case "first_token":
            return statistics.median(one.first_token_s for one in heard)
        case "prefill":
            speeds = [one.prompt_tokens / one.prompt_s for one in heard if one.prompt_s]
            return statistics.median(speeds) if speeds else None
        case "together":
            return sum(one.tokens for one in heard) / seconds
        case _:
            return statistics.median(one.tokens_per_s for one in heard)
