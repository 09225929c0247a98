"""Where the API server serves each kind, and a request in the words of its access rules."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from convoy.core.api import names
from convoy.core.api.errors import InvalidInput
from convoy.core.cluster.port import Kind


@dataclass(frozen=True, slots=True)
class Resource:
    """What one kind is called in paths and in access rules; ``group`` is ``""`` for the core's."""

    group: str
    version: str
    plural: str
    namespaced: bool = True


RESOURCES = {
    Kind.ELASTIC_JOB: Resource(names.GROUP, names.VERSION, "elasticjobs"),
    Kind.SCALE_PLAN: Resource(names.GROUP, names.VERSION, "scaleplans"),
    Kind.POD: Resource("", "v1", "pods"),
    Kind.SERVICE: Resource("", "v1", "services"),
    Kind.SECRET: Resource("", "v1", "secrets"),
    Kind.CONFIG_MAP: Resource("", "v1", "configmaps"),
    Kind.SERVICE_ACCOUNT: Resource("", "v1", "serviceaccounts"),
    Kind.ROLE_BINDING: Resource("rbac.authorization.k8s.io", "v1", "rolebindings"),
    Kind.NODE: Resource("", "v1", "nodes", namespaced=False),
    Kind.LEASE: Resource("coordination.k8s.io", "v1", "leases"),
    Kind.EVENT: Resource("", "v1", "events"),
    Kind.NAMESPACE: Resource("", "v1", "namespaces", namespaced=False),
}


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the API server. ``namespace`` None means all; ``name`` None a collection.

    To ``create`` an object its collection is asked, whatever its name.

    Raises:
        InvalidInput: an empty namespace for a kind that has namespaces.
    """

    verb: str
    kind: Kind
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None

    def __post_init__(self) -> None:
        if self.resource.namespaced and self.namespace == "":
            raise InvalidInput(f"namespace of {self.resource.plural}: expected a name, or None for all, not ''")

    @property
    def resource(self) -> Resource:
        """What the kind is called."""
        return RESOURCES[self.kind]

    @property
    def path(self) -> str:
        """The path below the API server's address."""
        resource = self.resource
        parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
        if resource.namespaced and self.namespace is not None:
            parts += ["namespaces", self.namespace]
        name = None if self.verb == "create" else self.name
        parts += [resource.plural, *(part for part in (name, self.subresource) if part is not None)]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    @property
    def place(self) -> str:
        """The object's place, such as ``default/name``."""
        return "/".join(filter(None, (self.namespace, self.name)))

    @property
    def rule(self) -> str:
        """The access rule that would allow it, for whoever reads the refusal."""
        resource = "/".join(filter(None, (self.resource.plural, self.subresource)))
        in_one = self.resource.namespaced and self.namespace is not None
        role = f"a Role in namespace {self.namespace}" if in_one else "a ClusterRole"
        return f'{role} with apiGroups: ["{self.resource.group}"], resources: ["{resource}"], verbs: ["{self.verb}"]'

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.resource.plural, self.subresource)))
        name = f" {self.name}" if self.name else ""
        if not self.resource.namespaced:
            return f"{self.verb} {what}{name}"
        return f"{self.verb} {what}{name} in " + (
            f"namespace {self.namespace}" if self.namespace else "all namespaces"
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the API server about itself, by a path such as ``/version``."""

    path: str

    @property
    def rule(self) -> str:
        """The access rule that would allow it."""
        return f'a ClusterRole with nonResourceURLs: ["{self.path}"], verbs: ["get"]'

    def __str__(self) -> str:
        return f"get {self.path}"
