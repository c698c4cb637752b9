"""Listening ports on each operating system."""

import pytest
from doubles import FakeSystem

from unslow.look.processes import Listener, find_listening_pid, read_listeners
from unslow.look.system import FinishedCommand

MAC = """Active Internet connections (including servers)
Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)
tcp4       0      0  127.0.0.1.11434        *.*                    LISTEN
tcp46      0      0  *.8080                 *.*                    LISTEN
tcp6       0      0  ::1.1234               *.*                    LISTEN
tcp4       0      0  192.168.1.7.5000       *.*                    LISTEN
tcp4       0      0  127.0.0.1.49152        127.0.0.1.11434        ESTABLISHED
udp4       0      0  *.5353                 *.*
"""
WINDOWS = """
Aktive Verbindungen

  Proto  Lokale Adresse         Remoteadresse          Status
  TCP    0.0.0.0:135            0.0.0.0:0              ABHÖREN
  TCP    127.0.0.1:11434        0.0.0.0:0              ABHÖREN
  TCP    127.0.0.1:50000        127.0.0.1:11434        HERGESTELLT
  TCP    [::1]:1234             [::]:0                 ABHÖREN
  UDP    0.0.0.0:5353           *:*
"""
COMMANDS = {"darwin": ("netstat -an -p tcp", MAC), "win32": ("netstat -an", WINDOWS)}


def machine(platform: str, **more) -> FakeSystem:
    command, text = COMMANDS[platform]
    return FakeSystem(asks={"sys.platform": platform}, commands={command: FinishedCommand(0, text, "")}, **more)


@pytest.mark.parametrize(("platform", "ports"), [("darwin", [1234, 8080, 11434]), ("win32", [135, 1234, 11434])])
def test_systems_without_proc_use_netstat(platform: str, ports: list[int]):
    assert [listener.port for listener in read_listeners(machine(platform))] == ports


def test_proc_net_tcp_wins_over_netstat():
    table = "  sl  local_address\n   0: 0100007F:2CAA 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n"
    system = machine("darwin", files={"/proc/net/tcp": table})
    assert read_listeners(system) == (Listener(11434, "777"),)


@pytest.mark.parametrize("asks", [{}, {"sys.platform": "linux"}])
def test_a_linux_without_socket_tables_has_no_listeners(asks: dict[str, str]):
    assert read_listeners(FakeSystem(asks=asks)) == ()


def test_text_that_is_not_netstat_has_no_rows():
    system = machine("darwin")
    system.commands["netstat -an -p tcp"] = FinishedCommand(0, "tcp\n" * 50 + "x" * 10**5, "")
    assert read_listeners(system) == ()


LISTENS = "  sl  local_address\n   0: 0100007F:1F9C 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n"  # 127.0.0.1:8092


def serving(maps: dict[int, str], holders: dict[int, str], parents: dict[int, int]) -> FakeSystem:
    """Processes by the files that they map, the sockets that they hold, and who started them."""
    pids = sorted({1, *maps, *holders, *parents})
    files = {"/proc/net/tcp": LISTENS}
    for pid in pids:
        files[f"/proc/{pid}/comm"] = "python3\n"
        files[f"/proc/{pid}/status"] = f"PPid:\t{parents.get(pid, 1 if pid > 1 else 0)}\n"
        files[f"/proc/{pid}/maps"] = f"7f00-7f01 r-xp 00000000 08:01 7 {maps.get(pid, '/usr/bin/nginx')}\n"
    return FakeSystem(
        files=files,
        folders={"/proc": [str(pid) for pid in pids]} | {f"/proc/{pid}/fd": ["0", "5"] for pid in pids},
        links={f"/proc/{pid}/fd/5": f"socket:[{inode}]" for pid, inode in holders.items()},
    )


@pytest.mark.parametrize(
    ("maps", "holders", "parents", "found"),
    [
        ({20: "/venv/xllamacpp/xllamacpp.so"}, {20: "777", 21: "778"}, {}, 20),
        ({20: "/venv/torch/lib/libtorch_cpu.so"}, {20: "777", 30: "777"}, {30: 20}, 20),  # a worker inherits it
        ({30: "/opt/lib/libggml-base.so"}, {20: "777"}, {30: 20}, 20),  # a launcher whose child computes
        ({20: "/usr/bin/docker-proxy", 30: "/app/libllama.so"}, {20: "777"}, {}, None),  # in another container
        ({20: "/home/me/llama/proxy/nginx"}, {20: "777"}, {}, None),  # a folder is not what is in it
        ({20: "/app/libllama.so"}, {20: "778"}, {}, None),  # at another port
    ],
)
def test_the_process_behind_a_port_is_found_if_it_maps_an_inference_library(maps, holders, parents, found):
    assert find_listening_pid(serving(maps, holders, parents), 8092) == found


def test_unreadable_file_descriptors_are_not_an_error():
    system = serving({20: "/app/libllama.so"}, {20: "777"}, {})
    del system.folders["/proc/20/fd"]
    assert find_listening_pid(system, 8092) is None
