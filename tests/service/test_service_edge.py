"""What surrounds every request: hosts, headers, numbers, bugs; and what an operator looks at."""

import logging
import re

import pytest
from running_service import running

from ddsh.errors import InvalidInput
from ddsh.service import Settings
from ddsh.service.security import names_of

PROTECTED = {
    "content-security-policy": "default-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize("path", ["/", "/docs", "/static/page.js", "/info", "/nowhere", "/images/1", "/search?id=x"])
def test_every_answer_protects_the_page(site, path):
    headers = site.get(path).headers
    for name, value in PROTECTED.items():
        assert headers[name].startswith(value)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "server" not in headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8000", "[::1]", "localhost."])
def test_the_names_of_this_machine_are_answered_to(site, host):
    assert site.get("/health", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:1@evil", "[::1", "", "a b", "10.0.0.1"]
)
def test_other_names_are_not_answered_to_where_only_this_machine_is_served(site, host):
    reply = site.get("/health", Host=host)
    reply.refuses(400, "--allow-host")
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_name_that_the_operator_allows_is_answered_to(made):
    with running(made, Settings(allow_hosts=("Photos.example",))) as site:
        assert site.get("/health", Host="photos.example:8000").status == 200
        assert site.get("/health", Host="localhost").status == 200
        site.get("/health", Host="evil.example").refuses(400)


def test_a_service_for_other_machines_answers_to_any_name_until_some_are_named(made):
    with running(made, Settings(), address="192.0.2.1") as site:
        assert site.get("/health", Host="anything.example").status == 200
    assert names_of("192.0.2.1", ["a.example"]) == {"a.example", "192.0.2.1", "localhost", "127.0.0.1", "[::1]"}
    assert names_of("::1", []) == {"localhost", "127.0.0.1", "[::1]"}
    assert names_of("::", []) is None


@pytest.mark.parametrize("name", ["a.example:80", "http://a.example", "", "a b", "[::1"])
def test_what_is_no_name_cannot_be_allowed(name):
    with pytest.raises(InvalidInput, match="without a port"):
        names_of("127.0.0.1", [name])


def test_a_bug_is_logged_with_its_traceback_and_the_client_learns_nothing(made, caplog):
    async def broken():
        raise RuntimeError("secret-folder is full")

    with running(made, Settings()) as site:
        site.app.add_api_route("/broken", broken)
        reply = site.get("/broken")
        assert site.get("/health").status == 200
    reply.refuses(500, "bug")
    assert b"secret" not in reply.body
    assert reply.headers["x-content-type-options"] == "nosniff"
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert "/broken" in record.getMessage()
    assert "secret-folder is full" in caplog.text
    assert "Traceback" in caplog.text


def test_an_index_that_cannot_be_read_is_not_ready_but_the_process_lives(made, caplog):
    with running(made, Settings()) as site:
        assert site.get("/ready").json == {"status": "ready", "n_images": 18}
        site.search.close()
        reply = site.get("/ready")
        assert site.get("/health").json == {"status": "ok"}
    reply.refuses(503, "the server's log says why")
    assert reply.headers["retry-after"]
    assert "catalogue.sqlite" in caplog.text


def test_numbers_tell_requests_by_route_and_status_their_times_and_the_images(made):
    with running(made, Settings()) as site:
        for path in ("/search?id=1", "/search?id=2", "/search?id=x", "/images/1", "/a", "/b/c", "/static/page.css"):
            site.get(path)
        site.get("/health", Host="evil.example")
        reply = site.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    numbers = dict(re.findall(r"^(ddsh_\S+) (\S+)$", reply.body.decode(), re.MULTILINE))
    assert numbers['ddsh_requests_total{route="/search",status="200"}'] == "2.0"
    assert numbers['ddsh_requests_total{route="/search",status="422"}'] == "1.0"
    assert numbers['ddsh_requests_total{route="/images/{id}",status="200"}'] == "1.0"
    assert numbers['ddsh_requests_total{route="/static/{name}",status="200"}'] == "1.0"
    assert numbers['ddsh_requests_total{route="none",status="404"}'] == "2.0"
    assert numbers['ddsh_requests_total{route="none",status="400"}'] == "1.0"
    assert numbers['ddsh_request_seconds_count{route="/search"}'] == "3.0"
    assert numbers['ddsh_request_seconds_bucket{le="+Inf",route="/search"}'] == "3.0"
    assert numbers["ddsh_images"] == "18.0"


@pytest.mark.parametrize("path", ["/", "/health", "/search?id=1", "/images/1", "/images/1/thumbnail"])
def test_headers_alone_may_be_asked_for(site, path):
    head, reply = site.ask("HEAD", path), site.get(path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == reply.headers["content-type"]


def test_the_pages_need_nothing_from_elsewhere(site):
    for page in ("/", "/docs"):
        text = site.get(page).body.decode()
        files = re.findall(r'(?:src|href)="(static/[^"]+)"', text)
        assert len(files) > 2
        for file in files:
            assert site.get(f"/{file}").status == 200
        assert "http" not in re.sub(r"<!doctype html>", "", text)
        assert re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", text) is None


def test_the_description_of_the_api_names_every_route_and_what_guards_it(site):
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


def test_pages_and_their_files_are_asked_for_again_after_an_upgrade(site):
    for path in ("/", "/docs", "/static/page.css"):
        assert site.get(path).headers["cache-control"] == "no-cache"
    again = site.ask("GET", "/static/page.css", headers={"If-None-Match": site.get("/static/page.css").headers["etag"]})
    assert again.status == 304
