"""The files in deploy/ follow the schemas of Compose and Kubernetes, and call commands that exist."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from typer.main import get_command

from ddsh.cli import app

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = Path(__file__).parents[1] / "deploy"
COMPOSE = sorted(DEPLOY.glob("compose.*.yaml"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def check_command(words):
    """Let the command line parse its arguments; the store itself is not reached."""
    context = get_command(app).commands[words[0]].make_context("serve", list(words[1:]))
    assert context.params["index"].startswith(("postgresql://", "milvus://"))


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_a_compose_file_follows_the_schema(path):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    schema = yaml.safe_load(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
    content = yaml.safe_load(path.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert not [error.message for error in validator.iter_errors(content)]
    assert list(validator.iter_errors(content | {"services": {"ddsh": {"imagee": "x"}}})), "the schema checks something"
    check_command(content["services"]["ddsh"]["command"])
    for name, service in content["services"].items():
        for secret in service.get("secrets", []):
            assert secret in content["secrets"], (name, secret)
        for volume in service.get("volumes", []):
            assert volume.startswith("${") or volume.partition(":")[0] in content["volumes"], (name, volume)
        assert set(service.get("depends_on", ())) <= content["services"].keys()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_manifests_follow_the_schemas(path):
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    documents = list(yaml.safe_load_all(path.read_text()))
    for document in documents:
        validate.validate(document, validate.latest_version(), strict=True)
    with pytest.raises(validate.ValidationError):
        validate.validate(documents[0] | {"specc": {}}, validate.latest_version(), strict=True)
    kinds = {document["kind"]: document for document in documents}
    pod = kinds["Deployment"]["spec"]["template"]
    check_command(pod["spec"]["containers"][0]["args"])
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            inside = document["spec"]["template"]
            assert document["spec"]["selector"]["matchLabels"] == inside["metadata"]["labels"]
            volumes = {volume["name"] for volume in inside["spec"].get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
            for container in inside["spec"]["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_no_address_has_a_password():
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert not re.search(r"://[^@\s/]*:[^@\s/]*@", path.read_text()), path
