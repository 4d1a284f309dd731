import gzip
import hashlib
import io
import itertools
import os
import random
import shutil
import socket
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddsh.datasets import download
from ddsh.datasets.download import SOURCES, RemoteFile, Source, fetch
from ddsh.errors import DataError, DownloadError, InvalidInput, UnknownName

BODY = random.Random(7).randbytes(100_000)
NAME = "toy.bin"


class Visit(BaseHTTPRequestHandler):
    """One request to a :class:`Site`."""

    server: "Server"
    timeout = 5

    def do_GET(self) -> None:
        site = self.server.site
        site.visits.append((self.path, self.headers.get("Range"), time.monotonic()))
        reply = site.replies.pop(0) if site.replies else site.usual
        with suppress(ConnectionError):
            reply(self)

    def log_message(self, *args: object) -> None:
        pass

    @property
    def start(self) -> int:
        wanted = self.headers.get("Range")
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0

    def head(self, status: int, *, reason: str | None = None, **headers: object) -> None:
        self.send_response(status, reason)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


Reply = Callable[[Visit], None]


@dataclass
class Site:
    """A web site that gives scripted replies, then its usual one, and remembers who asked for what."""

    body: bytes = BODY
    replies: list[Reply] = field(default_factory=list)
    usual: Reply = field(default_factory=lambda: whole)
    visits: list[tuple[str, str | None, float]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    @property
    def ranges(self) -> list[str | None]:
        return [wanted for _, wanted, _ in self.visits]


class Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, site: Site) -> None:
        self.site = site
        super().__init__(("127.0.0.1", 0), Visit)


def send(visit: Visit, *, upto: int | None = None, ranges: bool = True) -> None:
    """Answer with the rest of the body, but close the connection at byte `upto`."""
    body = visit.server.site.body
    start = visit.start if ranges else 0
    if start and start >= len(body):
        return visit.head(416, Content_Range=f"bytes */{len(body)}")
    if start:
        visit.head(
            206,
            Content_Length=len(body) - start,
            Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}",
        )
    else:
        visit.head(200, Content_Length=len(body))
    visit.wfile.write(body[start:upto])
    return None


def whole(visit: Visit) -> None:
    send(visit)


def cut(at: int) -> Reply:
    return partial(send, upto=at)


def unranged(at: int | None = None) -> Reply:
    return partial(send, upto=at, ranges=False)


def status(code: int, reason: str | None = None) -> Reply:
    return lambda visit: visit.head(code, reason=reason, Content_Length=0)


def redirect(location: str) -> Reply:
    return lambda visit: visit.head(302, Location=location)


def stall(after: int = 0) -> Reply:
    def reply(visit: Visit) -> None:
        if after:
            send(visit, upto=after)
        visit.server.site.closing.wait(5)

    return reply


def drip(visit: Visit) -> None:
    visit.head(200, Content_Length=len(BODY))
    while not visit.server.site.closing.wait(0.02):
        visit.wfile.write(b"x")


def without_length(content: bytes) -> Reply:
    def reply(visit: Visit) -> None:
        visit.head(200)
        visit.wfile.write(content)

    return reply


def with_length(length: int, content: bytes) -> Reply:
    def reply(visit: Visit) -> None:
        visit.head(200, Content_Length=length)
        visit.wfile.write(content)

    return reply


def chunked(*chunks: bytes, ended: bool = True) -> Reply:
    def reply(visit: Visit) -> None:
        visit.protocol_version = "HTTP/1.1"
        visit.head(200, Transfer_Encoding="chunked", Connection="close")
        for chunk in (*chunks, b"") if ended else chunks:
            visit.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    return reply


@contextmanager
def serving(site: Site, tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    with Server(site) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        site.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield site
        finally:
            site.closing.set()
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module", autouse=True)
def _no_proxy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        yield


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as running:
        yield running


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def sources(site: Site, **changes: Any) -> Mapping[str, Source]:
    folder = "" if changes.get("unpack_to") else "toys"
    name = "toy.tar.gz" if changes.get("unpack_to") else NAME
    file = RemoteFile(**{"url": f"{site.url}/files/{name}", "md5": md5(site.body), **changes})
    return {"toy": Source("toy", site.url, folder, (file,))}


def get(site: Site, root: Path, *, known: Mapping[str, Source] | None = None, **arguments: Any) -> list[Path]:
    arguments = {"timeout": 5.0, "attempts": 3, "pause": 0.001, **arguments}
    return fetch("toy", root, sources=known or sources(site), **arguments)


def refusal(site: Site, root: Path, *, known: Mapping[str, Source] | None = None, **arguments: Any) -> str:
    with pytest.raises(DownloadError) as caught:
        get(site, root, known=known, **arguments)
    message = str(caught.value)
    assert message.isprintable()
    return message


def everything_under(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_file_arrives_whole_under_its_name_and_nothing_else_is_left(site: Site, tmp_path: Path) -> None:
    [path] = get(site, tmp_path / "new" / "root")
    assert path == tmp_path / "new" / "root" / "toys" / NAME
    assert path.read_bytes() == BODY
    assert everything_under(tmp_path) == {f"new/root/toys/{NAME}"}
    assert [visit[:2] for visit in site.visits] == [(f"/files/{NAME}", None)]


def test_all_files_of_a_source_arrive_in_order(site: Site, tmp_path: Path) -> None:
    files = tuple(RemoteFile(f"{site.url}/{name}", md5(BODY)) for name in ("b.bin", "a.bin"))
    paths = get(site, tmp_path, known={"toy": Source("toy", "", "toys", files)})
    assert paths == [tmp_path / "toys" / "b.bin", tmp_path / "toys" / "a.bin"]
    assert all(path.read_bytes() == BODY for path in paths)


def test_a_file_with_the_right_checksum_is_not_asked_for(site: Site, tmp_path: Path) -> None:
    put(tmp_path / "toys" / NAME, BODY)
    assert get(site, tmp_path) == [tmp_path / "toys" / NAME]
    assert site.visits == []


def test_a_file_with_a_wrong_checksum_is_replaced(site: Site, tmp_path: Path) -> None:
    put(tmp_path / "toys" / NAME, b"other")
    assert get(site, tmp_path)[0].read_bytes() == BODY


def test_a_failed_download_leaves_an_older_file_as_it_was(site: Site, tmp_path: Path) -> None:
    old = put(tmp_path / "toys" / NAME, b"other")
    site.usual = cut(500)
    refusal(site, tmp_path)
    assert old.read_bytes() == b"other"


def test_a_chunked_answer_without_a_length_arrives(site: Site, tmp_path: Path) -> None:
    site.usual = chunked(BODY[:60_000], BODY[60_000:])
    assert get(site, tmp_path)[0].read_bytes() == BODY


def test_a_mirror_is_asked_in_place_of_the_official_address(site: Site, tmp_path: Path) -> None:
    known = sources(site, url=f"http://official.invalid/deep/{NAME}?version=1")
    for number, mirror in enumerate((f"{site.url}/copy of/ours", f"{site.url}/copy of/ours/")):
        assert get(site, tmp_path / str(number), known=known, mirror=mirror)[0].read_bytes() == BODY
    assert [path for path, *_ in site.visits] == [f"/copy%20of/ours/{NAME}"] * 2


def test_a_cut_connection_is_resumed_with_a_request_for_the_rest(site: Site, tmp_path: Path) -> None:
    site.replies = [cut(30_000), cut(70_001)]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [None, "bytes=30000-", "bytes=70001-"]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(1, len(BODY) - 1), max_size=8), st.booleans())
def test_wherever_connections_are_cut_the_bytes_are_the_same(cuts: set[int], size_known: bool) -> None:
    with (
        serving(Site(replies=[cut(at) for at in sorted(cuts)])) as site,
        tempfile.TemporaryDirectory() as root,
    ):
        known = sources(site, n_bytes=len(BODY) if size_known else None)
        assert get(site, Path(root), known=known, attempts=1)[0].read_bytes() == BODY
        assert site.ranges == [None, *(f"bytes={at}-" for at in sorted(cuts))]


def test_a_later_call_continues_what_an_earlier_one_left(site: Site, tmp_path: Path) -> None:
    site.replies, site.usual = [cut(40_000)], status(503)
    refusal(site, tmp_path)
    assert everything_under(tmp_path) == {f"toys/{NAME}.part"}
    site.visits, site.usual = [], whole
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == ["bytes=40000-"]
    assert everything_under(tmp_path) == {f"toys/{NAME}"}


def test_a_server_that_ignores_ranges_makes_it_start_over(site: Site, tmp_path: Path) -> None:
    site.replies, site.usual = [unranged(40_000)], unranged()
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [None, "bytes=40000-"]


def test_starting_over_again_and_again_without_getting_further_ends(site: Site, tmp_path: Path) -> None:
    site.usual = unranged(40_000)
    assert "after 40,000 of 100,000 bytes" in refusal(site, tmp_path, attempts=3)
    assert len(site.visits) == 4


def test_a_server_that_sends_another_range_makes_it_start_over(site: Site, tmp_path: Path) -> None:
    def from_the_wrong_place(visit: Visit) -> None:
        visit.head(206, Content_Length=10, Content_Range=f"bytes 5-14/{len(BODY)}")
        visit.wfile.write(BODY[5:15])

    site.replies = [cut(40_000), from_the_wrong_place]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [None, "bytes=40000-", None]


def test_a_cut_chunked_answer_is_resumed(site: Site, tmp_path: Path) -> None:
    site.replies = [chunked(BODY[:50_000], ended=False)]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [None, "bytes=50000-"]


def test_an_answer_without_a_length_is_resumed_if_the_size_is_known(site: Site, tmp_path: Path) -> None:
    site.replies = [without_length(BODY[:50_000])]
    assert get(site, tmp_path, known=sources(site, n_bytes=len(BODY)))[0].read_bytes() == BODY
    assert site.ranges == [None, "bytes=50000-"]


def test_a_complete_part_of_known_size_needs_no_server(site: Site, tmp_path: Path) -> None:
    put(tmp_path / "toys" / f"{NAME}.part", BODY)
    assert get(site, tmp_path, known=sources(site, n_bytes=len(BODY)))[0].read_bytes() == BODY
    assert site.visits == []
    assert everything_under(tmp_path) == {f"toys/{NAME}"}


def test_a_complete_part_of_unknown_size_is_told_by_its_checksum(site: Site, tmp_path: Path) -> None:
    put(tmp_path / "toys" / f"{NAME}.part", BODY)
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [f"bytes={len(BODY)}-"]


@pytest.mark.parametrize("n_bytes", [None, len(BODY)])
@pytest.mark.parametrize("size", [1, len(BODY), len(BODY) + 5])
def test_a_part_with_foreign_content_is_thrown_away(site: Site, tmp_path: Path, size: int, n_bytes: int | None) -> None:
    put(tmp_path / "toys" / f"{NAME}.part", b"x" * size)
    assert get(site, tmp_path, known=sources(site, n_bytes=n_bytes))[0].read_bytes() == BODY
    assert site.ranges == ([None] if n_bytes and size >= n_bytes else [f"bytes={size}-", None])


def test_wrong_content_is_downloaded_once_more_from_zero(site: Site, tmp_path: Path) -> None:
    site.replies = [with_length(len(BODY), BODY[::-1])]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert site.ranges == [None, None]


def test_wrong_content_twice_is_refused_with_both_checksums(site: Site, tmp_path: Path) -> None:
    site.usual = with_length(len(BODY), BODY[::-1])
    message = refusal(site, tmp_path)
    assert md5(BODY) in message
    assert md5(BODY[::-1]) in message
    assert f"{site.url}/files/{NAME}" in message
    assert "--mirror" in message
    assert len(site.visits) == 2
    assert everything_under(tmp_path) == set()


@pytest.mark.parametrize("length", [len(BODY) - 1, len(BODY) + 1])
def test_a_server_that_announces_another_size_is_refused_at_once(site: Site, tmp_path: Path, length: int) -> None:
    part = put(tmp_path / "toys" / f"{NAME}.part", BODY[:100])
    site.usual = with_length(length, b"a page about something else")
    message = refusal(site, tmp_path, known=sources(site, n_bytes=len(BODY)))
    assert f"{length:,} bytes" in message
    assert "100,000" in message
    assert len(site.visits) == 1
    assert part.read_bytes() == BODY[:100]


def test_an_announced_size_beyond_every_dataset_is_refused_at_once(site: Site, tmp_path: Path) -> None:
    site.usual = with_length(10**13, BODY)
    assert "10,000,000,000,000 bytes" in refusal(site, tmp_path)
    assert len(site.visits) == 1
    assert everything_under(tmp_path) == set()


@pytest.mark.parametrize("too_much", [without_length(BODY + b"x"), chunked(BODY, b"x")])
def test_more_bytes_than_there_should_be_stop_it_at_once(site: Site, tmp_path: Path, too_much: Reply) -> None:
    site.usual = too_much
    assert "more than 100,000 bytes" in refusal(site, tmp_path, known=sources(site, n_bytes=len(BODY)))
    assert len(site.visits) == 1
    assert everything_under(tmp_path) == set()


def test_bytes_beyond_the_announced_length_are_not_taken(site: Site, tmp_path: Path) -> None:
    site.usual = with_length(len(BODY), BODY + b"x" * 1000)
    assert get(site, tmp_path)[0].read_bytes() == BODY


@pytest.mark.parametrize("code", [401, 403, 404, 410, 416, 204])
def test_a_refusal_is_final_at_once(site: Site, tmp_path: Path, code: int) -> None:
    site.usual = status(code)
    message = refusal(site, tmp_path)
    assert f"HTTP {code}" in message
    assert f"{site.url}/files/{NAME}" in message
    assert len(site.visits) == 1
    assert everything_under(tmp_path) == set()


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503])
def test_a_passing_failure_is_tried_again(site: Site, tmp_path: Path, code: int) -> None:
    site.replies = [status(code), status(code)]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert len(site.visits) == 3


def test_a_lasting_failure_ends_after_the_attempts_and_says_what_to_do(site: Site, tmp_path: Path) -> None:
    site.usual = status(500)
    message = refusal(site, tmp_path, attempts=4)
    assert len(site.visits) == 4
    for part in (f"{site.url}/files/{NAME}", "HTTP 500", "again to resume", "--mirror"):
        assert part in message


def test_pauses_grow_from_attempt_to_attempt(site: Site, tmp_path: Path) -> None:
    site.replies = [status(500)] * 3
    get(site, tmp_path, attempts=4, pause=0.02)
    times = [moment for *_, moment in site.visits]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(gap >= 0.02 * 2**failures for failures, gap in enumerate(gaps, start=1))


def test_attempts_are_counted_anew_after_one_that_brought_bytes(site: Site, tmp_path: Path) -> None:
    site.replies = [status(500), cut(10), status(500), cut(20), status(500), cut(30), status(500)]
    assert get(site, tmp_path, attempts=2)[0].read_bytes() == BODY


def test_a_server_that_sends_one_byte_per_connection_is_given_up_on(site: Site, tmp_path: Path) -> None:
    site.usual = lambda visit: send(visit, upto=visit.start + 1)
    assert "after 100 of 100,000 bytes" in refusal(site, tmp_path, attempts=1, pause=0)
    assert len(site.visits) == 100


@pytest.mark.parametrize("after", [0, 50_000])
def test_a_stalled_server_is_left_and_asked_again(site: Site, tmp_path: Path, after: int) -> None:
    site.replies = [stall(after)]
    assert get(site, tmp_path, timeout=0.3)[0].read_bytes() == BODY
    assert site.ranges == [None, f"bytes={after}-" if after else None]


def test_a_server_that_always_stalls_ends_in_an_error(site: Site, tmp_path: Path) -> None:
    site.usual = stall()
    message = refusal(site, tmp_path, timeout=0.1, attempts=2)
    assert "does not answer in time" in message
    assert "again to resume" in message


def test_a_server_that_drips_is_treated_as_one_that_stalls(site: Site, tmp_path: Path) -> None:
    site.replies, site.usual = [drip], status(404)
    refusal(site, tmp_path, timeout=0.2)
    assert len(site.visits) == 2


def test_a_server_that_is_not_there_ends_in_an_error(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        message = refusal(Site(url=f"http://127.0.0.1:{unused.getsockname()[1]}"), tmp_path)
    assert "refused" in message
    assert "--mirror" in message


def test_an_answer_that_is_not_http_ends_in_an_error(site: Site, tmp_path: Path) -> None:
    def garbage(visit: Visit) -> None:
        visit.wfile.write(b"\x1b[31m\x00 who is there?\n")

    site.usual = garbage
    refusal(site, tmp_path)
    assert len(site.visits) == 3


def test_control_characters_from_a_server_do_not_reach_the_message(site: Site, tmp_path: Path) -> None:
    site.usual = status(404, "gone\x1b[31m\x07 for ever" + "!" * 10_000)
    message = refusal(site, tmp_path)
    assert "gone" in message
    assert len(message) < 400


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_and_keeps_the_range(site: Site, tmp_path: Path, code: int) -> None:
    put(tmp_path / "toys" / f"{NAME}.part", BODY[:10])
    site.replies = [lambda visit: visit.head(code, Location="../moved/it is here")]
    assert get(site, tmp_path)[0].read_bytes() == BODY
    assert [visit[:2] for visit in site.visits] == [
        (f"/files/{NAME}", "bytes=10-"),
        ("/moved/it%20is%20here", "bytes=10-"),
    ]


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/hostname",
        "ftp://127.0.0.1/x",
        "data:,x",
        "http://[bad/",
        "http://127.0.0.1:x/",
    ],
)
def test_a_redirect_that_leaves_the_web_is_not_followed(site: Site, tmp_path: Path, location: str) -> None:
    site.usual = redirect(location)
    assert "not safe to follow" in refusal(site, tmp_path)
    assert len(site.visits) == 1
    assert everything_under(tmp_path) == set()


def test_redirects_in_a_circle_end(site: Site, tmp_path: Path) -> None:
    site.usual = redirect("/round")
    assert "redirects" in refusal(site, tmp_path)
    assert len(site.visits) == 11


@pytest.mark.parametrize(
    "mirror",
    [
        "file:///tmp",
        "ftp://127.0.0.1",
        "/some/folder",
        "",
        "http://",
        "http://[bad",
        "http://127.0.0.1:x/",
        "http://a\n",
    ],
)
def test_a_mirror_that_is_not_a_web_address_is_refused(site: Site, tmp_path: Path, mirror: str) -> None:
    assert "http" in refusal(site, tmp_path, mirror=mirror, attempts=1, timeout=0.5)
    assert site.visits == []


@pytest.mark.parametrize("host", ["a..b", "user:secret@127.0.0.1"])
def test_a_host_that_cannot_exist_is_final_at_once(site: Site, tmp_path: Path, host: str) -> None:
    begun = time.monotonic()
    assert "Cannot download" in refusal(site, tmp_path, mirror=f"http://{host}", pause=60)
    assert time.monotonic() - begun < 30


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes a certificate with openssl")
    path = tmp_path / "certificate.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", f"{path}.public"]
    subprocess.run(
        [openssl, "req", "-x509", "-days", "2", "-subj", "/CN=toy", *key, *name],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.public").read_bytes())
    return path


@pytest.fixture
def secure_site(certificate: Path) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(Site(), context) as running:
        yield running


def test_https_works_but_is_not_redirected_down_to_http(
    site: Site, secure_site: Site, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert get(secure_site, tmp_path / "direct")[0].read_bytes() == BODY
    site.replies = [redirect(f"{secure_site.url}/up")]
    assert get(site, tmp_path / "up")[0].read_bytes() == BODY
    secure_site.usual = redirect(f"{site.url}/down")
    assert "not safe to follow" in refusal(secure_site, tmp_path / "down")
    assert "/down" not in [path for path, *_ in site.visits]


def test_a_server_with_an_unknown_certificate_is_final_at_once(secure_site: Site, tmp_path: Path) -> None:
    begun = time.monotonic()
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(secure_site, tmp_path / "root", pause=60)
    assert time.monotonic() - begun < 30
    assert secure_site.visits == []


def reports(site: Site, root: Path, **arguments: Any) -> list[tuple[str, int, int | None]]:
    seen: list[tuple[str, int, int | None]] = []
    get(site, root, on_progress=lambda *report: seen.append(report), **arguments)
    return seen


def test_progress_grows_through_cuts_and_ends_at_the_total(site: Site, tmp_path: Path) -> None:
    site.replies = [cut(30_000), status(500), cut(70_000)]
    seen = reports(site, tmp_path)
    done = [done for _, done, _ in seen]
    assert done == sorted(done)
    assert {30_000, 70_000} <= set(done)
    assert seen[-1] == (NAME, len(BODY), len(BODY))
    assert {(name, total) for name, _, total in seen} == {(NAME, len(BODY))}


def test_progress_of_unknown_size_still_ends_at_the_total(site: Site, tmp_path: Path) -> None:
    site.usual = without_length(BODY)
    seen = reports(site, tmp_path)
    assert seen[0][2] is None
    assert seen[-1] == (NAME, len(BODY), len(BODY))


def test_a_continued_part_counts_as_progress(site: Site, tmp_path: Path) -> None:
    put(tmp_path / "toys" / f"{NAME}.part", BODY[:40_000])
    assert min(done for _, done, _ in reports(site, tmp_path)) > 40_000


def archive(members: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def half_an_archive() -> bytes:
    return gzip.compress(gzip.decompress(archive({"toy/a.bin": BODY}))[:50_000])


def test_an_archive_becomes_its_folder_and_is_removed(site: Site, tmp_path: Path) -> None:
    site.body = archive({"toy/a.bin": b"a", "toy/deep/b.bin": b"b", "stray": b"x"})
    site.replies = [cut(50)]
    assert get(site, tmp_path, known=sources(site, unpack_to="toy")) == [tmp_path / "toy"]
    assert everything_under(tmp_path) == {"toy/a.bin", "toy/deep/b.bin"}
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]
    assert (tmp_path / "toy" / "deep" / "b.bin").read_bytes() == b"b"


def test_a_folder_that_is_there_is_not_downloaded(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    assert get(site, tmp_path, known=sources(site, unpack_to="toy")) == [tmp_path / "toy"]
    assert site.visits == []


def test_an_archive_that_is_there_is_unpacked_without_a_download(site: Site, tmp_path: Path) -> None:
    site.body = archive({"toy/a.bin": b"a"})
    put(tmp_path / "toy.tar.gz", site.body)
    get(site, tmp_path, known=sources(site, unpack_to="toy"))
    assert site.visits == []
    assert everything_under(tmp_path) == {"toy/a.bin"}


@pytest.mark.parametrize(
    "content",
    [
        archive({"toy/a.bin": b"a", "../escaped": b"x"}),
        archive({"toy/a.bin": b"a", "toy/../../escaped": b"x"}),
        archive({"toy/link": link("toy/link", "../../escaped"), "toy/link/x": b"x"}),
        archive({"toy/link": link("toy/link", "/etc/hostname")}),
        archive({"other/a.bin": b"a"}),
        archive({"toy": b"a file"}),
        archive({"other/a.bin": b"a", "toy": link("toy", "other")}),
        archive({"toy/a.bin": BODY})[:-50_000],
        half_an_archive() + gzip.compress(b"")[:10] + b"\x07" * 100,
        half_an_archive() + b"no gzip" * 100,
        BODY,
        b"",
    ],
    ids=[
        "parent",
        "hidden parent",
        "link out",
        "absolute link",
        "other folder",
        "file for folder",
        "link for folder",
        "truncated",
        "damaged data",
        "damaged header",
        "no archive",
        "empty",
    ],
)
def test_an_archive_that_is_not_what_it_should_be_leaves_nothing_behind(
    site: Site, tmp_path: Path, content: bytes
) -> None:
    site.body = content
    root = tmp_path / "outer" / "root"
    assert "toy.tar.gz" in refusal(site, root, known=sources(site, unpack_to="toy"))
    assert list(root.iterdir()) == []
    assert everything_under(tmp_path) == set()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("first", [True, False])
def test_a_long_header_of_an_archive_is_not_read_into_memory(
    site: Site, tmp_path: Path, kind: bytes, first: bool
) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 40_000_000
    start = b"" if first else tarfile.TarInfo("toy/a").tobuf()
    site.body = gzip.compress(start + header.tobuf(tarfile.GNU_FORMAT) + bytes(header.size))
    tracemalloc.start()
    try:
        message = refusal(site, tmp_path, known=sources(site, unpack_to="toy"))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "has a header of 40,000,000 bytes" in message


def test_a_name_with_a_nul_in_an_archive_is_refused_in_one_line(site: Site, tmp_path: Path) -> None:
    member, file = tarfile.TarInfo("toy/a"), io.BytesIO()
    member.pax_headers = {"path": "toy/a\0b"}
    with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member)
    site.body = file.getvalue()
    assert "cannot be unpacked" in refusal(site, tmp_path, known=sources(site, unpack_to="toy"))
    assert everything_under(tmp_path) == set()


def test_members_with_absolute_names_stay_inside(site: Site, tmp_path: Path) -> None:
    site.body = archive({f"{tmp_path}/escaped": b"x", "toy/a.bin": b"a"})
    get(site, tmp_path / "root", known=sources(site, unpack_to="toy"))
    assert everything_under(tmp_path) == {"root/toy/a.bin"}


def test_a_root_that_is_a_file_is_said_in_one_line(site: Site, tmp_path: Path) -> None:
    root = put(tmp_path / "root", b"")
    assert str(root) in refusal(site, root)
    assert site.visits == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_in_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / f"{NAME}.part").symlink_to("/dev/full")
    message = refusal(site, tmp_path)
    assert "No space left" in message
    assert "--root" in message
    assert len(site.visits) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_said_in_one_line(site: Site, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refusal(site, tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_an_archive_is_kept_when_its_folder_cannot_be_stored(site: Site, tmp_path: Path) -> None:
    site.body = archive({"toy/a.bin": b"a"})
    put(tmp_path / "toy", b"a file in the way")
    assert "--root" in refusal(site, tmp_path, known=sources(site, unpack_to="toy"))
    assert everything_under(tmp_path) == {"toy", "toy.tar.gz"}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"Unknown dataset to fetch 'cifar1'\. Did you mean 'cifar10'\?"):
        fetch("cifar1", "unused")


def test_nuswide_says_where_to_get_it_and_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch("nuswide", tmp_path)
    for part in ("NUS-WIDE.html", "ImageList/", "Groundtruth/AllLabels/", "Flickr/", "images/"):
        assert part in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "argument",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"attempts": 0},
        {"pause": -1},
        {"pause": float("nan")},
    ],
)
def test_impossible_limits_are_refused(site: Site, tmp_path: Path, argument: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(argument))):
        get(site, tmp_path, **argument)


def test_the_known_sources_are_well_formed() -> None:
    assert set(SOURCES) == {"cifar10", "cifar10-python", "cifar10-matlab", "svhn", "fashion-mnist", "mnist"}
    assert all(name == source.name for name, source in SOURCES.items())
    files = [(source, file) for source in SOURCES.values() for file in source.files]
    assert len({file.md5 for _, file in files}) == len(files) == 13
    for source, file in files:
        assert file.url.startswith(("http://", "https://"))
        assert len(bytes.fromhex(file.md5)) == 16
        assert bool(source.folder) != bool(file.unpack_to)
        assert file.name == file.url.rsplit("/", 1)[1]


def test_known_sources_are_looked_up_at_a_mirror_under_their_own_names(site: Site, tmp_path: Path) -> None:
    site.usual = status(404)
    for name in SOURCES:
        with pytest.raises(DownloadError):
            fetch(name, tmp_path, mirror=site.url)
    assert [path for path, *_ in site.visits] == [f"/{source.files[0].name}" for source in SOURCES.values()]


def test_an_archive_that_grows_beyond_measure_is_not_unpacked(tmp_path):
    archive = tmp_path / "bomb.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for number in range(3):
            member = tarfile.TarInfo(f"folder/{number}")
            member.size = 100_000_000
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    with pytest.raises(DownloadError, match=r"cannot be unpacked.*holds more than"):
        download._unpack(archive, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
