import pytest
from doubles import FakeSystem

from unslow.facts.values import Origin, failed_fact, reported_fact
from unslow.look.processes import read_processes
from unslow.look.runtimes.ollama import children_of, find, parse_host, url_of

BLOB = "/usr/share/ollama/.ollama/models/blobs/sha256-ab"


def machine(*processes: tuple[int, int, str, str]) -> FakeSystem:
    """Processes as (pid, parent, name, command)."""
    system = FakeSystem(folders={"/proc": [str(pid) for pid, *_ in processes]})
    for pid, parent, name, command in processes:
        system.files[f"/proc/{pid}/comm"] = f"{name}\n"
        system.files[f"/proc/{pid}/status"] = f"Name:\t{name}\nPPid:\t{parent}\n"
        system.files[f"/proc/{pid}/cmdline"] = command.replace(" ", "\0") + "\0"
    return system


EVERYTHING = (
    (10, 1, "ollama", "/usr/local/bin/ollama serve"),
    (11, 10, "llama-server", f"/usr/lib/ollama/llama-server --model {BLOB} --port 44067 -c 4096"),
    (12, 10, "ollama", f"/usr/local/bin/ollama runner --model {BLOB}cd --ctx-size 2048 --port 44068"),
    (13, 10, "ollama", "/usr/local/bin/ollama runner --mlx-engine --model qwen3:8b --port 44069"),
    (14, 10, "ollama", "/usr/local/bin/ollama runner --ollama-engine --port 44070"),
    (15, 10, "ollama_llama_se", f"/tmp/ollama1/runners/cuda_v11/ollama_llama_server --model {BLOB}ef --port 44071"),
    (20, 1, "ollama", "ollama run llama3.2"),
    (21, 1, "llama-server", "llama-server -m other.gguf"),
)


def test_the_ollama_server_is_found_without_its_clients_and_children():
    assert [process.pid for process in find(read_processes(machine(*EVERYTHING)))] == [10]


def test_each_kind_of_ollama_child_is_recognised_by_its_model():
    (server,) = find(read_processes(machine(*EVERYTHING)))
    children = [(c.process.pid, c.kind, c.model, c.port) for c in children_of(server)]
    assert children == [
        (11, "llama-server", BLOB, "44067"),
        (12, "runner", f"{BLOB}cd", "44068"),
        (13, "mlx", "qwen3:8b", "44069"),
        (15, "runner", f"{BLOB}ef", "44071"),
    ]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("box", "http://box:11434"),
        ("box:1234", "http://box:1234"),
        ("[::]:11434", "http://127.0.0.1:11434"),
        ("[::1]:11434", "http://[::1]:11434"),
        ("http://box", "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("https://box:8443", "https://box:8443"),
    ],
)
def test_ollama_host_is_parsed_in_every_spelling(text: str, url: str):
    assert parse_host(text) == url


def test_without_ollama_host_the_default_url_is_an_estimate():
    assert url_of(failed_fact("unreadable")).need() == "http://127.0.0.1:11434"
    assert url_of(failed_fact("unreadable")).origin is Origin.ESTIMATED
    told = url_of(reported_fact({"OLLAMA_HOST": "0.0.0.0:1"}, "/proc/1/environ"))
    assert (told.need(), told.source) == ("http://127.0.0.1:1", "/proc/1/environ: OLLAMA_HOST")
