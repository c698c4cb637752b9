"""Every query that a Prometheus is asked for a fleet: a constant number, over the window and the series of options.

Readings of all exporters are asked for together, a few in one query, joined by `or`. Each is marked with a label
first: two series can then never be taken for one another, and the answer says which metric it comes from. Buckets of
histograms are never asked for.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unslow.catalog.prometheus import Exporter, ExporterSubject, exporters, exporters_of
from unslow.facts.errors import UserError
from unslow.fleet.member import LEAST, RATIOS, source_of_ratio

MARK = "unslow_is"  # The label by which the parts of one answer are told apart
STEP_S = 60.0  # Of subqueries: a quarter of an hour has fifteen steps then, and ten thousand GPUs are cheap
_FEWEST_STEPS, _MOST_STEPS = 15, 60
"""In a window: the single step of a short one may lie before the first sample, and a count of it is then nought."""
_NAMES = re.compile(r"(?<![A-Za-z0-9_:])([A-Za-z_:][A-Za-z0-9_:]*)\{")
_HOW = {
    "avg_over_time": "mean over", "max_over_time": "maximum over", "min_over_time": "minimum over",
    "stddev_over_time": "standard deviation over", "increase": "increase over", "rate": "per second over",
    "changes": "changes in", "last_over_time": "last value in", "count_over_time": "share of",
}  # fmt: skip
_WHILE_BUSY = re.compile(r" and \S+ >= ")  # A reading of those moments alone in which another one is high
MOST_SERIES = 100_000  # of one exporter: ten thousand machines with eight GPUs each fit
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SCOPE = (
    "cluster", "cluster_name", "k8s_cluster", "kubernetes_cluster", "region", "datacenter", "dc", "environment", "env",
)  # fmt: skip
"""Labels that tell apart what else may have the same name: two clusters can both have a pod `vllm-0`."""
_FIRST = (
    "there", "targets", "(engine)", "up", "starts", "engine_info", "before", "images_before", "own_info", "(own)",
    "pods", "images", "containers", "host_info", "(host)", "gpu_info", "(gpu)",
)  # fmt: skip
"""The order of the queries; in brackets those of readings."""
PACKS: tuple[tuple[str, ExporterSubject, str, str], ...] = (
    ("load", "engine", "running running_spread", "running requests per engine"),
    ("queue", "engine", "waiting asleep", "waiting requests"),
    ("work", "engine", "generated_tokens_per_s prompt_tokens_per_s", "throughput"),
    ("cache", "engine", "cache_used preemptions", "KV cache usage"),
    ("token_gap", "engine", "token_gap_s_sum token_gap_s_count", "time per generated token"),
    ("busy", "engine", "decode_tokens decode_busy_s", "time per generated token, from decode time"),
    ("first_token", "engine", "first_token_s_sum first_token_s_count queue_s_sum queue_s_count", "time to first token"),
    ("requests", "engine", "request_s_sum request_s_count", "request duration"),
    ("sizes", "engine", "prompt_tokens_sum prompt_tokens_count answer_tokens_sum answer_tokens_count", "request sizes"),
    ("hits", "engine", "prefix_hits prefix_queries drafts_accepted drafts_made draft_acceptance", "cache hits, drafts"),
    ("settings", "engine", "context_tokens kv_tokens places", "settings"),
    ("gpu_memory", "gpu", "vram_total_bytes vram_used_max_bytes", "VRAM in use"),
    ("gpu_free", "gpu", "vram_free_bytes vram_reserved_bytes gtt_used_bytes", "free VRAM"),
    ("gpu_busy", "gpu", "busy memory_busy", "GPU utilization"),
    ("gpu_clocks", "gpu", "clock_hz clock_max_hz memory_clock_hz", "GPU clocks under load"),
    ("gpu_heat", "gpu", "temperature_max_c memory_temperature_max_c", "GPU temperatures"),
    ("gpu_power", "gpu", "power_max_w", "GPU power draw"),
    ("gpu_limits", "gpu", "power_limit_w power_limit_default_w", "GPU power limits"),
    ("gpu_held", "gpu", "reasons_told thermal_throttled power_throttled power_braked", "GPU throttling"),
    ("gpu_link", "gpu", "pcie_generation pcie_generation_max pcie_width pcie_width_max", "PCIe link"),
    ("host_cpu", "host", "cpus idle_cpus", "CPU load"),
    ("host_memory", "host", "memory_total_bytes memory_available_bytes", "host memory"),
    ("host_swap", "host", "swap_total_bytes swap_free_bytes swapped_in_bytes_per_s swapped_out_bytes_per_s", "swap"),
    ("host_pressure", "host", "cpu_pressure memory_pressure io_pressure load_1min", "resource pressure"),
    ("host_heat", "host", "package_throttles numa_nodes", "CPU throttling, NUMA nodes"),
    ("own_words", "own", "verdict findings finding_costs", "diagnoses of `unslow exporter`"),
    ("own_speed", "own", "speed_tokens_per_s expected achievable_tokens_per_s looked_at_s", "expected speeds"),
)  # fmt: skip
"""Name, of what, the readings, and why: few enough in each that an answer of ten thousand machines stays small."""


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """Which labels join what belongs together: the first that is there holds."""

    host: tuple[str, ...] = (
        "node", "kubernetes_node", "exported_node", "nodename", "exported_hostname", "Hostname", "hostname", "host",
        "machine",
    )  # fmt: skip
    gpu: tuple[str, ...] = ("exported_pod", "pod", "pod_name", "exported_pod_name")
    """Of a GPU's series: the pod that it was given to."""
    namespace: tuple[str, ...] = ("exported_namespace", "namespace", "pod_namespace", "kubernetes_namespace")
    pod: tuple[str, ...] = ("pod", "kubernetes_pod_name", "pod_name")  # Of an engine's series: its own pod
    model: tuple[str, ...] = ("model", "served_model", "served_model_name", "model_name", "model_id")
    version: tuple[str, ...] = ("version", "runtime_version", "app_version", "app_kubernetes_io_version")
    gpus: tuple[str, ...] = ("gpu_ids", "gpus", "cuda_visible_devices")
    """Of an engine's series: the numbers of its GPUs, such as `0,1`."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The user's wishes; `match` and `engines` hold label matchers such as `cluster="a",env=~"prod.*"`."""

    window_s: float = 900.0
    compare_s: float = 86400.0  # How long ago the time is that the window is compared with; 0 for none
    match: str = ""  # For every series that is read
    engines: str = ""
    """For the series of engines only, such as `namespace="llm"`, which a host's series don't have; engines that are not
    scraped themselves are left out then."""
    join: str = ""  # Label names where the usual ones don't fit, such as `host=machine,gpu=exported_pod`
    most_series: int = MOST_SERIES

    def matchers(self, *, engines: bool = False) -> str:
        """What goes into the braces of a selector; UserError where the user's words are no matchers."""
        parts = [parse_matchers(self.match), parse_matchers(self.engines) if engines else ""]
        return ",".join(part for part in parts if part)

    def fill(self, expression: str, *, engines: bool = False, ago_s: float = 0.0) -> str:
        return fill_expression(expression, self.matchers(engines=engines), self.window_s, ago_s)

    def labels(self) -> Labels:
        """The labels to join by: those that the user names go before the usual ones."""
        usual, own = Labels(), {}
        for pair in filter(None, (part.strip() for part in self.join.split(","))):
            what, _, name = pair.partition("=")
            if what not in Labels.__struct_fields__ or not _LABEL.fullmatch(name):
                hint = f"write LABEL=NAME, such as host=machine; labels are {', '.join(Labels.__struct_fields__)}"
                raise UserError(f"--join must be LABEL=NAME (got {pair[:60]!r})", hint)
            own[what] = (name, *getattr(usual, what))
        return msgspec.structs.replace(usual, **own)


class Query(NamedTuple):
    """One instant query, and what it is for."""

    name: str
    of: str  # engine, gpu, host, pods or own; `all` for the one that counts, `capacity` for curves
    promql: str
    why: str


class Part(NamedTuple):
    """What the series with one mark are."""

    quantity: str
    exporter: str
    rank: int  # Among several expressions for the same: the lowest holds
    source: str


def all_queries(options: Options, there: Collection[str] | None = None) -> tuple[Query, ...]:
    """All of them, as if every exporter were there; with `there`, those that these exporters answer."""
    there = exporters() if there is None else there
    found = [*special_queries(options, there), *(pack_query(name, options, there) for name, *_ in PACKS)]
    asked = [query for query in found if query.promql]
    return tuple(sorted(asked, key=lambda one: _FIRST.index(one.name if one.name in _FIRST else f"({one.of})")))


def pack_query(name: str, options: Options, there: Collection[str]) -> Query:
    """One query for a few readings; its text is empty where nobody could answer it."""
    of, quantities, why = next((of, words.split(), why) for pack, of, words, why in PACKS if pack == name)
    terms = []
    for mark, part in parts(of, options.window_s).items():
        if part.exporter not in there:
            continue
        exporter, asked_by = exporters()[part.exporter], part.quantity
        # What is divided is asked for by its upper part, and nowhere else
        if part.quantity not in exporter.readings:
            asked_by = RATIOS[part.quantity][0]
        elif any(part.quantity in pair and pair[0] in exporter.readings for pair in RATIOS.values()):
            continue
        if asked_by in quantities:
            terms.append(mark_series(_term(exporter, part, options), mark))
    return Query(name, of, any_of(terms), why)


def parts(of: ExporterSubject, window_s: float) -> dict[str, Part]:
    """Every mark of the readings of a kind, and what it stands for."""
    found = {
        f"{name}.{quantity}.{rank}": Part(quantity, name, rank, source_of(text, window_s))
        for name, exporter in exporters_of(of).items()
        for quantity, (_, *texts) in exporter.readings.items()
        for rank, text in enumerate(texts)
    }
    for name, exporter in exporters_of(of).items():
        for ratio, (top, bottom) in RATIOS.items():
            for rank, _ in enumerate(exporter.readings.get(top, ("",))[1:]):
                above, below = (found[f"{name}.{part}.{rank}"].source for part in (top, bottom))
                found[f"{name}.{ratio}.{rank}"] = Part(ratio, name, rank, source_of_ratio(top, above, below))
    return found


def _term(exporter: Exporter, part: Part, options: Options) -> str:
    if part.quantity not in exporter.readings:
        top, bottom = (_term(exporter, part._replace(quantity=one), options) for one in RATIOS[part.quantity])
        return f"{top} / ({bottom} >= {LEAST:g})"
    fold, *texts = exporter.readings[part.quantity]
    text = options.fill(texts[part.rank], engines=exporter.of == "engine")
    if exporter.of == "gpu":  # which GPU it is takes few of its many labels
        return f"{fold} by ({', '.join(gpu_labels(exporter, options.labels()))}) ({text})"
    kept = ("verdict", "cause", "bound")  # they are what our own metrics tell
    own = [label for label in exporter.own if not (exporter.of == "own" and label in kept)]
    return fold_series(text, fold, own, exporter.same)


def gpu_labels(exporter: Exporter, joined: Labels) -> list[str]:
    """The labels that tell which GPU a series is of, and whose it was."""
    told = (name for what in ("identity", "index", "part") for name in exporter.labels.get(what, ()))
    return list(dict.fromkeys((*told, "instance", *joined.namespace, *joined.gpu, *SCOPE)))


def special_queries(options: Options, there: Collection[str]) -> Iterator[Query]:
    """All of them; the text of one that nobody could answer is empty."""
    yield there_query(options)
    terms = []
    for name, one in _engines(there).items():
        own = [label for label in one.own if label not in one.labels.get("model", ())]
        seen = options.fill(f"count_over_time({one.anchor}{{}}[W])", engines=True)
        age = options.fill(f"time() - timestamp({one.anchor}{{}})", engines=True)
        terms += [mark_series(fold_series(seen, "max", [*own, *one.same]), f"{name}.samples")]
        terms += [mark_series(fold_series(age, "min", [*own, *one.same]), f"{name}.age")]
    yield Query("targets", "engine", any_of(terms), "all engines and their last scrape")
    anchors, up, terms = _anchors(options, there), "", []
    if anchors:
        of_engines = f"and on (job, instance) ({anchors})"
        up = f"{options.fill('avg_over_time(up{}[W]) < 1')} {of_engines}"
        # Only of those that did: who is not among the answers did not, or does not tell
        started = f"{options.fill('changes(process_start_time_seconds{}[W]) > 0')} {of_engines}"
        terms = [mark_series(f"max without (pid) ({started})", "starts")]
    yield Query("up", "engine", up, "failed scrapes")
    for name, one in _engines(there).items():
        if one.counter:
            falls = options.fill(f"resets({one.counter}{{}}[W]) > 0", engines=True)
            terms.append(mark_series(fold_series(falls, "max", [*one.own, *one.same]), f"{name}.resets"))
    yield Query("starts", "engine", any_of(terms), "restarts within the window")
    for of, why in (("engine", "engine settings"), ("gpu", "the names of GPUs"), ("host", "the names of hosts")):
        yield Query(f"{of}_info", of, _info(of, options, there), why)  # type: ignore[arg-type]
    yield Query("before", "engine", _before(options, there), "the same engines at the comparison time")
    pods = ""
    if "kube_state" in there and _engines(there):
        info = _in_pods("last_over_time(kube_pod_info{}[W])", options, there)
        pods = f"group by (namespace, pod, node, host_ip, {', '.join(SCOPE)}) ({info})"
    yield Query("pods", "pods", pods, "nodes of pods")
    yield Query("images", "pods", _images(options, there), "container images")
    yield Query("images_before", "pods", _images(options, there, options.compare_s), "earlier container images")
    yield Query("containers", "pods", _containers(options, there), "container limits")
    yield Query("own_info", "own", _info("own", options, there), "engines watched by `unslow exporter`")


def there_query(options: Options) -> Query:
    """How many series of each exporter there are: what is too many is known before it is read."""
    engines = [one.anchor for one in exporters_of("engine").values()]
    rest = [one.anchor for one in exporters().values() if one.of != "engine"]
    terms = []  # marked, as `or` does not look at the names of metrics
    for mark, names in (("engines", engines), ("rest", rest)):
        matchers = options.matchers(engines=mark == "engines")
        inside = ",".join(filter(None, (f'__name__=~"{"|".join(names)}"', matchers)))
        count = f"count by (__name__) (last_over_time({{{inside}}}[{options.window_s:.0f}s]))"
        terms.append(mark_series(count, mark))
    return Query("there", "all", any_of(terms), "series per exporter")


def _engines(there: Collection[str]) -> dict[str, Exporter]:
    return {name: one for name, one in exporters_of("engine").items() if name in there}


def _anchors(options: Options, there: Collection[str], ago_s: float = 0.0) -> str:
    names = [one.anchor for one in _engines(there).values()]
    return " or ".join(options.fill(f"last_over_time({name}{{}}[W])", engines=True, ago_s=ago_s) for name in names)


def _info(of: ExporterSubject, options: Options, there: Collection[str]) -> str:
    terms = []
    for name, one in exporters_of(of).items():
        if name in there and one.info:
            info = options.fill(one.info, engines=of == "engine")
            if of == "gpu":  # beside which GPU it is, what it is and where: asked for once
                joined, told = options.labels(), (label for labels in one.labels.values() for label in labels)
                kept = dict.fromkeys((*gpu_labels(one, joined), *told, *joined.host))
                info = f"max by ({', '.join(kept)}) ({info})"
            terms.append(mark_series(info, name))
    return any_of(terms)


def _before(options: Options, there: Collection[str]) -> str:
    if not options.compare_s:
        return ""
    terms = []
    for name, one in _engines(there).items():
        for quantity in one.before:
            fold, *texts = one.readings[quantity]
            for rank, text in enumerate(texts):
                then = options.fill(text, engines=True, ago_s=options.compare_s)
                terms.append(mark_series(fold_series(then, fold, one.own, one.same), f"{name}.{quantity}.{rank}"))
    return any_of(terms)


def _in_pods(expression: str, options: Options, there: Collection[str], ago_s: float = 0.0) -> str:
    """Of all pods only those of engines; what kube-state-metrics tells under exported names among them."""
    found = options.fill(expression, ago_s=ago_s)
    exported = _rename_label(_rename_label(found, "pod", "exported_pod"), "namespace", "exported_namespace")
    engines, labels = f"({_anchors(options, there, ago_s)})", options.labels()
    for name, usual in ((labels.pod[0], "pod"), (labels.namespace[0], "namespace")):
        if name not in (usual, f"exported_{usual}"):
            engines = _rename_label(engines, usual, name)
    return f"{exported} and on (namespace, pod) {engines}"


def _rename_label(expression: str, label: str, name: str) -> str:
    return f'label_replace({expression}, "{label}", "$1", "{name}", "(.+)")'


def _images(options: Options, there: Collection[str], ago_s: float | None = None) -> str:
    if ago_s == 0.0 or not _engines(there):
        return ""
    terms = []
    if "kube_state" in there:
        info = _in_pods("last_over_time(kube_pod_container_info{}[W])", options, there, ago_s or 0.0)
        by = ", ".join(("namespace", "pod", "container", "exported_container", "image", "image_spec", *SCOPE))
        terms.append(mark_series(f"group by ({by}) ({info})", "image"))
    if ago_s and "unslow" in there:
        terms.append(mark_series(options.fill(exporters()["unslow"].info, ago_s=ago_s), "unslow"))
    return any_of(terms)


def _containers(options: Options, there: Collection[str]) -> str:
    if "cadvisor" not in there or not _engines(there):
        return ""
    by = ", ".join(("namespace", "pod", *SCOPE))
    return any_of([
        mark_series(f"{fold} by ({by}) ({_in_pods(text, options, there)})", f"cadvisor.{quantity}.{rank}")
        for quantity, (fold, *texts) in exporters()["cadvisor"].readings.items()
        for rank, text in enumerate(texts)
    ])  # fmt: skip


def fill_expression(expression: str, matchers: str, window_s: float, ago_s: float = 0.0) -> str:
    """The expression with the user's matchers and window in it, `ago_s` before now."""
    step_s = float(round(max(min(STEP_S, window_s / _FEWEST_STEPS), window_s / _MOST_STEPS)))
    ago = f" offset {ago_s:.0f}s" if ago_s else ""
    text = expression.replace("[W:S]", f"[{window_s:.0f}s:{step_s:.0f}s]{ago}")
    text = text.replace("[W]", f"[{window_s:.0f}s]{ago}").replace("/ N", f"/ {window_s / step_s:.0f}")
    if not matchers:
        return text.replace("{}", "")
    return re.sub(r"\{([^}]*)\}", lambda braces: "{" + ",".join(filter(None, (braces[1], matchers))) + "}", text)


def fold_series(expression: str, fold: str, own: Sequence[str], same: Sequence[str] = ()) -> str:
    """One series for each target: copies are dropped first, then parts are put together."""
    if not fold:
        return expression
    whole = f"max without ({', '.join(same)}) ({expression})" if same else expression
    return f"{fold} without ({', '.join((*own, *same))}) ({whole})" if own or same else whole


def mark_series(expression: str, mark: str) -> str:
    """The same with a label that tells what it is."""
    return f'label_replace({expression}, "{MARK}", "{mark}", "", "")'


def any_of(terms: Sequence[str]) -> str:
    """All of them, nested in pairs: in a row, the first would be compared again with each that follows."""
    left = list(terms)
    while len(left) > 1:
        pairs = [" or ".join(left[place : place + 2]) for place in range(0, len(left), 2)]
        left = [f"({pair})" for pair in pairs] if len(pairs) > 1 else pairs
    return left[0] if left else ""


def source_of(expression: str, window_s: float) -> str:
    """The metrics of an expression and how they were taken, for a reader."""
    names = list(dict.fromkeys(_NAMES.findall(expression.partition(" unless ")[0])))
    how = next((words for function, words in _HOW.items() if f"{function}(" in expression), "")
    busy = " while busy" if _WHILE_BUSY.search(expression) else ""
    return f"{' and '.join(names)}, {how} {window_s / 60:g} min{busy}" if how else " and ".join(names)


_MATCHER = re.compile(
    r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'`,{}\\]+))\s*(?:,|$)"""
)
_ESCAPED = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_LONGEST = 2000
_EXAMPLE = """write it as in Prometheus: 'cluster="a",env=~"prod.*"'"""


def parse_matchers(text: str) -> str:
    """The matchers as they go into a selector, without braces; UserError where they are none."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if len(inner) > _LONGEST:
        raise UserError(f"--match must be at most {_LONGEST} characters", 'use a pattern: env=~"prod.*"')
    found, at = [], 0
    while at < len(inner):
        one = _MATCHER.match(inner, at)
        if one is None or one[1] == "__name__":
            raise UserError(f"{inner[at : at + 40]!r} is not a label matcher", _EXAMPLE)
        value = next(value for value in one.groups()[2:] if value is not None)
        if one[5] is None:
            # An escape that PromQL does not know, such as those of patterns, is taken as written
            value = re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[0]), value, flags=re.DOTALL)
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        found.append(f'{one[1]}{one[2]}"{value}"')
        at = one.end()
    return ",".join(found)
