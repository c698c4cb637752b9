"""An agent measures a real llama-server, and cancels a measurement."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from real_llama_server import NEEDED, served

pytestmark = [
    *NEEDED,
    pytest.mark.skipif("UNSLOW_LLAMA_MODEL" not in os.environ, reason="UNSLOW_LLAMA_MODEL names no model"),
]
SERVER = StdioServerParameters(command=str(Path(sys.executable).with_name("unslow")), args=["mcp"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_diagnose_measures_a_server_and_a_cancelled_call_stops_its_requests(mode):
    async def asked(url: str) -> tuple[Any, list[str], float, str]:
        said: list[str] = []

        async def told(_share: float, _total: float | None, text: str | None) -> None:
            said.append(text or "")

        async with Client(SERVER, mode=mode) as client:
            passive = await client.call_tool("diagnose", {"target": url, "seconds": 5})
            assert "decode_tokens_per_s" not in passive.structured_content["subjects"][0]["measured"]
            arguments = {"target": url, "measure": True, "seconds": 10}
            report = await client.call_tool("diagnose", arguments, progress_callback=told)
            with anyio.move_on_after(3):
                await client.call_tool("diagnose", {**arguments, "seconds": 60})
            start = time.monotonic()
            after = await client.call_tool("explain", {"cause": "cpu_contended"})
            return report, said, time.monotonic() - start, after.content[0].text

    with served(os.environ["UNSLOW_LLAMA_MODEL"]) as (target, _):
        report, said, waited_s, text = anyio.run(asked, target.url)
    assert not report.is_error
    assert report.structured_content["subjects"][0]["measured"]["decode_tokens_per_s"] > 0
    assert any("sending prompts" in line for line in said)
    assert waited_s < 20
    assert "Other programs take the CPU" in text
