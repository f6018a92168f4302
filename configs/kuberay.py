"""The RayService of configs/kubernetes/rayservice.yaml: the fields of KubeRay 1.5.1 and later that are used, typed.

KubeRay's own part is here; pod templates are Kubernetes' own and are checked against its schema.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from configs.schema import Frozen

DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]
Count = Annotated[int, Field(ge=0, le=10_000)]


class Metadata(Frozen):
    name: DnsLabel
    namespace: DnsLabel
    labels: dict[str, str] = Field(default_factory=dict)


class PodTemplate(Frozen):
    """Kubernetes' PodTemplateSpec, checked against its schema elsewhere."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    spec: dict[str, Any]


class Group(Frozen):
    """Pods of one kind. `labels` become the Ray nodes' labels, which tiers are placed by."""

    rayStartParams: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    template: PodTemplate


class HeadGroup(Group):
    serviceType: Literal["ClusterIP"] = "ClusterIP"


class WorkerGroup(Group):
    groupName: DnsLabel
    replicas: Count
    minReplicas: Count
    maxReplicas: Annotated[int, Field(ge=1, le=10_000)]

    @model_validator(mode="after")
    def _ordered(self) -> "WorkerGroup":
        if not self.minReplicas <= self.replicas <= self.maxReplicas:
            raise ValueError("minReplicas <= replicas <= maxReplicas must hold")
        return self


class AutoscalerOptions(Frozen):
    version: Literal["v2"] = "v2"
    """The one that scales by labels."""
    upscalingMode: Literal["Default", "Aggressive", "Conservative"] = "Default"
    idleTimeoutSeconds: Annotated[int, Field(ge=10, le=86_400)] = 300


class AuthOptions(Frozen):
    mode: Literal["token"]
    """Ray listens on every interface: never without."""


class RayCluster(Frozen):
    rayVersion: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    enableInTreeAutoscaling: bool
    autoscalerOptions: AutoscalerOptions
    authOptions: AuthOptions
    headGroupSpec: HeadGroup
    workerGroupSpecs: Annotated[tuple[WorkerGroup, ...], Field(min_length=1)]


class UpgradeStrategy(Frozen):
    type: Literal["NewCluster", "NewClusterWithIncrementalUpgrade", "None"]


class RayServiceSpec(Frozen):
    serveConfigV2: Annotated[str, Field(min_length=1)]
    """Generated: python -m serve_apps.deploying.files."""
    upgradeStrategy: UpgradeStrategy
    serviceUnhealthySecondThreshold: Annotated[int, Field(ge=60, le=86_400)] = 900
    deploymentUnhealthySecondThreshold: Annotated[int, Field(ge=60, le=86_400)] = 300
    rayClusterConfig: RayCluster


class RayService(Frozen):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayService"]
    metadata: Metadata
    spec: RayServiceSpec
