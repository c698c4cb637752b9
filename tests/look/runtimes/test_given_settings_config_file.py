"""Flags from a config file named on the command line."""

from doubles import FakeSystem
from written import one_change

from unslow.facts.knob import Knob
from unslow.look.processes import read_processes
from unslow.look.runtimes import vllm
from unslow.look.runtimes._given_settings import config_path, parse_config
from unslow.look.runtimes.vllm.flags import FLAGS

TEXT = """# how we serve
model: meta-llama/Llama-3.2-1B-Instruct
enforce-eager: true   # saves memory
max_model_len: 4096
enable-prefix-caching: false
api-key: "secret"
lora-modules:
  - name: one
"""


def test_the_config_file_is_taken_from_the_command_line():
    assert config_path(["vllm", "serve", "--config", "/etc/vllm.yaml"]) == "/etc/vllm.yaml"
    assert config_path(["vllm", "serve", "--config=a.yaml"]) == "a.yaml"
    assert config_path(["vllm", "serve", "--config"]) == config_path(["vllm", "serve", "m"]) == ""


def test_config_file_lines_are_flags():
    given = parse_config(TEXT, FLAGS, "/etc/vllm.yaml")
    assert given["model"].value == "meta-llama/Llama-3.2-1B-Instruct"
    assert given["eager"].value == "on"
    assert given["eager"].source.startswith("vllm.yaml: enforce-eager: true")
    assert given["context"].value == "4096"
    assert "prefix_cache" not in given
    assert given["api_key"].source == "vllm.yaml"


def test_hostile_config_files_are_bounded():
    assert parse_config("a: b\n" * 100_000 + "enforce-eager: true\n", FLAGS, "x") == {}
    assert parse_config("enforce-eager" + ":" * 10_000, FLAGS, "x") == {}


def served(**files: str):
    command = "/venv/bin/python3\0/venv/bin/vllm\0serve\0--config\0/etc/vllm.yaml\0--max-model-len\08192\0"
    own = {"comm": "vllm\n", "cmdline": command, "environ": "A=b\0", "status": "PPid:\t1\n", **files}
    system = FakeSystem(files={f"/proc/10/{name}": text for name, text in own.items()}, folders={"/proc": ["10"]})
    (found,) = vllm.find(read_processes(system))
    (subject,) = vllm.read(found, "")
    return subject


def test_a_server_is_read_with_its_config_file():
    subject = served(**{"root/etc/vllm.yaml": TEXT})
    assert subject.runtime.compute.eager.value is True
    assert "vllm.yaml" in subject.runtime.compute.eager.source
    assert subject.runtime.context.requested.value == 8192, "the command line beats the file"
    assert subject.model.name.value == "meta-llama/Llama-3.2-1B-Instruct"
    assert one_change(vllm, Knob.GRAPHS.to(value=True), subject.runtime) == ["in /etc/vllm.yaml: remove enforce-eager"]


def test_an_unreadable_config_file_leaves_settings_unknown():
    assert not subject_is_known(served())


def subject_is_known(subject) -> bool:
    return isinstance(subject.runtime.compute.eager.value_or(None), bool)
