"""Routes and their OpenAPI description."""

import json
import re


def test_openapi_describes_every_route_and_which_need_the_token(site):
    api = site.get("/openapi.json").json
    assert set(api["paths"]) == {
        "/search",
        "/info",
        "/samples",
        "/points",
        "/images/{id}",
        "/images/{id}/thumbnail",
        "/items",
        "/items/labels",
        "/items/remove",
        "/items/restore",
        "/items/{id}",
        "/health",
        "/ready",
        "/metrics",
    }
    guarded = {
        (path, method)
        for path, methods in api["paths"].items()
        for method, each in methods.items()
        if "security" in each
    }
    changes = {("/items", "post"), ("/items/{id}", "delete")}
    assert guarded == changes | {(f"/items/{name}", "post") for name in ("labels", "remove", "restore")}
    assert set(api["paths"]["/search"]["post"]["requestBody"]["content"]) == {"image/*", "multipart/form-data"}


def test_openapi_describes_json_bodies_and_every_reference_resolves(site):
    api = site.get("/openapi.json").json
    content = api["paths"]["/items/labels"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    change = api["components"]["schemas"][content["properties"]["changes"]["items"]["$ref"].rpartition("/")[2]]
    assert set(change["properties"]) == {"ids", "add", "remove"}
    assert change["properties"]["ids"]["maxItems"] == 1000
    for name in re.findall(r'"\$ref": ?"#/([^"]+)"', json.dumps(api)):
        part = api
        for word in name.split("/"):
            part = part[word]


def test_the_schema_lists_every_success_of_an_upload_and_of_a_thumbnail(site):
    paths = site.get("/openapi.json").json["paths"]
    assert {"200", "201"} <= paths["/items"]["post"]["responses"].keys()
    assert {"200", "304"} <= paths["/images/{id}/thumbnail"]["get"]["responses"].keys()
