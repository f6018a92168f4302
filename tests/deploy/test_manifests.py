"""The manifests and the generated Serve config: in step with configs/cluster.yaml, and what Kubernetes accepts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from configs.deployment import Deployment, load_deployment
from configs.errors import InputError
from configs.kuberay import RayService
from configs.schema import parse, read_yaml
from serve_apps.applications import APPLICATIONS
from serve_apps.deploying.files import CLUSTER, RAY_SERVICE, SERVE, written
from serve_apps.deploying.plan import needs, serve_config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "kubernetes"
KUBERNETES = "1.34"


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, document in enumerate(YAML(typ="safe", pure=True).load_all(path.read_text())):
            yield f"{path.name}-{number}", document


DOCUMENTS = dict(documents())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_kubernetes_accepts_it(name: str) -> None:
    document = DOCUMENTS[name]
    if document["apiVersion"] == "ray.io/v1":
        for group in groups(document):
            pod = {"apiVersion": "v1", "kind": "Pod", **{"metadata": {"name": "x"}, "spec": group["template"]["spec"]}}
            kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    elif document["apiVersion"] != "kustomize.config.k8s.io/v1beta1":
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def groups(ray_service: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = ray_service["spec"]["rayClusterConfig"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_kubernetes_would_refuse_a_misspelt_field() -> None:
    document = dict(DOCUMENTS["ingress.yaml-0"], spec={"ingresClassName": "nginx"})
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_every_file_is_applied_or_an_example() -> None:
    listed = set(DOCUMENTS["kustomization.yaml-0"]["resources"])
    assert listed == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml", "secrets.example.yaml"}


def test_the_ray_service_is_what_kuberay_takes() -> None:
    service = parse(RayService, read_yaml(RAY_SERVICE), str(RAY_SERVICE))
    cluster = service.spec.rayClusterConfig
    requirements = (ROOT / "requirements" / "gpu.lock").read_text()
    assert f"ray=={cluster.rayVersion}\n" in requirements
    labels = [group.labels for group in cluster.workerGroupSpecs]
    deployment = load_deployment(CLUSTER)
    assert deployment.llm.nodes in labels and deployment.voice.nodes in labels


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "minReplicas"), 9, "minReplicas <= replicas"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "maxReplicas"), 0, "maxReplicas = 0"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 1, "groupName"), "CPU_1", "groupName = 'CPU_1'"),
        (("spec", "rayClusterConfig", "authOptions", "mode"), "disabled", "authOptions.mode = 'disabled'"),
        (("spec", "rayClusterConfig", "rayVersion"), "latest", "rayVersion = 'latest'"),
        (("spec", "rayClusterConfig", "replica"), 2, "unknown key"),
        (("spec", "serviceUnhealthySecondThreshold"), 5, "serviceUnhealthySecondThreshold = 5"),
    ],
)
def test_a_value_out_of_range_is_named(path: tuple[str | int, ...], value: object, said: str) -> None:
    data = read_yaml(RAY_SERVICE)
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InputError, match=re.escape(said)):
        parse(RayService, data, "rayservice.yaml")


@pytest.mark.parametrize("path", written(), ids=lambda path: path.name)
def test_the_generated_files_are_in_step(path: Path) -> None:
    assert path.read_text() == written()[path], "run: python -m serve_apps.deploying.files"


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on:DeprecationWarning")  # Ray's own, at its import
def test_serve_takes_its_config_and_every_builder_is_there() -> None:
    from ray.serve.schema import ServeDeploySchema

    config = ServeDeploySchema.model_validate(read_yaml(SERVE))
    assert [application.name for application in config.applications] == [served.name for served in APPLICATIONS]
    for application, served in zip(config.applications, APPLICATIONS, strict=True):
        assert application.import_path == served.import_path
        sent = parse(Deployment, application.args, "args")
        assert sent == load_deployment(CLUSTER), "what a replica is given is what was configured"
    inside = read_yaml(RAY_SERVICE)["spec"]["serveConfigV2"]
    assert YAML(typ="safe", pure=True).load(inside) == read_yaml(SERVE)


def test_every_secret_that_is_wanted_is_in_the_example() -> None:
    wanted = needs(load_deployment(CLUSTER)).secrets
    assert {"FIRSTCLAUSE_LINK_SECRET", "FIRSTCLAUSE_TURN_SECRET", "PGPASSWORD"} == set(wanted)
    assert set(wanted) <= set(DOCUMENTS["secrets.example.yaml-0"]["stringData"])
    assert not any(serve_config(load_deployment(CLUSTER))["applications"][0]["args"].get("secrets", {}))


def test_no_manifest_holds_a_secret() -> None:
    for name, document in DOCUMENTS.items():
        if document["kind"] == "Secret":
            values = [value for key, value in document["stringData"].items() if "SECRET" in key or "PASS" in key]
            assert set(values) <= {""}, name


def test_the_budgets_and_policies_choose_pods_that_exist() -> None:
    pods = [group["template"]["metadata"]["labels"] for group in groups(DOCUMENTS["rayservice.yaml-0"])]
    pods += [
        document["spec"]["template"]["metadata"]["labels"]
        for document in DOCUMENTS.values()
        if document["kind"] in ("StatefulSet", "Deployment")
    ]
    for name, document in DOCUMENTS.items():
        spec = document.get("spec", {})
        selector = spec.get("selector" if document["kind"] == "PodDisruptionBudget" else "podSelector", {})
        wanted = selector.get("matchLabels", {})
        assert any(wanted.items() <= labels.items() for labels in pods), name


def test_the_container_files_take_the_locked_packages() -> None:
    for kind in ("cpu", "gpu"):
        text = (ROOT / "containers" / f"{kind}.Dockerfile").read_text()
        assert f"requirements/{kind}.lock" in text and "USER 1000" in text
        assert not re.search(r"^(ARG|ENV).*(PASS|SECRET|TOKEN)", text, re.MULTILINE)


def test_the_runbook_has_a_row_for_every_alert() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    for path in (ROOT / "configs" / "alerts").glob("*.yaml"):
        for group in read_yaml(path)["groups"]:
            for rule in group["rules"]:
                assert f"| {rule['alert']} |" in runbook, f"{path.name}: {rule['alert']}"
