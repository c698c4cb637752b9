import pytest
from doubles import FakeSystem

from unslow.facts.model import Model
from unslow.facts.values import Absence, Unknown, reported_fact
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.processes import read_process, read_processes
from unslow.look.running_server import parse_status, resident_bytes
from unslow.look.runtimes._gguf_process import absolute_path, find_servers, is_llama_server, takes_command
from unslow.look.system import LookError

STATUS = "Name:\tllama-server\nPid:\t42\nPPid:\t1\nVmRSS:\t 3248856 kB\nThreads:\t37\nCpus_allowed_list:\t0-3,8\n"


def machine(**files) -> FakeSystem:
    processes = {
        "/proc/1/comm": "systemd\n",
        "/proc/42/comm": "llama-server\n",
        "/proc/42/cmdline": "/bin/llama-server\0-m\0m.gguf\0-ngl\x0020\0",
        "/proc/42/environ": "HOME=/root\0LLAMA_ARG_CTX_SIZE=4096\0CUDA_VISIBLE_DEVICES=\0PASSWORD=x\0",
        "/proc/42/status": STATUS,
    }
    return FakeSystem(
        files=processes | files, folders={"/proc": ["1", "42", "43", "self"]}, links={"/proc/42/cwd": "/srv"}
    )


def pids(system: FakeSystem) -> list[int]:
    return [process.pid for process in find_servers(read_processes(system))]


def test_a_llama_server_process_gives_settings_and_relevant_variables():
    assert pids(machine()) == [42]
    found = read_process(machine(), 42)
    assert found.command().need() == ["/bin/llama-server", "-m", "m.gguf", "-ngl", "20"]
    assert found.environment().need() == {"LLAMA_ARG_CTX_SIZE": "4096", "CUDA_VISIBLE_DEVICES": ""}
    assert resident_bytes(found).need() == 3248856 * 1024
    assert found.folder().need() == "/srv"
    settings = parse_settings(found.command().need(), found.environment().need())
    assert (settings["gpu_layers"].value, settings["context"].value) == ("20", "4096")


def test_another_users_process_is_found_with_partial_facts():
    denied = LookError("permission denied", Absence.FAILED, "run as the user who owns it")
    hidden = machine(**{"/proc/42/environ": denied, "/proc/42/cmdline": denied, "/proc/42/status": denied})
    assert pids(hidden) == [42]
    found = read_process(hidden, 42)
    assert found.environment().absence is Absence.FAILED
    assert found.command().absence is Absence.FAILED
    assert isinstance(resident_bytes(found), Unknown)


def test_without_proc_listing_processes_is_a_look_error():
    with pytest.raises(LookError) as error:
        read_processes(FakeSystem())
    assert error.value.how_to_get


@pytest.mark.parametrize(
    ("parent", "command", "mine"),
    [
        ("ollama", "llama-server\0", False),
        ("ollama", "/usr/lib/ollama/llama-server\0", False),
        ("llama-swap", "/usr/lib/ollama/llama-server\0", True),
        ("bash", "/home/me/ollama/llama.cpp/llama-server\0--model\0/x/blobs/sha256-aa\0", True),
        ("LM Studio", "llama-server\0", False),
        ("llmster", "llama-server\0", False),
        ("systemd", "/home/me/.lmstudio/llama-server\0", False),
        ("llama-server", "llama-server\0", True),
        ("llama-swap", "llama-server\0", True),
        ("bash", "llama-server\0", True),
    ],
)
def test_llama_servers_of_other_runtimes_are_left_to_them(parent, command, mine):
    system = machine(**{"/proc/1/comm": parent, "/proc/1/cmdline": f"{parent}\0", "/proc/42/cmdline": command})
    assert pids(system) == ([42] if mine else [])


@pytest.mark.parametrize("command", ["/usr/lib/ollama/llama-server\0", "llama-server\0-m\0/x/blobs/sha256-aa\0"])
def test_ollamas_llama_server_binary_started_by_llama_swap_is_found(command):
    files = {
        "/proc/43/comm": "llama-swap\n",
        "/proc/42/cmdline": command,
        "/proc/42/status": STATUS.replace("PPid:\t1", "PPid:\t43"),
    }
    assert pids(machine(**files)) == [42]


def test_a_zombie_is_not_a_server():
    assert pids(machine(**{"/proc/42/cmdline": ""})) == []


@pytest.mark.parametrize(
    ("name", "command", "is_one"),
    [
        ("llama-server", [], True),
        ("llama-server-cu", [], True),
        ("llama", ["llama", "serve"], True),
        ("llama", ["llama", "server", "-m", "x.gguf"], True),
        ("llama", ["llama", "bench"], False),
        ("llama-bench", ["llama-bench"], False),
        ("server", ["./server", "-m", "x.gguf"], True),
        ("server", ["./server", "--port", "80"], False),
        ("servers", ["x", "-m", "x.gguf"], False),
    ],
)
def test_llama_server_processes_are_recognised_by_name_and_command(name, command, is_one):
    assert is_llama_server(name, command) is is_one


@pytest.mark.parametrize(
    "text", ["", "VmRSS:\t-3 kB\nThreads: many\nCpus_allowed_list:\t\n", "\0" * 50, "VmRSS:\t" + "9" * 40 + " kB"]
)
def test_a_malformed_status_gives_unknown_facts(text):
    assert all(isinstance(fact, Unknown) for fact in parse_status(text, "status").values())


def test_a_relative_model_path_needs_the_working_directory():
    assert absolute_path("m.gguf", reported_fact("/srv", "cwd")).need() == "/srv/m.gguf"
    assert absolute_path("/m.gguf", Unknown("denied")).need() == "/m.gguf"
    assert absolute_path("m.gguf", Unknown("denied")).absence is Absence.FAILED


@pytest.mark.parametrize(
    ("command", "mine"),
    [
        ("/opt/my-server -m /models/a.gguf -t 4", True),
        ("/opt/my-server --model a.gguf", True),
        ("/opt/my-server -m /models/b.gguf", False),
        ("/opt/my-server --weights a.gguf", False),
        ("/usr/bin/python3.11 serve.py --model /models/a.gguf", False),
        ("", False),
    ],
)
def test_flags_of_an_unknown_program_count_if_they_name_the_served_model(command, mine):
    assert takes_command(command.split(), Model(path=reported_fact("/models/a.gguf", "x"))) is mine
