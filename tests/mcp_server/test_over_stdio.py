"""The real command with a real client of the SDK: one session for all calls."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CallToolResult

import unslow
from unslow.mcp.server import listed_tools
from unslow.mcp.tools import Permissions, tools_for

ROOT = Path(__file__).parents[2]
UNSLOW = str(Path(sys.executable).with_name("unslow"))
SLOW = str(ROOT / "tests" / "machines" / "h200_llama_server_gpu_layers_set_too_low")
REPORT = str(ROOT / "docs" / "examples" / "report.txt")
CARD = {"model": "qwen3-8b", "quant": "Q4_K_M", "device": "RTX 3060"}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "diagnose": ("diagnose", {"target": SLOW}),
    "diagnose everything": ("diagnose", {"target": SLOW, "everything": True}),
    "triage": ("triage", {"text": "ollama ps says 48%/52% CPU/GPU for qwen3:32b, it is slow: 7 tokens/s"}),
    "triage file": ("triage", {"file": REPORT}),
    "fit": ("fit", {**CARD, "context": "16k"}),
    "predict": ("predict", {**CARD, "context": 8192, "prompt": "2048", "kv_type": None, "draft": None}),
    "plan": ("plan", {**CARD, "ram": "64GB"}),
    "devices": ("devices", {"names": ["RTX 3090", "RTX 4090"], "model": "qwen3-8b", "quant": "Q4_K_M"}),
    "choose": ("choose", {"model": "qwen3-8b", "goal": 20, "among": ["RTX 3090"], "price": ["RTX 3090=700"]}),
    "no users": ("choose", {"model": "qwen3-8b", "users": 0}),
    "explain": ("explain", {"cause": "cpu_contended"}),
    "explain all": ("explain", {}),
    "check": ("check", {"claim": "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s"}),
    "models": ("models", {"where": [str(ROOT / "tests" / "mcp_server")]}),
    "misspelled": ("fit", {**CARD, "contxt": 8192}),
    "wrong type": ("fit", {"model": 5, "context": {}}),
    "impossible": ("plan", {**CARD, "goal": "context"}),
    "unknown model": ("predict", {"model": "nobody-made-this-9000b"}),
    "two texts": ("triage", {"text": "a", "file": REPORT}),
    "elsewhere": ("diagnose", {"target": "http://192.0.2.1:8080"}),
    "measuring": ("diagnose", {"measure": True}),
    "standard input": ("fit", {"model": "-"}),
}
REFUSED = ("apply", "undo", "format_disk")


class Session(NamedTuple):
    tools: dict[str, Any]
    answers: dict[str, CallToolResult]
    refused: dict[str, str]
    progress: list[tuple[float, str]]
    instructions: str


async def _asked() -> Session:
    server = StdioServerParameters(command=UNSLOW, args=["mcp", "--passive"], cwd=str(ROOT))
    progress: list[tuple[float, str]] = []

    async def told(share: float, _total: float | None, text: str | None) -> None:
        progress.append((share, text or ""))

    async with Client(server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        answers = {name: await client.call_tool(*call, progress_callback=told) for name, call in CALLS.items()}
        refused = {name: await _refusal(client, name) for name in REFUSED}
        return Session(tools, answers, refused, progress, client.instructions or "")


async def _refusal(client: Client, name: str) -> str:
    try:
        await client.call_tool(name, {})
    except MCPError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def session() -> Session:
    return anyio.run(_asked)


def text(answer: CallToolResult) -> str:
    return answer.content[0].text


def test_every_tool_is_read_only_and_described(session):
    assert set(session.tools) == {name for name, _ in CALLS.values()}
    assert {"diagnose", "triage", "fit", "predict", "plan", "explain", "choose"} < set(session.tools)
    for tool in session.tools.values():
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.input_schema["additionalProperties"] is False
        assert all(one["description"] for one in tool.input_schema["properties"].values()), tool.name
        assert tool.output_schema is None, "the schemas of all reports are long, and no agent needs them"
        assert len(tool.description) > 60
    assert "diagnose" in session.instructions


def test_tool_list_stays_under_15000_characters(session):
    read = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in session.tools.values()]
    changing = [listed_tools(tool) for tool in tools_for(Permissions(apply=True)).values() if tool.changes]
    every = [*read, *(tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in changing)]
    assert len(json.dumps({"tools": every}, separators=(",", ":"))) < 15_000  # an agent reads it in every conversation


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("diagnose", "13 of 33"),
        ("triage", "52%"),
        ("triage file", "qwen3:32b"),
        ("fit", "FITS"),
        ("predict", "tok/s"),
        ("plan", "Qwen3-8B"),
        ("devices", "RTX 4090"),
        ("choose", "RTX 3090"),
        ("explain", "Other programs take the CPU"),
        ("explain all", "weights_spill_to_ram: "),
        ("check", "IMPOSSIBLE"),
        ("models", "model"),
    ],
)
def test_every_tool_returns_text_and_structured_content(session, name, says):
    answer = session.answers[name]
    assert not answer.is_error
    assert says in " ".join(text(answer).split())
    assert isinstance(answer.structured_content, dict)


def test_predict_tool_returns_the_same_json_as_the_python_api(session):
    report = unslow.predict("qwen3-8b", quant="Q4_K_M", device="RTX 3060", context=8192, prompt=2048)
    assert session.answers["predict"].structured_content == json.loads(unslow.to_json(report))


def test_ruled_out_causes_are_returned_only_with_everything(session):
    short, whole = (
        session.answers[name].structured_content["subjects"][0] for name in ("diagnose", "diagnose everything")
    )
    assert not short["ruled_out"]
    assert len(whole["ruled_out"]) > 20
    assert short["findings"] == whole["findings"]


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        ("misspelled", ("contxt", "context?")),
        ("wrong type", "--context"),
        ("impossible", "--least-speed"),
        ("unknown model", "nobody-made-this-9000b"),
        ("no users", ("--users", "1", "4,096", "0")),
        ("two texts", "triage"),
        ("elsewhere", ("192.0.2.1", "--allow-host 192.0.2.1")),
        ("measuring", "measure=false"),
        ("standard input", "model"),
    ],
)
def test_invalid_arguments_are_errors_with_a_hint(session, name, tells, wording):
    answer = session.answers[name]
    assert answer.is_error
    wording(text(answer), tells=tells)


def test_changing_tools_are_refused_without_allow_apply(session, wording):
    for name in ("apply", "undo"):
        wording(session.refused[name], tells=(name, "--allow-apply"))
    wording(session.refused["format_disk"], tells="'format_disk'")


def test_progress_messages_name_what_is_being_read(session, wording):
    said = [words for _, words in session.progress]
    wording([words for words in said if "report.txt" in words or "qwen3-8b" in words])
