"""The JSON API of a real server on a recorded machine."""

import json
import re

import msgspec
import pytest
from lab.replay import serve
from page_server import SLOW, serving

from unslow.commands.diagnose.target import read_stored
from unslow.facts.snapshot import parse_snapshot
from unslow.look.system.live import LiveSystem


def test_view_and_report_are_of_the_target(page):
    view = page.get("/view").json
    assert view["schema"] == "unslow.view/1"
    assert page.get("/report").json == view["report"]
    (subject,) = view["report"]["subjects"]
    assert subject["verdict"] == "slow"
    assert subject["findings"][0]["cause"] == "gpu_layers_set_too_low"
    assert view["subjects"][0]["memory"]["sliders"]


def test_snapshot_is_masked_and_loadable(page):
    data = page.get("/snapshot").body
    assert parse_snapshot(data, "served").subjects == parse_snapshot(data, "again").subjects
    assert len(parse_snapshot(data, "served").subjects) == len(read_stored(SLOW).subjects)
    assert b"/root/" not in data
    assert b"/home/" not in data


def test_what_if_is_answered_as_json_and_html(page):
    now = page.get("/subjects/0/what-if").json
    more = page.get("/subjects/0/what-if?gpu_layers=33").json
    assert (now["settings"]["gpu_layers"], more["settings"]["gpu_layers"]) == ("20", "33")
    assert more["decode_tokens_per_s"]["mid"] > 2 * now["decode_tokens_per_s"]["mid"]
    html = page.get("/subjects/0/what-if.html?gpu_layers=33")
    assert html.headers["content-type"].startswith("text/html")
    assert "<figure" in html.text
    assert "<script" not in html.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/subjects/0/what-if?gpu_layers=999", 400),
        ("/subjects/0/what-if?colour=red", 400),
        ("/subjects/7/what-if", 404),
        ("/subjects/7/panels/memory.html", 404),
        ("/subjects/0/panels/nothing.html", 404),
        ("/subjects/x/what-if", 404),
        ("/runs/nothing", 404),
        ("/runs/nothing/events", 404),
        ("/explain/no_such_cause", 400),
        ("/fit", 400),
        ("/fit?model=no-such-model", 400),
        ("/fit?model=https://example.org/model.gguf", 400),
        ("/predict?model=qwen3-8b&device=Nothing+9000", 400),
        ("/nothing", 404),
    ],
)
def test_error_response_has_a_message_and_a_hint(page, path, status):
    said = page.get(path)
    assert said.status == status
    assert said.json["error"]["message"]
    assert said.json["error"]["hint"]


def test_every_panel_has_an_endpoint(page):
    from unslow.page.html.document import PANEL_NAMES

    whole = page.open().text
    for name in PANEL_NAMES:
        said = page.get(f"/subjects/0/panels/{name}.html")
        assert said.status == 200
        assert f'id="{name}-0"' in said.text
        assert f'id="{name}-0"' in whole


def test_api_answers_equal_those_of_the_command_line(page):
    from unslow.commands.fit import FitRequest, fit_model

    flags = {"model": "qwen3-8b", "quant": "Q6_K", "devices": ["RTX 4090"], "context": "32k", "kv_type": "q8_0"}
    said = page.get("/fit?model=qwen3-8b&quant=Q6_K&device=RTX+4090&context=32k&kv_type=q8_0").json
    assert said["schema"] == "unslow.fit/1"
    assert said == json.loads(msgspec.json.encode(fit_model(LiveSystem(), FitRequest.from_flags(flags))))
    speed = page.get("/predict?model=qwen3-8b&device=RTX+4090&explain=true").json
    assert speed["decode"]["tokens_per_s"]["low"] < speed["decode"]["tokens_per_s"]["high"]
    assert speed["explain"]


def test_causes_endpoint_returns_their_documentation(page):
    causes = {one["id"] for one in page.get("/causes").json}
    assert {"weights_spill_to_ram", "cpu_contended"} <= causes
    assert "CPU" in page.get("/explain/cpu-contended").json["text"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("devices{}?device=RTX+3090,RTX+4090&model=qwen3-8b&price=RTX+3090%3D700", "RTX 3090"),
        ("cost{}?model=qwen3-8b&device=RTX+4090&tokens_per_day=1000000&rent=RTX+4090%3D0.4/h", "RTX 4090"),
    ],
)
def test_buyer_answers_are_the_same_as_json_and_html(page, query, words):
    said = page.get(f"/{query.format('')}").json
    assert said["schema"].startswith("unslow.")
    html = page.get(f"/{query.format('.html')}")
    assert words in html.text
    assert "<table" in html.text


def test_stored_target_offers_no_runs(page):
    assert page.get("/offers").json == []
    said = page.send("POST", "/runs", {"kind": "diagnose"})
    assert said.status == 400
    assert page.send("POST", "/runs", {"kind": "apply"}).status == 400
    assert page.send("POST", "/runs", {"kind": "diagnose", "command": "rm"}).status == 400
    assert page.get("/runs").json == []


def test_missing_target_is_shown_on_the_page_and_found_after_a_reload(wording):
    with serve("vllm") as url:
        port = int(url.rpartition(":")[2])
    with serving(url) as page:
        assert page.get("/view").status == 400
        said = page.open()
        assert said.status == 200
        wording(re.search(r"<title>(.*?)</title>", said.text)[1])
        wording(re.search(r'role="alert">.*?</p><p>(.*?)</p>', said.text)[1])
        with serve("vllm", port=port):
            page.open()
            assert page.get("/view").json["report"]["subjects"][0]["runtime"].startswith("vLLM")


def test_buyer_page_has_a_form_per_question(page):
    said = page.open("&view=buy").text
    assert [name for name in ("choose", "devices", "cost", "tiers") if f'data-ask="{name}.html"' in said] == [
        "choose",
        "devices",
        "cost",
        "tiers",
    ]
    assert json.dumps(page.own.token) not in said.replace(f'content="{page.own.token}"', "").replace("token=", "")
