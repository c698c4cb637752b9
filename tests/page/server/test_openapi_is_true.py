"""The OpenAPI document is valid, and every endpoint answers as documented."""

import json
import re
from urllib.parse import urlencode

import pytest

from unslow.page.server.application import openapi

jsonschema = pytest.importorskip("jsonschema")
DOCUMENT = json.loads(openapi())
FILLED = {"number": "0", "name": "memory.html", "cause": "cpu_contended", "run": "none"}
"""Parts of paths; a run there is none of, so those are answered with an error that is described too."""
EXAMPLES = {"model": "qwen3-8b", "device": "RTX 4090", "budget": "2000"}
MORE = {
    "/cost": {"tokens_per_day": "1000000", "device": "RTX 4090"},
    "/plan": {"model": "qwen3-8b", "device": "RTX 4090"},
    "/tiers": {"memory": "8", "unified": "64"},
}
"""Of several parameters one is needed; or the question would be of whatever runs here."""
SLOW_TO_ANSWER = ("/plan", "/choose", "/models", "/tiers")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def operations():
    for path, item in DOCUMENT["paths"].items():
        assert set(item) <= {*METHODS, "summary", "description", "parameters"}
        yield from ((path, method, item[method]) for method in METHODS if method in item)


def resolved(node):
    while "$ref" in node:
        place = DOCUMENT
        for step in node["$ref"].removeprefix("#/").split("/"):
            place = place[step.replace("~1", "/").replace("~0", "~")]
        node = place
    return node


def every_schema(node=DOCUMENT):
    """Whatever stands under `schema` or among the components."""
    if isinstance(node, dict):
        yield from (node[key] for key in ("schema",) if isinstance(node.get(key), dict))
        for value in node.values():
            yield from every_schema(value)
    elif isinstance(node, list):
        for value in node:
            yield from every_schema(value)


def test_document_has_the_form_of_openapi_3_1():
    assert re.fullmatch(r"3\.1\.\d+", DOCUMENT["openapi"])
    assert {"title", "version"} <= set(DOCUMENT["info"])
    assert DOCUMENT["components"]["securitySchemes"].keys() >= DOCUMENT["security"][0].keys()
    for path, method, one in operations():
        named = [(p["in"], p["name"]) for p in one.get("parameters", ())]
        assert len(named) == len(set(named)), path
        assert all(p["required"] is True for p in one.get("parameters", ()) if p["in"] == "path")
        assert all(len({"schema", "content"} & set(p)) == 1 for p in one.get("parameters", ()))
        assert all(re.fullmatch(r"[1-5](\d\d|XX)|default", code) for code in one["responses"])
        assert all(response["description"] for response in one["responses"].values())
        assert ("requestBody" in one) == (method == "post")


@pytest.mark.real
def test_every_schema_is_valid_and_every_reference_resolves():
    schemas = [*every_schema(DOCUMENT["paths"]), *DOCUMENT["components"]["schemas"].values()]
    assert len(schemas) > 50
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in set(re.findall(r'"\$ref": ?"([^"]+)"', openapi())):
        assert resolved({"$ref": reference})


def asked(path, one):
    path = path.removeprefix("/api/v1")
    needed = [p["name"] for p in one.get("parameters", ()) if p["in"] == "query" and p.get("required")]
    query = {name: EXAMPLES[name] for name in needed} | MORE.get(path.removesuffix(".html"), {})
    return re.sub(r"{(\w+)}", lambda mark: FILLED[mark[1]], path) + ("?" + urlencode(query) if query else "")


QUICK = [
    (path, one) for path, method, one in operations()
    if method == "get" and not path.removesuffix(".html").endswith(SLOW_TO_ANSWER)
]  # fmt: skip
LONG = [
    (path, one) for path, method, one in operations()
    if method == "get" and path.removesuffix(".html").endswith(SLOW_TO_ANSWER)
]  # fmt: skip


def check(page, path, one):
    said = page.get(asked(path, one))
    described = one["responses"].get(str(said.status), one["responses"]["default"])
    (media,) = described["content"]
    assert said.headers["content-type"].partition(";")[0] == media
    assert said.status == (404 if "{run}" in path else 200), said.text[:300]
    if media == "application/json":
        schema = {**described["content"][media]["schema"], "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(said.json)


@pytest.mark.parametrize(("path", "one"), QUICK, ids=[path for path, _ in QUICK])
def test_endpoint_answers_match_their_schema(page, path, one):
    check(page, path, one)


@pytest.mark.real
@pytest.mark.parametrize(("path", "one"), LONG, ids=[path for path, _ in LONG])
def test_slow_endpoint_answers_match_their_schema(page, path, one):
    check(page, path, one)


@pytest.mark.parametrize("path", sorted({path for path, method, _ in operations() if method == "get"}))
def test_undocumented_parameter_is_rejected(page, path):
    filled = re.sub(r"{(\w+)}", lambda mark: FILLED[mark[1]], path.removeprefix("/api/v1"))
    said = page.get(f"{filled}?no_such_parameter=1")
    assert said.status == 400
    jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/Failed", "components": DOCUMENT["components"]}
    ).validate(said.json)
