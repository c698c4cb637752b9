"""The manifests against the official Kubernetes schemas and common security requirements."""

import re
import shutil
import subprocess

import kubernetes_validate
import pytest
from docs._build.exporter_series import bound
from test_deploy_commands import DEPLOY, MANIFESTS, documents, ours

from unslow.fleet.openmetrics import MOST_SUBJECTS

OFFICIAL = {path: [d for d in documents(path) if "coreos" not in d["apiVersion"]] for path in MANIFESTS}
RESOURCES = [path for path in MANIFESTS if path.name not in ("kustomization.yaml", "podmonitor.yaml")]
VERSIONS = ("1.28", "1.37")
"""An old cluster and a new one."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.stem)
def test_manifests_match_the_official_schema(path, version):
    assert OFFICIAL[path]
    for document in OFFICIAL[path]:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_wrong_field_would_be_noticed():
    (job,) = (d for d in documents(DEPLOY / "kubernetes" / "fleet-cronjob.yaml") if d["kind"] == "CronJob")
    job["spec"]["concurencyPolicy"] = "Forbid"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSIONS[1], strict=True)


@pytest.mark.parametrize("path", [path for path in RESOURCES if ours(path)], ids=lambda path: path.stem)
def test_our_containers_are_restricted(path):
    pods = [_pod(document) for document in documents(path) if document["kind"] in ("CronJob", "Deployment")]
    assert all(pod["automountServiceAccountToken"] is False for pod in pods)
    for one in ours(path):
        own, pod = one["securityContext"], pods[0].get("securityContext", {})
        assert own["readOnlyRootFilesystem"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert {**pod, **own}["runAsNonRoot"]
        assert {**pod, **own}["seccompProfile"] == {"type": "RuntimeDefault"}
        assert one["resources"]["limits"].keys() == {"cpu", "memory"}


def _pod(document: dict) -> dict:
    spec = document["spec"]
    return (spec["jobTemplate"]["spec"] if document["kind"] == "CronJob" else spec)["template"]["spec"]


def test_the_cron_job_has_a_deadline_and_does_not_overlap():
    (job,) = (d["spec"] for d in documents(DEPLOY / "kubernetes" / "fleet-cronjob.yaml") if d["kind"] == "CronJob")
    assert job["concurrencyPolicy"] == "Forbid"
    assert job["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 3600
    (one,) = ours(DEPLOY / "kubernetes" / "fleet-cronjob.yaml")
    assert int(one["args"][one["args"].index("--workers") + 1]) == int(one["resources"]["limits"]["cpu"])
    (mount,) = (m for m in one["volumeMounts"] if m["name"] == "token")
    assert one["args"][one["args"].index("--token-file") + 1] == f"{mount['mountPath']}/token"


def test_the_sidecar_has_no_readiness_probe():
    (one,) = ours(DEPLOY / "kubernetes" / "vllm-with-exporter.yaml")
    assert "readinessProbe" not in one
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    (pod,) = (_pod(d) for d in documents(DEPLOY / "kubernetes" / "vllm-with-exporter.yaml"))
    assert pod["shareProcessNamespace"]


def test_the_sidecar_mounts_the_model_of_vllm():
    (pod,) = (_pod(d) for d in documents(DEPLOY / "kubernetes" / "vllm-with-exporter.yaml"))
    vllm, sidecar = pod["containers"]
    model = vllm["args"][vllm["args"].index("--model") + 1]
    (mount,) = (one for one in vllm["volumeMounts"] if model.startswith(f"{one['mountPath']}/"))
    assert {**mount, "readOnly": True} in sidecar["volumeMounts"]


def test_ports_and_labels_agree():
    (sidecar,) = documents(DEPLOY / "kubernetes" / "vllm-with-exporter.yaml")
    (monitor,) = documents(DEPLOY / "kubernetes" / "podmonitor.yaml")
    (policy,) = documents(DEPLOY / "kubernetes" / "networkpolicy.yaml")
    pod, labels = _pod(sidecar), sidecar["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for one in pod["containers"] for port in one["ports"]}
    assert monitor["spec"]["selector"]["matchLabels"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert {end["port"] for end in monitor["spec"]["podMetricsEndpoints"]} == set(ports)
    assert {rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]} == set(ports.values())
    annotations = sidecar["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["unslow"])


def test_the_pod_monitor_has_only_known_fields():
    """The operator's schema is not among the official ones: these are the fields of its API, v1."""
    (monitor,) = documents(DEPLOY / "kubernetes" / "podmonitor.yaml")
    assert monitor.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert monitor["spec"].keys() <= {"selector", "sampleLimit", "podMetricsEndpoints", "namespaceSelector"}
    assert all(
        end.keys() <= {"port", "interval", "path", "scrapeTimeout"} for end in monitor["spec"]["podMetricsEndpoints"]
    )
    assert all(re.fullmatch(r"\d+s", end["interval"]) for end in monitor["spec"]["podMetricsEndpoints"])
    assert monitor["spec"]["sampleLimit"] > MOST_SUBJECTS * bound()


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl")
def test_kustomize_accepts_the_manifests():
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "kind: CronJob" in done.stdout
