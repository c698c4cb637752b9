"""An agent changes the start script of a real llama-server and undoes the change."""

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from plans import option, plan, written
from real_llama_server import NEEDED, SERVER, _wait_for

pytestmark = [
    *NEEDED,
    pytest.mark.skipif("UNSLOW_LLAMA_MODEL" not in os.environ, reason="UNSLOW_LLAMA_MODEL names no model"),
]


def text(script: Path) -> str:
    return script.read_text("utf-8")


async def _changed(url: str, script: Path) -> list[Any]:
    state = {"XDG_STATE_HOME": str(script.parent / "state")}
    unslow = str(Path(sys.executable).with_name("unslow"))
    server = StdioServerParameters(command=unslow, args=["mcp", "--allow-apply"], env=state)
    seen: list[Any] = []
    async with Client(server) as client:
        model = (await client.call_tool("plan", {"model": url})).structured_content["model"]
        wanted = plan("llama.cpp", model, option("short", context_length=1024))
        asked = {"plan": written(script.parent, wanted), "target": url, "file": str(script)}
        for tool, arguments in (("apply", asked), ("undo", {})):
            shown = (await client.call_tool(tool, arguments)).structured_content
            seen.append((shown["outcome"], text(script)))
            done = await client.call_tool(tool, {**arguments, "confirm": shown["confirm"]})
            seen.append((done.structured_content["outcome"], text(script)))
    return seen


def test_start_script_is_changed_and_restored_byte_for_byte(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = [SERVER, "-m", os.environ["UNSLOW_LLAMA_MODEL"], "--port", str(port), "-t", "1", "-c", "4096"]
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/sh\n{shlex.join(words)}\n", "utf-8")
    before = text(script)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}")
            seen = anyio.run(_changed, f"http://127.0.0.1:{port}", script)
        finally:
            server.kill()
    assert [outcome for outcome, _ in seen] == ["would_change", "changed", "would_undo", "undone"]
    assert seen[0][1] == before
    assert "-c 1024" in seen[1][1]
    assert seen[2][1] == seen[1][1]
    assert seen[3][1] == before
