"""The model that a runtime serves, by its files: a folder, or a name in Hugging Face's cache."""

import re
from collections.abc import Iterator, Mapping, Sequence

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.values import Fact, Known, not_found, reported
from unslow.look.models.safetensors import config_facts, model_facts, read_checkpoint, read_config_alone
from unslow.look.processes import Process
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_REVISION_BYTES = 256


def model_of_name(written: str, source: str) -> Model:
    """A model as somebody wrote it: the last part of a folder is its name."""
    if not written:
        return Model()
    folder = written.startswith(("/", "./", "~"))
    name = written.rstrip("/").rpartition("/")[2] if folder else written
    return Model(name=reported(name, source), path=reported(written, source) if folder else Model().path)


def with_files(
    system: System, model: Model, written: str, environment: Mapping[str, str], roots: Sequence[str]
) -> Model:
    """The headers of its files have the last word on the model; a container has a root of its own."""
    why = not_found("the server does not say where its model lies")
    for root in roots:
        for folder in _folders(system, written, environment, root):
            try:
                config = read_config_alone(system, f"{root}{folder}")
                # without weights, as with `--load-format dummy`, what a log says of them is closer than an estimate
                read = (
                    overlaid(config_facts(config, folder), model)
                    if config
                    else model_facts(read_checkpoint(system, f"{root}{folder}"), folder)
                )
            except LookError as error:
                why = not_found(error.why if error.why.startswith(written) else f"{written}: {error.why}")
                continue
            return overlaid(read, Model(name=model.name, path=reported(folder, "its files")))
    missing: Fact[int] = model.weights_bytes if isinstance(model.weights_bytes, Known) else why
    return overlaid(model, Model(weights_bytes=missing))


def places_of(process: Process) -> dict[str, str]:
    """The variables of a process that say where it keeps models; its home is used here and kept nowhere."""
    home = re.search(r"(?:^|\0)HOME=(/[^\0]{1,400})", process.text("environ"))
    return {**process.environment().value_or({}), **({"HOME": home[1]} if home else {})}


def _folders(system: System, written: str, environment: Mapping[str, str], root: str) -> Iterator[str]:
    if written.startswith("/"):
        yield written
    elif _NAME.fullmatch(written):
        for cache in _caches(environment):
            yield from _snapshot(system, root, f"{cache}/models--{written.replace('/', '--')}")


def _caches(environment: Mapping[str, str]) -> Iterator[str]:
    """Where the process keeps what it downloads; the usual places are tried last."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name, "").startswith("/"):
            yield environment[name]
    if environment.get("HF_HOME", "").startswith("/"):
        yield f"{environment['HF_HOME']}/hub"
    home = environment.get("HOME", "")
    yield from (f"{place}/.cache/huggingface/hub" for place in dict.fromkeys((home, "/root")) if place.startswith("/"))


def _snapshot(system: System, root: str, repository: str) -> Iterator[str]:
    """The revision that the main branch is at."""
    try:
        revision = read_text(system, f"{root}{repository}/refs/main", _REVISION_BYTES).strip()
    except LookError:
        return
    if re.fullmatch(r"[0-9a-f]{7,64}", revision):
        yield f"{repository}/snapshots/{revision}"
