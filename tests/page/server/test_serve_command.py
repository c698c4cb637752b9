"""The command itself: what it prints, where it listens, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from page_server import SLOW

from unslow.__main__ import main
from unslow.page.server.guard import ServerIdentity
from unslow.page.server.serve import address_words


def test_serve_prints_a_working_address_and_ends_with_ctrl_c():
    command = [sys.executable, "-m", "unslow", "serve", SLOW, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        told = json.loads(process.stdout.readline())
        assert told["schema"] == "unslow.serve/1"
        assert told["url"] == f"http://127.0.0.1:{told['port']}/?token={told['token']}"
        assert len(told["token"]) >= 43  # 32 random bytes
        with urllib.request.urlopen(told["url"], timeout=20) as answer:
            assert answer.status == 200
        assert listens_on(told["port"]) == {"0100007F"}  # 127.0.0.1 as the kernel writes it
    finally:
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=20)
    assert (process.returncode, said, complained) == (0, "", "")


def listens_on(port):
    """Local addresses in the state LISTEN with this port."""
    found = set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}") as table:
            rows = [line.split() for line in table][1:]
        found |= {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
    return found


def failed(capsys, *words):
    status = main(["serve", *words])
    return status, capsys.readouterr().err


def test_bad_serve_options_fail_before_serving(capsys, tmp_path, wording):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, said = failed(capsys, "--port", port)
    assert status == 2
    wording(said.replace(port, "PORT"), tells="--port")
    assert failed(capsys, "--port", "70000")[0] == 2
    assert failed(capsys, SLOW, "--measure")[0] == 2
    assert failed(capsys, "--passive", "--measure")[0] == 2
    wording(failed(capsys, "--bench", str(tmp_path / "none.json"))[1], tells="none.json")
    other = tmp_path / "other.json"
    other.write_text('{"schema": "unslow.fit/1"}')
    wording(failed(capsys, "--verify", str(other))[1], tells="unslow verify")


@pytest.mark.parametrize(("ssh", "tunnel"), [("192.0.2.7 50000 192.0.2.9 22", True), ("", False)])
def test_serve_over_ssh_prints_the_tunnel_command(monkeypatch, ssh, tunnel):
    monkeypatch.setenv("SSH_CONNECTION", ssh)
    monkeypatch.delenv("SSH_TTY", raising=False)
    said = address_words(ServerIdentity(4711, "secret"))
    assert "http://127.0.0.1:4711/?token=secret" in said
    assert ("ssh -N -L 4711:127.0.0.1:4711" in said) == tunnel


@pytest.mark.real
def test_browser_is_opened_with_a_ticket_not_the_token(tmp_path):
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho "$1" > {asked}.part && mv {asked}.part {asked}\n')
    browser.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
    command = [sys.executable, "-m", "unslow", "serve", SLOW]
    environment = {**plain, "DISPLAY": ":0", "BROWSER": f"{browser} %s"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        address = process.stdout.readline().split()[-1]
        deadline = time.monotonic() + 20
        while not asked.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        opened = asked.read_text().strip()
        assert "ticket=" in opened
        assert address.partition("token=")[2] not in opened
        with urllib.request.urlopen(opened, timeout=20) as answer:
            assert answer.url == address
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(opened, timeout=20)
        refused.value.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0
