"""The questions that are not about a reading: what is there, who it is, where it runs, what it was before."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from unslow.catalog.exporters import Exporter, Of, exporters, exporters_of
from unslow.fleet.options import Labels, Options
from unslow.fleet.promql import any_of, filled, folded, marked

SCOPE = (
    "cluster",
    "cluster_name",
    "k8s_cluster",
    "kubernetes_cluster",
    "region",
    "datacenter",
    "dc",
    "environment",
    "env",
)
"""Labels that tell apart what else may have the same name: two clusters can both have a pod `vllm-0`."""


class Query(NamedTuple):
    """One instant query, and what it is for."""

    name: str
    of: str
    """engine, gpu, host, pods or own; `all` for the one that counts."""
    promql: str
    why: str


def special_queries(options: Options, there: Collection[str]) -> Iterator[Query]:
    """All of them; the text of one that nobody could answer is empty."""
    yield there_query(options)
    yield Query("targets", "engine", _targets(options, there), "every engine, and when it was last scraped")
    yield Query(
        "up", "engine", _of_engines("avg_over_time(up{}[W]) < 1", options, there), "whether it was always there"
    )
    yield Query("starts", "engine", _starts(options, there), "whether it started anew within the window")
    for of, why in (("engine", "how engines say they are set up"), ("gpu", "the names of GPUs"), ("host", "of hosts")):
        yield Query(f"{of}_info", of, _info(of, options, there), why)  # type: ignore[arg-type]
    yield Query("before", "engine", _before(options, there), "the same engines at the time to compare with")
    yield Query("pods", "pods", _pods(options, there), "on which node a pod runs")
    yield Query("images", "pods", _images(options, there), "which version it is")
    yield Query("images_before", "pods", _images(options, there, options.compare_s), "which it was")
    yield Query("containers", "pods", _containers(options, there), "what its container may use")
    yield Query("own_info", "own", _info("own", options, there), "which engines `unslow exporter` looks at")


def there_query(options: Options) -> Query:
    """How many series of each exporter there are: what is too many is known before it is read."""
    engines = [one.anchor for one in exporters_of("engine").values()]
    rest = [one.anchor for one in exporters().values() if one.of != "engine"]
    terms = (  # marked, as `or` does not look at the names of metrics
        marked(_count(engines, options.matchers(engines=True), options), "engines"),
        marked(_count(rest, options.matchers(), options), "rest"),
    )
    return Query("there", "all", any_of(terms), "what there is, and whether it is more than may be read")


def _count(names: list[str], matchers: str, options: Options) -> str:
    inside = ",".join(filter(None, (f'__name__=~"{"|".join(names)}"', matchers)))
    return f"count by (__name__) (last_over_time({{{inside}}}[{options.window_s:.0f}s]))"


def _engines(there: Collection[str]) -> dict[str, Exporter]:
    return {name: one for name, one in exporters_of("engine").items() if name in there}


def _anchors(options: Options, there: Collection[str], ago_s: float = 0.0) -> str:
    """Any series of every engine."""
    matchers = options.matchers(engines=True)
    names = [one.anchor for one in _engines(there).values()]
    return " or ".join(filled(f"last_over_time({name}{{}}[W])", matchers, options.window_s, ago_s) for name in names)


def _targets(options: Options, there: Collection[str]) -> str:
    matchers, terms = options.matchers(engines=True), []
    for name, one in _engines(there).items():
        own = [label for label in one.own if label not in one.labels.get("model", ())]
        seen = filled(f"count_over_time({one.anchor}{{}}[W])", matchers, options.window_s)
        age = filled(f"time() - timestamp({one.anchor}{{}})", matchers, options.window_s)
        terms += [marked(folded(seen, "max", [*own, *one.same]), f"{name}.samples")]
        terms += [marked(folded(age, "min", [*own, *one.same]), f"{name}.age")]
    return any_of(terms)


def _of_engines(expression: str, options: Options, there: Collection[str]) -> str:
    """Series that any program has, of engines only."""
    anchors = _anchors(options, there)
    return (
        f"{filled(expression, options.matchers(), options.window_s)} and on (job, instance) ({anchors})"
        if anchors
        else ""
    )


def _starts(options: Options, there: Collection[str]) -> str:
    """Only of those that did: who is not among the answers did not, or does not tell."""
    terms = []
    if found := _of_engines("changes(process_start_time_seconds{}[W]) > 0", options, there):
        terms.append(marked(f"max without (pid) ({found})", "starts"))
    for name, one in _engines(there).items():
        if one.counter:
            falls = filled(f"resets({one.counter}{{}}[W]) > 0", options.matchers(engines=True), options.window_s)
            terms.append(marked(folded(falls, "max", [*one.own, *one.same]), f"{name}.resets"))
    return any_of(terms)


def _info(of: Of, options: Options, there: Collection[str]) -> str:
    matchers, terms = options.matchers(engines=of == "engine"), []
    for name, one in exporters_of(of).items():
        if name in there and one.info:
            info = filled(one.info, matchers, options.window_s)
            told = f"max by ({', '.join(info_labels(one, options.labels()))}) ({info})" if of == "gpu" else info
            terms.append(marked(told, name))
    return any_of(terms)


def gpu_labels(exporter: Exporter, joined: Labels) -> list[str]:
    """The labels that tell which GPU a series is of, and whose it was."""
    told = (name for what in ("identity", "index", "part") for name in exporter.labels.get(what, ()))
    return list(dict.fromkeys((*told, "instance", *joined.namespace, *joined.gpu, *SCOPE)))


def info_labels(exporter: Exporter, joined: Labels) -> list[str]:
    """Those, and what it is and where: asked for once."""
    told = (name for names in exporter.labels.values() for name in names)
    return list(dict.fromkeys((*gpu_labels(exporter, joined), *told, *joined.host)))


def _before(options: Options, there: Collection[str]) -> str:
    if not options.compare_s:
        return ""
    matchers, terms = options.matchers(engines=True), []
    for name, one in _engines(there).items():
        for quantity in one.before:
            fold, *texts = one.readings[quantity]
            for rank, text in enumerate(texts):
                then = filled(text, matchers, options.window_s, options.compare_s)
                terms.append(marked(folded(then, fold, one.own, one.same), f"{name}.{quantity}.{rank}"))
    return any_of(terms)


def _in_pods(expression: str, options: Options, there: Collection[str], ago_s: float = 0.0) -> str:
    """Of all pods only those of engines; what kube-state-metrics tells under exported names among them."""
    exported = _renamed(_renamed(expression, "pod", "exported_pod"), "namespace", "exported_namespace")
    engines, labels = _anchors(options, there, ago_s), options.labels()
    engines = f"({engines})"
    for name, usual in ((labels.pod[0], "pod"), (labels.namespace[0], "namespace")):
        if name not in (usual, f"exported_{usual}"):
            engines = _renamed(engines, usual, name)
    return f"{exported} and on (namespace, pod) {engines}"


def _renamed(expression: str, label: str, name: str) -> str:
    return f'label_replace({expression}, "{label}", "$1", "{name}", "(.+)")'


def _pods(options: Options, there: Collection[str]) -> str:
    if "kube_state" not in there or not _engines(there):
        return ""
    info = filled("last_over_time(kube_pod_info{}[W])", options.matchers(), options.window_s)
    return f"group by (namespace, pod, node, host_ip, {', '.join(SCOPE)}) ({_in_pods(info, options, there)})"


def _images(options: Options, there: Collection[str], ago_s: float | None = None) -> str:
    if ago_s == 0.0 or not _engines(there):
        return ""
    terms = []
    if "kube_state" in there:
        info = filled(
            "last_over_time(kube_pod_container_info{}[W])", options.matchers(), options.window_s, ago_s or 0.0
        )
        by = ", ".join(("namespace", "pod", "container", "exported_container", "image", "image_spec", *SCOPE))
        terms.append(marked(f"group by ({by}) ({_in_pods(info, options, there, ago_s or 0.0)})", "image"))
    if ago_s and "unslow" in there:
        own = exporters()["unslow"].info
        terms.append(marked(filled(own, options.matchers(), options.window_s, ago_s), "unslow"))
    return any_of(terms)


def _containers(options: Options, there: Collection[str]) -> str:
    if "cadvisor" not in there or not _engines(there):
        return ""
    terms = []
    for quantity, (fold, *texts) in exporters()["cadvisor"].readings.items():
        for rank, text in enumerate(texts):
            found = _in_pods(filled(text, options.matchers(), options.window_s), options, there)
            by = ", ".join(("namespace", "pod", *SCOPE))
            terms.append(marked(f"{fold} by ({by}) ({found})", f"cadvisor.{quantity}.{rank}"))
    return any_of(terms)
