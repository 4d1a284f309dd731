"""Routes and their OpenAPI description."""


def test_openapi_describes_every_route_and_which_need_the_token(site):
    api = site.get("/openapi.json").json
    assert set(api["paths"]) == {
        "/search",
        "/info",
        "/samples",
        "/images/{id}",
        "/images/{id}/thumbnail",
        "/items",
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
    assert guarded == {("/items", "post"), ("/items/{id}", "delete")}
    assert set(api["paths"]["/search"]["post"]["requestBody"]["content"]) == {"image/*", "multipart/form-data"}
