"""The OpenAPI document matches the server."""

import json
import re

import pytest

from unslow.page.server.application import ALL_ENDPOINTS, openapi


@pytest.fixture(scope="module")
def described():
    return json.loads(openapi())


def test_every_schema_reference_resolves(described):
    text = openapi()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names
    assert names <= set(described["components"]["schemas"])


def test_every_endpoint_is_listed_once_with_a_unique_id(described):
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == len(ALL_ENDPOINTS)
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert all(path.startswith("/api/v1/") and ":" not in path for path in described["paths"])


def test_path_placeholders_are_parameters(described):
    for path, operations in described["paths"].items():
        for one in operations.values():
            named = {p["name"] for p in one.get("parameters", ()) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def test_schema_names_are_allowed_by_openapi(described):
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]+", name) for name in described["components"]["schemas"])


def test_server_returns_the_same_document(page, described):
    assert page.get("/openapi.json").json == described


@pytest.mark.parametrize(
    "path", ["/view", "/report", "/offers", "/runs", "/explain/cpu_contended", "/fit?model=qwen3-8b&device=RTX+4090"]
)
def test_answers_match_their_documented_schema(page, described, path):
    jsonschema = pytest.importorskip("jsonschema")
    route = re.sub(r"/explain/.*", "/explain/{cause}", path.partition("?")[0])
    answer = described["paths"][f"/api/v1{route}"]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**answer["schema"], "components": described["components"]}
    said = page.get(path)
    assert said.status == 200
    jsonschema.Draft202012Validator(schema).validate(said.json)
