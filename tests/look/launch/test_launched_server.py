"""Real processes that misbehave: none of them survives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unslow.facts.errors import UserError
from unslow.look.launch.command import parse_command
from unslow.look.launch.server import launch
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
SERVER = f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
port = int(words[words.index("--port") + 1])
variables = [os.environ.get(name) for name in ("LLAMA_ARG_THREADS", "GIVEN")]
print("0.00.1 I starting with", " ".join(words), *variables, flush=True)
import http.server, signal, subprocess, time  # once it has spoken: whoever waits briefly has heard it by then
if "--exit" in words:
    sys.exit("0.00.2 E load: the file is broken")
if "--deaf" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "--child" in words:  # one in its group, one that hides in a session of its own
    ours = [subprocess.Popen(["sleep", "300"]), subprocess.Popen(["sleep", "300"], start_new_session=True)]
    print("children", *(child.pid for child in ours), flush=True)
if "--silent" in words:
    time.sleep(300)
class Handler(http.server.BaseHTTPRequestHandler):
    answered = 0
    def do_GET(self):
        Handler.answered += 1
        self.send_response(503 if Handler.answered < 3 else 200)
        self.end_headers()
    def log_message(self, *words):
        pass
http.server.HTTPServer((words[words.index("--host") + 1], port), Handler).serve_forever()
"""


@pytest.fixture
def program(tmp_path) -> str:
    path = tmp_path / "llama-server"
    path.write_text(SERVER)
    path.chmod(0o755)
    return str(path)


def alive(pid: int) -> bool:
    try:
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


def removed(path: str) -> bool:
    """Whether the file and its folder are gone within ten seconds."""
    for _ in range(200):
        if not Path(path).parent.exists():
            return True
        time.sleep(0.05)
    return False


def children_in(log: str) -> list[int]:
    line = next(line for line in log.splitlines() if line.startswith("children"))
    return [int(word) for word in line.split()[1:]]


def test_a_launched_server_is_ready_once_its_model_is_loaded(program, monkeypatch):
    monkeypatch.setenv("LLAMA_ARG_THREADS", "99")
    waits: list[float] = []
    command = parse_command(f"GIVEN=yes {program} -m m --host 0.0.0.0 -t 7")
    with launch(SYSTEM, command, {"threads": 2}, waiting=waits.append) as server:
        log = Path(server.log_path).read_text()
        assert server.url.startswith("http://127.0.0.1:")
        assert SYSTEM.request("GET", server.url).status == 200
        assert "-m m -t 2 --host 127.0.0.1 --port" in log
        assert log.split()[-2:] == ["None", "yes"]  # the variable that would set the same is taken away
        assert alive(server.pid)
    assert waits
    assert not alive(server.pid)
    assert not Path(server.log_path).exists()
    server.stop()  # a second time does no harm


def test_a_server_that_exits_at_once_gives_its_last_log_line(program):
    with pytest.raises(UserError, match="ended before it answered: load: the file is broken") as caught:
        launch(SYSTEM, parse_command(f"{program} --exit"), {})
    assert caught.value.hint


def test_a_server_with_a_missing_interpreter_is_a_user_error(program):
    Path(program).write_text("#!/no/such/interpreter\n")
    with pytest.raises(UserError, match=r"ended before it answered: .*llama-server: No such file"):
        launch(SYSTEM, parse_command(program), {})


def test_a_server_that_never_answers_is_stopped(program, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(UserError, match=r"did not answer within .* its log ends with: 0\.00\.1 I starting"):
        launch(SYSTEM, parse_command(f"{program} --silent"), {}, timeout_s=1.5)
    assert still_running(program) == []


def test_ctrl_c_during_start_leaves_no_process(program):
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(SYSTEM, parse_command(f"{program} --silent"), {}, waiting=interrupted)
    assert still_running(program) == []


def still_running(program: str) -> list[int]:
    """The processes that run this very file, which only one test has."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if program.encode() in words and alive(int(folder.name)):
                found.append(int(folder.name))
    return found


def test_a_server_ignoring_sigterm_is_killed_with_its_children(program, monkeypatch):
    monkeypatch.setattr("unslow.look.launch.server.GRACE_S", 0.2)
    with launch(SYSTEM, parse_command(f"{program} --deaf --child"), {}) as server:
        children = children_in(Path(server.log_path).read_text())
        assert all(alive(pid) for pid in (server.pid, *children))
    assert not any(alive(pid) for pid in (server.pid, *children))


PARENT = """
import sys, time
from unslow.look.launch.command import parse_command
from unslow.look.launch.server import launch
from unslow.look.system.live import LiveSystem
server = launch(LiveSystem(), parse_command(sys.argv[1]), {})
print(server.pid, server.log_path, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_parent_leaves_no_server_children_or_log(program, tmp_path, deadly):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", PARENT, f"{program} --child"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    with parent:
        pid, log = parent.stdout.readline().split()
        children = children_in(Path(log).read_text())
        parent.send_signal(deadly)
    assert all(gone(one) for one in (int(pid), *children))
    assert removed(log)


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_guard_process_takes_the_server_with_it(program, deadly):
    server = launch(SYSTEM, parse_command(program), {})
    server._process.send_signal(deadly)
    assert gone(server.pid)
    server._process.wait()
    assert server.has_ended
    server.stop()
