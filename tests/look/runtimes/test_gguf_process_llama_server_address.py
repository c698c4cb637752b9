"""The front of a server, and its default number of threads."""

import pytest
from doubles import FakeSystem

from unslow.commands.diagnose.target import with_machine
from unslow.facts.machine import Cpu, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, reported_fact
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.processes import read_listeners, read_process
from unslow.look.runtimes._gguf_process import front_of, lines_of, parse_loads, url_of
from unslow.look.system.recorded import RecordedSystem, Recorder


def front(parent: str = "bash", command: str = "", environment: str = "") -> str:
    files = {
        "/proc/42/comm": "llama-server",
        "/proc/42/cmdline": "llama-server\0",
        "/proc/42/environ": environment,
        "/proc/42/status": "PPid:\t41\n",
        "/proc/41/comm": "sh",
        "/proc/41/status": "PPid:\t40\n",
        "/proc/40/comm": parent,
        "/proc/40/cmdline": command.replace(" ", "\0"),
        "/proc/40/environ": "",
    }
    process = read_process(FakeSystem(files=files), 42)
    return front_of(process, process.environment()).value_or("")


@pytest.mark.parametrize(
    ("parent", "command", "before"),
    [
        ("bash", "bash", ""),
        ("llama-swap", "llama-swap", "llama-swap at http://127.0.0.1:8080"),
        ("llama-swap", "llama-swap -listen :9292 -config c", "llama-swap at http://127.0.0.1:9292"),
        ("llama-swap", "llama-swap --listen=0.0.0.0:9", "llama-swap at http://127.0.0.1:9"),
        ("llama-swap", "llama-swap --listen 10.0.0.5:9", "llama-swap at http://10.0.0.5:9"),
        ("llama-server", "llama-server --port 9000", "router at http://127.0.0.1:9000"),
        ("llama", "llama serve", "router at http://127.0.0.1:8080"),
    ],
)
def test_the_front_of_a_server_is_found_from_its_parent(parent, command, before):
    assert front(parent, command) == before


def test_an_invisible_router_is_found_by_its_port_variable():
    assert front(environment="LLAMA_SERVER_ROUTER_PORT=9000\0") == "router at http://127.0.0.1:9000"
    assert front(environment="LLAMA_SERVER_ROUTER_PORT=x\0") == ""


def test_of_several_hosts_the_http_one_is_used():
    settings = parse_settings(["llama-server", "--host", "/run/l.sock,0.0.0.0", "--port", "9"], {})
    assert url_of(settings).need() == "http://127.0.0.1:9"


def test_lines_of_one_server_are_taken_from_a_router_log():
    text = "0.1 I srv x\n[39699] n_ctx = 1\n[ 8081] n_ctx = 2\n"
    assert lines_of(text, "39699") == ["", "n_ctx = 1", "", ""]
    assert lines_of(text, "8081")[2] == "n_ctx = 2"


def threads(command: list[str], cpu: Cpu, **facts) -> int | None:
    runtime = Runtime().with_facts(
        name=reported_fact("llama.cpp", "x"),
        command=reported_fact(command, "x"),
        environment=reported_fact({}, "x"),
        **facts,
    )
    return with_machine(Subject(runtime=runtime), Machine(cpu=cpu)).runtime.compute.threads.value_or(None)


def test_default_threads_are_the_physical_cores():
    cpu = Cpu(physical_cores=reported_fact(8, "cpuinfo"))
    assert threads(["llama-server"], cpu) == 8
    assert threads(["llama-server", "-t", "4"], cpu) is None, "the log or the command line tell it"
    assert threads(["llama-server"], Cpu()) is None
    assert threads(["llama-server"], cpu, threads=reported_fact(3, "log")) == 3


def test_default_threads_on_a_hybrid_cpu_are_the_performance_cores():
    cpu = Cpu(
        physical_cores=reported_fact(14, "x"),
        performance_cores=reported_fact(6, "x"),
        efficiency_cores=reported_fact(8, "x"),
    )
    assert threads(["llama-server"], cpu) == 6


def test_default_threads_apply_to_llama_cpp_only():
    runtime = Runtime().with_facts(
        name=reported_fact("vLLM", "x"), command=reported_fact(["vllm"], "x"), environment=reported_fact({}, "x")
    )
    machine = Machine(cpu=Cpu(physical_cores=reported_fact(8, "x")))
    assert isinstance(with_machine(Subject(runtime=runtime), machine).runtime.compute.threads, Unknown)


def test_a_recording_has_no_key_and_no_open_connections(tmp_path):
    rows = [
        "  sl  local_address rem_address   st",
        "   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 991 1",
        "   1: 0100007F:1F90 08080808:0035 01 0:0 00:0 0 0 0 992 1",
    ]
    door = FakeSystem(files={"/proc/net/tcp": "\n".join(rows)}, asks={"secret /srv/keys": "sk-canary-1234"})
    recorder = Recorder(door, tmp_path)
    assert recorder.ask("secret /srv/keys", lambda: "") == "sk-canary-1234"
    assert [listener.port for listener in read_listeners(recorder)] == [8080]
    recorder.close()
    kept = (tmp_path / "recording.jsonl").read_text()
    assert "canary" not in kept
    assert "08080808" not in kept
    again = RecordedSystem(tmp_path)
    assert [listener.port for listener in read_listeners(again)] == [8080]
    assert again.ask("secret /srv/keys", lambda: "") == "masked"


def test_every_server_spawned_by_a_router_is_a_load():
    line = "0.00.049.131 I srv load: spawning server instance with name={} on port 60197"
    text = "\n".join([line.format("small"), "[60197] " + line.format("not its own"), line.format("large")])
    loads = parse_loads(text, "server.log")
    assert [load.model.value for load in loads] == ["small", "large"]
    assert loads[1].source == "server.log:3"
    assert len(parse_loads("\n".join([line.format("a")] * 5000), "server.log")) == 1000
