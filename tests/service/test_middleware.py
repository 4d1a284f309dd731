"""Middleware: host check, security headers, metrics, unexpected errors."""

import logging
import re

import pytest

from ddsh.errors import InvalidInput
from ddsh.service import Settings
from ddsh.service.log_format import RequestIdFilter
from ddsh.service.middleware import allowed_hosts

PROTECTED = {
    "content-security-policy": "default-src 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize("path", ["/", "/docs", "/static/page.js", "/info", "/nowhere", "/images/1", "/search?id=x"])
def test_every_response_has_security_headers(site, path):
    headers = site.get(path).headers
    for name, value in PROTECTED.items():
        assert headers[name].startswith(value)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "server" not in headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:8000", "[::1]", "localhost."])
def test_names_of_this_machine_are_accepted(site, host):
    assert site.get("/health", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:1@evil", "[::1", "", "a b", "10.0.0.1"]
)
def test_other_host_names_are_refused_on_a_loopback_address(site, host):
    reply = site.get("/health", Host=host)
    reply.refuses(400, "--allow-host")
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_an_allowed_host_name_is_accepted(run_service, shared_index):
    with run_service(shared_index, Settings(allowed_hosts=("Photos.example",))) as site:
        assert site.get("/health", Host="photos.example:8000").status == 200
        assert site.get("/health", Host="localhost").status == 200
        site.get("/health", Host="evil.example").refuses(400)


def test_a_public_address_accepts_all_host_names_until_some_are_allowed(run_service, shared_index):
    with run_service(shared_index, Settings(), address="192.0.2.1") as site:
        assert site.get("/health", Host="anything.example").status == 200
    assert allowed_hosts("192.0.2.1", ["a.example"]) == {"a.example", "192.0.2.1", "localhost", "127.0.0.1", "[::1]"}
    assert allowed_hosts("::1", []) == {"localhost", "127.0.0.1", "[::1]"}
    assert allowed_hosts("::", []) is None


@pytest.mark.parametrize("name", ["a.example:80", "http://a.example", "", "a b", "[::1"])
def test_an_invalid_host_name_cannot_be_allowed(name):
    with pytest.raises(InvalidInput, match="without a port"):
        allowed_hosts("127.0.0.1", [name])


def test_an_unexpected_error_is_logged_with_its_traceback_and_hidden_from_the_client(run_service, shared_index, caplog):
    async def broken():
        raise RuntimeError("secret-folder is full")

    with run_service(shared_index, Settings()) as site:
        site.app.add_api_route("/broken", broken)
        reply = site.get("/broken")
        assert site.get("/health").status == 200
    reply.refuses(500, "Internal error")
    assert b"secret" not in reply.body
    assert reply.headers["x-content-type-options"] == "nosniff"
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert "/broken" in record.getMessage()
    assert "secret-folder is full" in caplog.text
    assert "Traceback" in caplog.text


def test_metrics_count_requests_by_route_and_status_latencies_and_images(run_service, shared_index):
    with run_service(shared_index, Settings()) as site:
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


def test_metrics_show_queues_decoding_rejected_uploads_and_the_state_of_the_index(run_service, index, photo):
    def numbers(site):
        reply = site.get("/metrics")
        assert reply.status == 200
        return dict(re.findall(r"^(ddsh_\S+) (\S+)$", reply.body.decode(), re.MULTILINE))

    with run_service(index, Settings()) as site:
        assert site.post("/search", photo).status == 200
        assert site.post("/search", b"no image").status == 415
        whole = numbers(site)
        (index / "catalogue.sqlite").write_bytes(b"damaged" * 2000)
        damaged = numbers(site)
    assert whole["ddsh_decode_seconds_count"] == "2.0"
    assert whole['ddsh_rejected_uploads_total{status="415"}'] == "1.0"
    assert [whole[f'ddsh_queue{{pool="{pool}"}}'] for pool in ("encoding", "thumbnails", "changes")] == ["0.0"] * 3
    assert (whole["ddsh_index_ready"], whole["ddsh_code_bytes"]) == ("1.0", "36.0")
    assert float(whole["ddsh_index_generation"]) > 0
    assert damaged["ddsh_index_ready"] == "0.0"


def test_the_log_of_a_thread_has_the_id_of_its_request(run_service, shared_index, caplog):
    caplog.handler.addFilter(RequestIdFilter())

    def log():
        logging.getLogger("ddsh").error("in a thread")

    with run_service(shared_index, Settings()) as site:

        async def logged():
            await site.app.state.service.reading.run_in_slot(log)

        site.app.add_api_route("/logged", logged)
        assert site.get("/logged", **{"X-Request-ID": "mine"}).headers["x-request-id"] == "mine"
    assert [record.request_id for record in caplog.records if record.message == "in a thread"] == ["mine"]


@pytest.mark.parametrize("path", ["/", "/health", "/search?id=1", "/images/1", "/images/1/thumbnail"])
def test_head_requests_return_the_headers_alone(site, path):
    head, reply = site.ask("HEAD", path), site.get(path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == reply.headers["content-type"]
