"""The real engine on a tiny model: it answers, stops, and never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unslow.catalog.quants import file_types
from unslow.facts.errors import UserError
from unslow.look.engine import engine_version, start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.launch.server import parse_last_words
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
FAILED_LOAD = """\
0.00.004.270 I srv    load_model: loading model '/tmp/bad.gguf'
0.00.004.648 E gguf_init_from_reader: failed to read key-value pairs
0.00.004.779 E llama_model_load: error loading model: llama_model_loader: failed to load model from /tmp/bad.gguf
0.00.005.310 E srv          init: exiting due to model loading error
Traceback (most recent call last):
RuntimeError: Failed to init server, please check the input params.
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return str(ModelCache(tmp_path_factory.mktemp("cache")).model("tiny"))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    """Whether the process ends within ten seconds."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def get(url: str):
    answer = SYSTEM.request("GET", url)
    assert answer.status == 200
    return answer


def test_a_generated_model_is_served_and_stopped(tiny):
    waits: list[float] = []
    with start_engine(SYSTEM, tiny, threads=1, context=512, waiting=waits.append) as engine:
        assert engine.url.startswith("http://127.0.0.1:")
        assert get(f"{engine.url}/health").json() == {"status": "ok"}
        assert get(f"{engine.url}/props").json()["default_generation_settings"]["n_ctx"] == 512
        assert get(f"{engine.url}/slots").json()[0]["is_processing"] is False
        assert b"llamacpp:tokens_predicted_total" in get(f"{engine.url}/metrics").body

        meta = get(f"{engine.url}/v1/models").json()["data"][0]["meta"]
        model = model_facts(read_gguf(SYSTEM, tiny))
        assert meta["n_params"] == model.parameters.value
        assert meta["size"] == model.weights_bytes.value
        assert meta["n_vocab"] == model.vocabulary.value

        body = {"prompt": "why is it slow?", "n_predict": 8, "ignore_eos": True, "temperature": 0, "n_probs": 3}
        answer = SYSTEM.request("POST", f"{engine.url}/completion", body, timeout_s=30).json()
        assert answer["timings"]["predicted_n"] == 8
        assert answer["timings"]["prompt_n"] == len("why is it slow?")  # a byte is a token
        assert answer["timings"]["predicted_per_second"] > 0
        logprobs = [t["logprob"] for step in answer["completion_probabilities"] for t in step["top_logprobs"]]
        assert all(isinstance(p, float) and -50 < p <= 0 for p in logprobs)

        log = Path(engine.log_path).read_text()
        assert "load_tensors:" in log
        assert "model buffer size" in log
        assert "KV buffer size" in log
        assert "n_threads = 1 " in log
        pid = engine.pid
        assert alive(pid)
    assert waits
    assert gone(pid)
    assert engine.has_ended
    assert not Path(engine.log_path).exists()
    engine.stop()  # a second time does no harm
    with pytest.raises(LookError):
        SYSTEM.request("GET", f"{engine.url}/health")


def test_a_truncated_gguf_is_a_user_error_with_the_engines_reason(tmp_path, tiny):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(Path(tiny).read_bytes()[:20_000])
    with pytest.raises(UserError, match="ended while it loaded the model: gguf_init_from_reader: failed to read"):
        start_engine(SYSTEM, str(bad))


def test_a_missing_model_file_is_a_user_error():
    with pytest.raises(UserError, match="no such file"):
        start_engine(SYSTEM, "/nowhere/m.gguf")


def test_an_engine_that_loads_too_long_is_stopped(tiny):
    with pytest.raises(UserError, match="took more than"):
        start_engine(SYSTEM, tiny, timeout_s=-1)


def test_a_missing_engine_package_says_how_to_install_it(wording):
    with pytest.raises(UserError) as caught:
        engine_version("no-such-package-of-that-name")
    wording(str(caught.value))
    assert "pip install '.[engine]'" in caught.value.hint


def test_the_installed_engine_has_a_version():
    assert engine_version()[0].isdigit()


PARENT = """
import sys, time
from unslow.look.engine import start_engine
from unslow.look.system.live import LiveSystem
engine = start_engine(LiveSystem(), sys.argv[1])
print(engine.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_leaves_no_engine_behind(tmp_path, tiny):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # its log is left behind: nobody is there to remove it
    command = [sys.executable, "-c", PARENT, tiny]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    with parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_an_engine_with_closed_stdin_exits(tiny):
    command = [sys.executable, "-m", "unslow.look.engine.serve", "--model", tiny, "--context", "512"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("http://127.0.0.1:")  # the address alone; the log is on the error output
    assert done.stdout.count("\n") == 1
    assert "load_tensors" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FAILED_LOAD, "gguf_init_from_reader: failed to read key-value pairs"),
        ("Traceback\nImportError: libgomp.so.1\n", "ImportError: libgomp.so.1"),
        ("", "its log is empty"),
        ("\n\n", "its log is empty"),
    ],
)
def test_the_failure_reason_is_parsed_from_the_engines_output(text, words):
    assert parse_last_words(text) == words


LARGER = [("llama_135m", ""), ("moe_small", "")]
MIXES = [("tiny", f.name) for f, _ in file_types().values() if f.output]


@pytest.mark.real
@pytest.mark.parametrize(("shape", "quant"), LARGER + MIXES)
def test_every_generated_shape_and_mix_decodes_finite_logprobs(tmp_path, shape, quant):
    path = ModelCache(tmp_path).model(shape, quant)
    with start_engine(SYSTEM, str(path)) as engine:
        body = {"prompt": "hello", "n_predict": 32, "ignore_eos": True, "temperature": 0, "n_probs": 1}
        answer = SYSTEM.request("POST", f"{engine.url}/completion", body, timeout_s=120).json()
        assert answer["timings"]["predicted_n"] == 32
        assert all(-50 < s["logprob"] <= 0 for s in answer["completion_probabilities"])
