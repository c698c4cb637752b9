"""Plans applied to a real llama-server under its supervisor, and undone: systemd, a script, compose.

UNSLOW_LLAMA_SERVER names the program and UNSLOW_LLAMA_MODEL a small model. Compose only parses the file.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import real_systemd
from plans import option, plan, written
from real_llama_server import NEEDED, SERVER

MODEL = os.environ.get("UNSLOW_LLAMA_MODEL", "")
pytestmark = [*NEEDED, pytest.mark.skipif(not MODEL, reason="UNSLOW_LLAMA_MODEL names no model")]
PATTERN = r"blk\.(0|1)\.(ffn_up\.weight)=CPU"
CHANGES = {"context_length": 1024, "threads": 1, "tensor_override": PATTERN}
NEW = ["-c", "1024", "-t", "1", "-ot", PATTERN]
UNSLOW = (sys.executable, "-m", "unslow")


@pytest.fixture
def port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    name = Path(MODEL).name.removesuffix(".gguf")
    return written(tmp_path, plan("llama.cpp", name, option("smaller", **CHANGES)))


def words_of(port: str) -> list[str]:
    return [SERVER, "-m", MODEL, "-c", "2048", "-t", "2", "--port", port, "--alias", "100% $HOME \\d 'x'"]


def as_flags(words: list[str]) -> dict[str, str]:
    """Flags and their values: their order says nothing."""
    return dict(zip(words[1::2], words[2::2], strict=True))


def expected(port: str) -> dict[str, str]:
    return as_flags(words_of(port)) | as_flags(["", *NEW])


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*UNSLOW, *words], capture_output=True, text=True, timeout=120, check=False)


def wait_for(is_so, what: str) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    pytest.fail(f"not within a minute: {what}")


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]


def answers(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


UNIT = """[Service]
Environment=NAME=llama
ExecStart={program} -m {model} -c 2048 -t 2 --port {port} --alias "100%% $$HOME \\\\d 'x'"
"""


OF_USER = f"""[Service]
Type=notify
Slice=user.slice
Delegate=yes
KillMode=mixed
RuntimeDirectory=user/0
Environment=XDG_RUNTIME_DIR=/run/user/0 XDG_CONFIG_HOME={{config}}
ExecStart={real_systemd.SYSTEMD} --user
"""


class Services:
    """The services of the system, or those of a user of it."""

    def __init__(self, system: real_systemd.Booted, folder: str, env: dict[str, str]) -> None:
        self.system, self.folder, self._env = system, folder, env
        self.systemctl = ("systemctl", "--user") if env else ("systemctl",)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.system.done(*words, env=self._env)

    def ask(self, *words: str) -> str:
        done = self.run(*self.systemctl, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def command(self) -> list[str]:
        pid = self.ask("show", "llama.service", "--property=MainPID", "--value")
        return self.system.run("cat", f"/proc/{pid}/cmdline").split("\0")[:-1]

    def files(self) -> str:
        return self.system.run("find", self.folder, "-type", "f")


@pytest.fixture(params=["of the system", "of a user"])
def services(request, tmp_path, port):
    if why := real_systemd.missing():
        pytest.skip(why)
    units, config = tmp_path / "units", tmp_path / "config"
    (config / "systemd" / "user").mkdir(parents=True)
    units.mkdir()
    own = request.param == "of a user"
    folder = config / "systemd" / "user" if own else units
    (folder / "llama.service").write_text(UNIT.format(program=SERVER, model=MODEL, port=port))
    (units / "user@0.service").write_text(OF_USER.format(config=config))
    with real_systemd.booted(units) as system:
        if own:
            system.run("systemctl", "start", "user@0.service")
            env = {"XDG_RUNTIME_DIR": "/run/user/0", "XDG_CONFIG_HOME": str(config)}
            yield Services(system, str(folder), env)
        else:
            yield Services(system, "/etc/systemd/system", {})


def test_systemd_service_is_changed_and_restored(services, tmp_path, plan_file, port):
    journal, before = ("--journal", str(tmp_path / "j")), services.files()
    services.ask("start", "llama.service")
    wait_for(lambda: listens(services.system, port), "the port")
    old = services.command()
    assert old == words_of(port)
    said = services.run(*UNSLOW, "apply", plan_file, "--yes", *journal)
    assert (said.returncode, said.stderr) == (0, "")
    assert f"{services.folder}/llama.service.d/90-unslow.conf" in services.files()
    again = services.run(*UNSLOW, "apply", plan_file, "--yes", *journal)
    assert again.returncode == 2
    assert "is not active yet" in again.stderr
    assert f"{' '.join(services.systemctl)} restart llama.service" in again.stderr
    services.ask("daemon-reload")
    assert f"-ot {PATTERN}" in services.ask("show", "llama.service", "--property=ExecStart")
    services.ask("restart", "llama.service")
    assert as_flags(services.command()) == expected(port)
    wait_for(lambda: listens(services.system, port), "the port again")
    assert "already runs with these settings" in services.run(*UNSLOW, "apply", plan_file, "--yes", *journal).stdout
    assert services.run(*UNSLOW, "undo", "--yes", *journal).returncode == 0
    assert services.files() == before
    services.ask("daemon-reload")
    services.ask("restart", "llama.service")
    assert services.command() == old


def test_restart_flag_restarts_the_service(services, tmp_path, plan_file, port):
    services.ask("start", "llama.service")
    wait_for(lambda: listens(services.system, port), "the port")
    said = services.run(*UNSLOW, "apply", plan_file, "--yes", "--restart", "--journal", str(tmp_path / "j"))
    assert (said.returncode, said.stderr) == (0, "")
    assert as_flags(services.command()) == expected(port)


def listens(system: real_systemd.Booted, port: str) -> bool:
    """Whether somebody answers there: that network is its own."""
    code = f"import socket, sys; sys.exit(socket.socket().connect_ex(('127.0.0.1', {port})))"
    return system.done(sys.executable, "-c", code).returncode == 0


@pytest.fixture
def script(tmp_path: Path, port: str) -> Path:
    path = tmp_path / "start.sh"
    lines = [
        "#!/bin/sh",
        "usage='to start it by hand:",
        f"{SERVER} -m {MODEL} -c 2048 -t 2 --port {port}",
        "'",
        f'exec_with="{SERVER}"',
        f'"$exec_with" -m {MODEL} -c 2048 \\',
        f"  -t 2 --port {port} --alias \"100% \\$HOME \\\\d 'x'\" # it's here",
        "",
    ]
    path.write_text("\n".join(lines))
    path.chmod(0o750)
    return path


def started(script: Path, port: str) -> "subprocess.Popen[bytes]":
    shell = subprocess.Popen(["sh", str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: answers(port), "the port")
    return shell


def child_of(shell: "subprocess.Popen[bytes]") -> int:
    return int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()[0])


def end(shell: "subprocess.Popen[bytes]", port: str) -> None:
    os.kill(child_of(shell), 9)
    shell.wait()
    wait_for(lambda: not answers(port), "its end")


def test_shell_script_is_changed_and_restored(tmp_path, plan_file, script, port):
    before, journal = (script.read_bytes(), script.stat().st_mode), ("--journal", str(tmp_path / "j"))
    shell = started(script, port)
    try:
        assert command_of(child_of(shell)) == words_of(port)
        target = ("--target", str(child_of(shell)))
        done = run("apply", plan_file, "--yes", *target, *journal)
        assert (done.returncode, done.stderr) == (0, "")
        again = run("apply", plan_file, "--yes", *target, *journal)
        assert again.returncode == 2
        assert "is not active yet" in again.stderr
    finally:
        end(shell, port)
    shell = started(script, port)
    try:
        assert as_flags(command_of(child_of(shell))) == expected(port)
    finally:
        end(shell, port)
    assert run("undo", "--yes", *journal).returncode == 0
    assert (script.read_bytes(), script.stat().st_mode) == before


@cache
def compose() -> tuple[str, ...]:
    """The words that start docker compose; none where there is none."""
    for words in (("docker", "compose"), ("docker-compose",), (os.environ.get("UNSLOW_COMPOSE", ""),)):
        if words[0] and shutil.which(words[0]):
            done = subprocess.run([*words, "version"], capture_output=True, check=False)
            if done.returncode == 0:
                return words
    return ()


FORMS = {
    "list": 'command: ["-m", "{model}", "-c", "2048", "-t", "2", "--port", "{port}", "--alias", '
    "\"100% $$HOME \\\\d 'x'\"]",
    "rows": "command:\n      - -m\n      - {model} # the model\n      - -c\n      - '2048'\n      - -t\n      - \"2\"\n"
    "      - --port\n      - '{port}'\n      - --alias\n      - '100% $$HOME \\d ''x'''",
}


@pytest.mark.parametrize("form", FORMS)
def test_compose_file_is_changed_and_restored(tmp_path, plan_file, port, form):
    """The server runs outside a container here, with the arguments of the file."""
    if not compose():
        pytest.skip("no docker compose here; UNSLOW_COMPOSE may name one")
    file, journal = tmp_path / "compose.yml", ("--journal", str(tmp_path / "j"))
    command = FORMS[form].format(model=MODEL, port=port)
    file.write_text(f"services:\n  # ours\n  llama:\n    image: x\n    {command}\n    restart: always\n")
    before = file.read_bytes()
    assert composed(file) == words_of(port)[1:]
    with subprocess.Popen(words_of(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: answers(port), "the port")
            done = run("apply", plan_file, "--yes", "--target", str(server.pid), "--file", str(file), *journal)
            assert (done.returncode, done.stderr) == (0, "")
        finally:
            server.kill()
    assert as_flags(["", *composed(file)]) == expected(port)
    assert b"# ours" in file.read_bytes()
    assert run("undo", "--yes", *journal).returncode == 0
    assert file.read_bytes() == before


def composed(file: Path) -> list[str]:
    """The command as compose reads it; it writes a dollar twice, as such a file has it."""
    words = [*compose(), "-f", str(file), "config", "--format", "json"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [word.replace("$$", "$") for word in json.loads(said)["services"]["llama"]["command"]]
