"""Changes that agents ask for: previewed first, applied exactly as previewed, and undone."""

from pathlib import Path

import msgspec
import pytest
from lab.replay import serve
from plans import option, plan, written

from unslow.commands._output import Silent
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.mcp.tools import MOST, Answer, Permissions, Plans, Tool, changing_tools, tools_for

PLAN = plan("ollama", "qwen3:8b", option("short and mapped", context_length=8192, load_mode="none"))


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def names(url: str) -> list[str]:
    return [model["name"] for model in LiveSystem().request("GET", f"{url}/api/tags").json()["models"]]


def asked(tool: Tool, **arguments: object) -> Answer:
    return tool.answer(tool.read_request(arguments), Silent())


def test_apply_and_undo_tools_exist_only_with_allow_apply():
    assert not {"apply", "undo"} & tools_for(Permissions()).keys()
    assert {name for name, tool in tools_for(Permissions(apply=True)).items() if tool.changes} == {"apply", "undo"}


def test_change_is_previewed_confirmed_applied_and_undone(tmp_path, wording):
    tools = tools_for(Permissions(apply=True))
    with serve("ollama") as url:
        arguments = {"plan": written(tmp_path, PLAN), "target": url}
        shown = asked(tools["apply"], **arguments)
        code = shown.extra["confirm"]
        assert shown.fields()["outcome"] == "would_change"
        assert f'confirm="{code}"' in shown.text
        assert names(url) == ["qwen3:8b"]
        with pytest.raises(UserError) as refused:
            asked(tools["apply"], **arguments, name="another-name", confirm=code)
        wording(refused.value.message, refused.value.hint, tells="`confirm`")
        assert names(url) == ["qwen3:8b"]
        made = asked(tools["apply"], **arguments, confirm=code)
        assert made.fields()["outcome"] == "changed"
        assert names(url) == ["qwen3:8b", "qwen3:8b-unslow"]
        change = made.fields()["change"]
        assert change in asked(tools["undo"], list_only=True).text
        back = asked(tools["undo"])
        assert back.fields()["outcome"] == "would_undo"
        with pytest.raises(UserError) as refused:
            asked(tools["undo"], confirm=code)
        wording(refused.value.message, refused.value.hint, tells="`confirm`")
        assert asked(tools["undo"], confirm=back.extra["confirm"]).fields()["outcome"] == "undone"
        assert names(url) == ["qwen3:8b"]
        assert asked(tools["undo"]).fields()["outcome"] == "nothing"


def test_plan_for_a_server_that_is_not_running_prints_commands_without_confirm_code(tmp_path):
    tools = tools_for(Permissions(apply=True))
    nowhere = plan("vllm", "no-such-model", option("short", context_length=8192))
    answer = asked(tools["apply"], plan=written(tmp_path, nowhere))
    assert answer.fields()["outcome"] == "printed"
    assert not answer.extra


def test_apply_to_another_host_is_refused_without_allow_host(wording):
    tools = tools_for(Permissions(apply=True))
    with pytest.raises(UserError) as refused:
        asked(tools["apply"], target="http://192.0.2.1:11434")
    wording(refused.value.message, refused.value.hint, tells=("192.0.2.1", "--allow-host 192.0.2.1"))


def test_plan_gets_a_plan_id_that_apply_accepts():
    plans, made = Plans(), Answer(PLAN, "the plan")
    planning = plans.keeping(tools_for(Permissions())["plan"]._replace(answer=lambda *_: made))
    (applying, _) = changing_tools(Permissions(apply=True), plans)
    answer = asked(planning)
    assert answer.extra == {"plan_id": "plan-1"}
    assert "plan_id: plan-1" in answer.text
    with serve("ollama") as url:
        assert asked(applying, plan="plan-1", target=url).fields()["model"] == "qwen3:8b"


def test_plan_without_options_gets_no_plan_id():
    nothing = Answer(msgspec.structs.replace(PLAN, options=(), recommended=None), "no plan")
    planning = Plans().keeping(tools_for(Permissions())["plan"]._replace(answer=lambda *_: nothing))
    assert asked(planning) == nothing


def test_oldest_plan_ids_expire(wording):
    plans = Plans()
    ids = [plans.keep(PLAN) for _ in range(MOST + 1)]
    assert plans.find(ids[-1]) is PLAN
    assert plans.find(ids[0]) is None
    assert plans.find(None) is None
    with pytest.raises(UserError) as refused:
        plans.find("-")
    wording(refused.value.message, refused.value.hint, tells="plan_id")
