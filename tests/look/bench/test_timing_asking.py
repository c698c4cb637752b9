"""Every way in which a timed request fails, on real sockets; the same result from every runtime."""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import pytest
from doubles import FakeSystem
from lab.chaos.wire import read_request
from lab.replay import serve

from unslow.look.bench.timing import ask
from unslow.look.requests import AskError, Question, Target
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
ASKED = Question("hello", 8, silence_s=20.0, deadline_s=60.0)
"""Patient: on a busy machine a server's thread may come late."""
SOON = ASKED._replace(silence_s=0.2)
HEARD = ASKED._replace(silence_s=1.0)
"""As little as is waited for, and enough for what was sent before to be heard."""
TIMINGS = {"prompt_n": 40, "prompt_ms": 100.0, "predicted_n": 8, "predicted_ms": 700.0, "cache_n": 2}


def event(**data) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


PIECE = event(content="a", stop=False)
END = event(content="", stop=True, timings=TIMINGS)


@contextmanager
def says(*parts: bytes, hold: bool = False):
    """A server that answers one request with these bytes, then hangs up, or holds the line and says no more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def answer() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    read_request(connection)  # whole: closing on unread bytes would reset the connection
                    for part in parts:
                        connection.sendall(part)
                    if hold:
                        over.wait(10)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def failure(url: str, question: Question = ASKED, **target) -> AskError:
    with pytest.raises(AskError) as caught:
        ask(LiveSystem(), Target(url, **target), question)
    return caught.value


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("parts", "hold", "kind", "pieces"),
    [
        ((), True, "not_answered", 0),
        ((HEAD,), True, "not_answered", 0),
        ((HEAD, chunk(PIECE), chunk(PIECE)), True, "stalled", 2),
        ((HEAD, chunk(PIECE), chunk(PIECE)), False, "broke_off", 2),
        ((HEAD, chunk(PIECE)[:9]), False, "broke_off", 0),
        ((), False, "broke_off", 0),
        ((PLAIN, PIECE, PIECE, PIECE), False, "broke_off", 3),
        ((HEAD, chunk(PIECE), chunk(event(error={"message": "out of memory"}))), False, "error", 1),
        ((b"HTTP/1.1 503 Loading\r\nContent-Length: 4\r\n\r\nbusy",), False, "error", 0),
        ((HEAD, chunk(b"data: nonsense\n\n")), False, "error", 0),
    ],
)
def test_each_failure_has_its_kind_and_the_chunks_received(parts, hold, kind, pieces):
    with says(*parts, hold=hold) as url:
        error = failure(url, (HEARD if pieces else SOON) if hold else ASKED)
    assert (error.kind, error.pieces) == (kind, pieces), error.why


def test_a_closed_port_is_refused_and_with_a_dead_process_gone():
    assert failure(closed_port()).kind == "refused"
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    assert failure(closed_port(), pid=child.pid).kind == "gone"


def test_a_zombie_process_counts_as_gone():
    files = {
        "/proc/7/stat": "7 (llama (x) server) Z 1 7 7",
        "/proc/8/stat": "8 (llama) S 1 8 8",
        "/proc/self/stat": "1",
    }
    for pid, kind in {7: "gone", 8: "broke_off", 9: "gone", None: "broke_off"}.items():
        system = FakeSystem(files=files, streams={"http://x/completion": []})
        with pytest.raises(AskError) as caught:
            ask(system, Target("http://x", pid=pid), ASKED)
        assert caught.value.kind == kind


def test_without_proc_no_process_is_reported_gone():
    with pytest.raises(AskError) as caught:
        ask(FakeSystem(streams={"http://x/completion": []}), Target("http://x", pid=7), ASKED)
    assert caught.value.kind == "broke_off"


def test_the_deadline_ends_an_endless_stream():
    with says(HEAD, *[chunk(PIECE)] * 3, hold=True) as url:
        assert failure(url, ASKED._replace(silence_s=60.0, deadline_s=1.0)).kind == "stalled"


UNPARSED = {"code": 500, "message": "The model produced output that does not match the expected Content-only format"}


def test_an_answer_that_the_server_cannot_parse_is_timed_by_what_came():
    pieces = [(0.2 * at, PIECE.decode().strip()) for at in range(1, 21)]
    sent = [*pieces, (4.1, event(error=UNPARSED).decode().strip())]
    reply = ask(FakeSystem(streams={"http://x/completion": sent}), Target("http://x"), ASKED)
    assert (reply.generated_tokens, reply.server_decode_s, len(reply.arrivals_s)) == (20, None, 20)
    assert "could not parse" in reply.clock
    with pytest.raises(AskError, match="does not match"):  # a few tokens tell no speed
        ask(FakeSystem(streams={"http://x/completion": sent[15:]}), Target("http://x"), ASKED)


def test_the_silence_timeout_applies_between_chunks():
    with serve("llama_cpp", tokens_per_s=20, prompt_tokens_per_s=1e5) as url:
        reply = ask(LiveSystem(), Target(url), Question("hello", 30, silence_s=1.0))
    assert reply.total_s > 1.0
    assert reply.generated_tokens == len(reply.arrivals_s) == 30


def test_the_api_key_is_masked_in_failures():
    key = "sk-unslow-test-0123456789"
    with says(HEAD, chunk(event(error={"message": f"bad {key}"}))) as url:
        assert key not in failure(url, api_key=key).why


RUNTIMES = {
    "llama.cpp": "llama_cpp",
    "Ollama": "ollama",
    "LM Studio": "lm_studio",
    "vLLM": "vllm",
    "SGLang": "sglang",
    "TGI": "tgi",
    "KoboldCpp": "koboldcpp",
    "MLX-LM": "mlx_lm",
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_one_request_gives_the_same_reply_on_every_runtime(runtime, stream):
    with serve(RUNTIMES[runtime], tokens_per_s=400, prompt_tokens_per_s=1e4) as url:
        target = Target(url, runtime=runtime, model="qwen3:8b")
        reply = ask(LiveSystem(), target, Question("hello there, you", 20, greedy=True, stream=stream))
    assert (reply.generated_tokens, len(reply.arrivals_s)) == (20, 20 if stream else 0)
    assert reply.prompt_tokens > 0
    assert not reply.ended_early
    assert reply.total_s >= 19 / 400
    assert reply.text.startswith("The quick brown")


def test_a_recorded_vllm_stream_is_timed_by_the_client_clock():
    with serve("vllm") as url:
        reply = ask(LiveSystem(), Target(url, runtime="vLLM", model="tiny-llama"), Question("x", 96))
    assert reply.generated_tokens >= len(reply.arrivals_s) > 60
    assert reply.arrivals_s == tuple(sorted(reply.arrivals_s))
    assert (reply.clock, reply.server_decode_s) == ("client clock", None)


def test_a_recorded_failure_replays_with_the_same_kind(tmp_path):
    url = closed_port()
    recorder = Recorder(LiveSystem(), tmp_path)
    with pytest.raises(AskError):
        ask(recorder, Target(url), ASKED)
    recorder.close()
    with pytest.raises(AskError) as caught:
        ask(RecordedSystem(tmp_path), Target(url), ASKED)
    assert caught.value.kind == "refused"


def test_an_unexpected_look_error_becomes_an_ask_error():
    system = FakeSystem(streams={"http://x/completion": LookError("whatever it was")})
    with pytest.raises(AskError) as caught:
        ask(system, Target("http://x"), ASKED)
    assert caught.value.kind == "error"
