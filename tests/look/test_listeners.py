"""Ports that are listened on, as each system tells it."""

import pytest
from doubles import FakeSystem

from unslow.look.listeners import Listener, parse_netstat, read_listeners
from unslow.look.system import Finished

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
    return FakeSystem(asks={"sys.platform": platform}, commands={command: Finished(0, text, "")}, **more)


@pytest.mark.parametrize(("platform", "ports"), [("darwin", [1234, 8080, 11434]), ("win32", [135, 1234, 11434])])
def test_systems_without_proc_are_asked_by_netstat(platform: str, ports: list[int]):
    assert [listener.port for listener in read_listeners(machine(platform))] == ports


def test_where_proc_tells_nobody_else_is_asked():
    table = "  sl  local_address\n   0: 0100007F:2CAA 00000000:0000 0A 0:0 0:0 0 0 0 777 1\n"
    system = machine("darwin", files={"/proc/net/tcp": table})
    assert read_listeners(system) == (Listener(11434, "777"),)


@pytest.mark.parametrize("asks", [{}, {"sys.platform": "linux"}])
def test_a_linux_that_hides_its_tables_is_left_alone(asks: dict[str, str]):
    assert read_listeners(FakeSystem(asks=asks)) == ()


def test_what_is_no_table_has_no_rows():
    assert parse_netstat("tcp\n" * 50 + "x" * 10**5) == []
