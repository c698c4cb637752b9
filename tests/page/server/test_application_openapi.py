"""The description of the API fits what the server really does."""

import json
import re

import pytest

from unslow.page.server.application import endpoints, openapi


@pytest.fixture(scope="module")
def described():
    return json.loads(openapi())


def test_every_reference_leads_somewhere(described):
    text = openapi()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names
    assert names <= set(described["components"]["schemas"])


def test_every_endpoint_is_there_once_with_an_id_of_its_own(described):
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) == len(endpoints())
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert all(path.startswith("/api/v1/") and ":" not in path for path in described["paths"])


def test_marks_of_a_path_are_parameters(described):
    for path, operations in described["paths"].items():
        for one in operations.values():
            named = {p["name"] for p in one.get("parameters", ()) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def test_names_of_schemas_are_such_as_openapi_allows(described):
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]+", name) for name in described["components"]["schemas"])


def test_the_server_gives_the_same(page, described):
    assert page.get("/openapi.json").json == described


@pytest.mark.parametrize(
    "path", ["/view", "/report", "/offers", "/runs", "/explain/cpu_contended", "/fit?model=qwen3-8b&device=RTX+4090"]
)
def test_answers_are_as_described(page, described, path):
    jsonschema = pytest.importorskip("jsonschema")
    route = re.sub(r"/explain/.*", "/explain/{cause}", path.partition("?")[0])
    answer = described["paths"][f"/api/v1{route}"]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**answer["schema"], "components": described["components"]}
    said = page.get(path)
    assert said.status == 200
    jsonschema.Draft202012Validator(schema).validate(said.json)
