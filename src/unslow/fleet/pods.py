"""The pods of engines: where they run, what their containers may use, and their versions by the images."""

import re
from collections.abc import Mapping

from unslow.fleet.asking import Asking
from unslow.fleet.labels import NameIndex, SubjectKey, plain_label, scope_of, subject_key
from unslow.fleet.queries import MARK, Options, parts

IMAGES = {
    "vLLM": ("vllm",), "SGLang": ("sglang",), "TGI": ("text-generation-inference", "tgi"), "Ollama": ("ollama",),
    "llama.cpp": ("llama.cpp", "llama-cpp", "llama-server", "llamacpp"),
}  # fmt: skip
"""How the images of runtimes are called, by whoever builds them."""
_VERSION = re.compile(r"v?(\d{1,9}\.\d{1,9}[\w.+-]{0,100}|b\d{3,12}|\d{4,18})")
_GENERATED = re.compile(r"-[a-f0-9]{6,10}-[a-z0-9]{5}$|-[a-z0-9]{5}$|-\d+$")


class Pod:
    """One pod of an engine."""

    __slots__ = ("host_ip", "images", "limits", "node", "scope")

    def __init__(self, scope: dict[str, str]) -> None:
        self.scope, self.node, self.host_ip = scope, "", ""
        self.images: dict[str, str] = {}  # By the name of the container
        self.limits: dict[str, tuple[int, float, str]] = {}


def read_pods(asking: Asking, options: Options) -> NameIndex[Pod]:
    """Every pod that was told of, by namespace and name."""
    pods = NameIndex[Pod]()
    for labels, _ in asking.answer("pods").series:
        pod = _pod(pods, labels)
        pod.node, pod.host_ip = plain_label(labels.get("node", "")), plain_label(labels.get("host_ip", ""))
    for labels, _ in asking.answer("images").series:
        _pod(pods, labels).images.update(_image(labels))
    told = parts("pods", options.window_s)
    for labels, value in asking.answer("containers").series:
        if part := told.get(labels.pop(MARK, "")):
            _pod(pods, labels).limits[part.quantity] = (part.rank, value, part.source)
    return pods


def _pod(pods: NameIndex[Pod], labels: Mapping[str, str]) -> Pod:
    scope, name = scope_of(labels), (labels.get("namespace", ""), labels.get("pod", ""))
    found = next((pod for pod in pods.all(name, scope) if pod.scope == scope), None)
    if found is None:
        found = Pod(scope)
        pods.add(name, found)
    return found


def _image(labels: Mapping[str, str]) -> dict[str, str]:
    container = labels.get("exported_container") or labels.get("container", "")
    return {plain_label(container): plain_label(labels.get("image_spec") or labels.get("image", ""))}


def version_of(images: Mapping[str, str], runtime: str, container: str = "") -> str:
    """The version that the tag of the runtime's image says, where it says one and all say the same."""
    own = [text for name, text in images.items() if name == container]
    known = [text for text in images.values() if any(word in text.lower() for word in IMAGES.get(runtime, ()))]
    # `0.10.1` of `vllm/vllm-openai:v0.10.1`; nothing of `latest` or of a digest
    tags = [text.partition("@")[0].rpartition("/")[2].partition(":")[2] for text in known or own]
    versions = {found[1] if (found := _VERSION.fullmatch(tag)) else "" for tag in tags}
    return versions.pop() if len(versions) == 1 else ""


def read_images_before(asking: Asking) -> tuple[NameIndex[Pod], dict[SubjectKey, str]]:
    """What ran at the time to compare with.

    By namespace and the name that the pods of a workload begin with, the images by their own text; by engine, the
    version that `unslow exporter` told.
    """
    workloads, versions = NameIndex[Pod](), dict[SubjectKey, str]()
    for labels, _ in asking.answer("images_before").series:
        if labels.pop(MARK, "") == "image":
            made_by = _pod(workloads, {**labels, "pod": workload(labels.get("pod", ""))})
            made_by.images.update({text: text for text in _image(labels).values()})
        else:
            versions[subject_key(labels)] = labels.get("exported_version") or labels.get("version", "")
    return workloads, versions


def workload(pod: str) -> str:
    """What makes the pods: the name without what is generated for each."""
    return _GENERATED.sub("", pod)
