"""The committed CustomResourceDefinitions are those of the models, and an API server would take them."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from convoy.operator import crds
from support.operator_world import job_manifest, plan_manifest

_ALLOWED = {
    *("type", "description", "enum", "minimum", "maximum", "pattern", "format", "required", "properties", "items"),
    *("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
    *("additionalProperties", "anyOf", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def check(node: dict[str, Any], path: str) -> None:
    """Assert that a node is structural."""
    assert set(node) <= _ALLOWED, f"{path}: {set(node) - _ALLOWED}"
    free = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
    assert "type" in node or free, f"{path}: no type"
    if "anyOf" in node:
        assert node["x-kubernetes-int-or-string"], path
        assert node["anyOf"] == INT_OR_STRING, path
    assert not {"properties", "additionalProperties"} <= set(node), f"{path}: both"
    assert set(node.get("required", ())) <= set(node.get("properties", ())), path
    if node.get("x-kubernetes-list-type") == "map":
        assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), path
    for name, inner in node.get("properties", {}).items():
        check(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in node:
            check(node[name], f"{path}.{name}")


@pytest.fixture(params=sorted(crds.definitions()))
def definition(request: pytest.FixtureRequest) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((crds.DIRECTORY / request.param).read_text())
    return loaded


def test_schemas_are_structural(definition: dict[str, Any]) -> None:
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    check(schema, "")
    assert schema["type"] == "object"
    assert version["subresources"]["status"] == {}
    assert schema["properties"]["metadata"]["type"] == "object"
    conditions = schema["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    plural, kind = definition["spec"]["names"]["plural"], definition["spec"]["names"]["kind"]
    assert definition["metadata"]["name"] == f"{plural}.elastic.iml.github.io"
    for column in version["additionalPrinterColumns"]:
        node = schema
        for part in column["jsonPath"].split(".")[1:] if "metadata" not in column["jsonPath"] else ():
            node = node["properties"][part]
        assert column["type"] in ("date", node["type"]), column
    assert kind in ("ElasticJob", "ScalePlan")


def test_bounds_enums_and_open_templates_are_kept() -> None:
    schema = crds.definitions()["elasticjobs.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    assert spec["distributionStrategy"]["enum"] == ["AllreduceStrategy", "ParameterServerStrategy"]
    role = spec["replicaSpecs"]["additionalProperties"]
    assert (role["properties"]["replicas"]["minimum"], role["properties"]["replicas"]["maximum"]) == (0, 100_000)
    assert role["properties"]["template"]["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize(
    ("file", "manifest"), [("elasticjobs.yaml", job_manifest()), ("scaleplans.yaml", plan_manifest(0))]
)
def test_manifests_pass_the_schema(file: str, manifest: dict[str, Any]) -> None:
    schema = crds.definitions()[file]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def known(value: Any, node: dict[str, Any], path: str) -> None:
        if path == ".metadata" or node.get("x-kubernetes-int-or-string"):
            return
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": float, "boolean": bool}
        assert isinstance(value, kinds[node["type"]]), path
        for key, item in value.items() if isinstance(value, dict) else ():
            inner = node.get("properties", {}).get(key, node.get("additionalProperties"))
            assert inner or node.get("x-kubernetes-preserve-unknown-fields"), f"{path}.{key} would be pruned"
            if inner:
                known(item, inner, f"{path}.{key}")
        for item in value if isinstance(value, list) else ():
            known(item, node["items"], path)

    known(manifest, schema, "")


def test_the_committed_files_are_fresh() -> None:
    assert crds.stale(crds.DIRECTORY) == []


def test_a_stale_file_is_named_and_writing_mends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["--directory", str(tmp_path)]) == 0
    assert crds.main(["--directory", str(tmp_path), "--check"]) == 0
    (tmp_path / "scaleplans.yaml").write_text("old")
    assert crds.main(["--directory", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'scaleplans.yaml'}: stale")


def test_applying_says_which_package_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "convoy.operator.install", None)
    assert crds.main(["--apply"]) == 2
    assert "pip install 'convoy-train[kubernetes]'" in capsys.readouterr().err


def test_applying_says_that_there_is_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.main(["--apply", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"no Kubernetes configuration: {tmp_path / 'none'} isn't there")
