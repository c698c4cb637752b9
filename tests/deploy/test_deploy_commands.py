"""Every command line in a manifest, unit or image is accepted by the program and means what was intended."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from unslow import __version__
from unslow.commands._dispatch import parse_words
from unslow.facts.errors import UserError
from unslow.fleet.settings import ExporterSettings

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILE = DEPLOY / "Dockerfile"


def documents(path: Path) -> list[dict]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def containers(node: object) -> list[dict]:
    """Every container of a manifest, however deep."""
    if isinstance(node, list):
        return [found for one in node for found in containers(one)]
    if not isinstance(node, dict):
        return []
    mine = node.get("containers", []) if isinstance(node.get("containers"), list) else []
    return [*mine, *(found for key, one in node.items() if key != "containers" for found in containers(one))]


def ours(path: Path) -> list[dict]:
    return [one for document in documents(path) for one in containers(document) if "/unslow:" in one["image"]]


def in_manifests() -> dict[str, list[str]]:
    return {f"{path.name} {one['name']}": one["args"] for path in MANIFESTS for one in ours(path)}


def in_units() -> dict[str, list[str]]:
    lines = {
        path.name: re.findall(r"^ExecStart=/usr/local/bin/unslow (.*)$", path.read_text(), re.MULTILINE)
        for path in UNITS
    }
    return {f"{name} {n}": shlex.split(line) for name, found in lines.items() for n, line in enumerate(found)}


def in_image() -> dict[str, list[str]]:
    return {"Dockerfile": json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)[1])}


COMMANDS = {**in_manifests(), **in_units(), **in_image()}


def test_all_deployed_commands_are_found():
    commands = sorted(words[0] for words in COMMANDS.values())
    assert commands == ["exporter", "exporter", "exporter", "fleet", "fleet"]


@pytest.mark.parametrize("where", COMMANDS)
def test_deployed_commands_are_accepted_with_safe_settings(where):
    _, chosen = parse_words(COMMANDS[where])
    if COMMANDS[where][0] == "exporter":
        request = ExporterSettings.of(chosen)
        assert request.measure_every_s is None, "no prompt is sent unless the user says so"
        assert request.listen.is_loopback == where.endswith(".service 0"), "a container is asked from outside of it"
    else:
        assert chosen.exit_zero
        assert chosen.prometheus.startswith("http")
        assert chosen.format == "markdown"


def test_a_renamed_flag_would_be_noticed():
    with pytest.raises(UserError, match="--address"):
        parse_words(["exporter", "--address", "127.0.0.1:1"])


def test_deployed_images_have_this_version():
    texts = [path.read_text() for path in [*MANIFESTS, DOCKERFILE]]
    versions = {found for text in texts for found in re.findall(r"unslow:(\d[\w.]*)|newTag: (\S+)", text)}
    assert {one or other for one, other in versions} == {__version__}


def test_the_image_is_pinned_and_runs_unprivileged():
    text = DOCKERFILE.read_text()
    assert "--constraint constraints.txt" in text
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    names = {name for line in copied for name in line.split()}
    assert {f"!{name}" for name in names} <= set(ignored)
    assert all((DEPLOY.parent / name).exists() for name in names)
