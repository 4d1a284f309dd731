"""Access token."""

import pytest

from ddsh.errors import DdshError
from ddsh.service import Settings, find_token

TOKEN = "a-token-of-24-characters"
BODY = b'{"changes": [], "ids": [1]}'
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, "Authorization: Bearer"),
        ({"Authorization": TOKEN}, "Authorization: Bearer"),
        ({"Authorization": "Basic abc"}, "Authorization: Bearer"),
        ({"Authorization": "Bearer "}, "Authorization: Bearer"),
        ({"Authorization": "Bearer wrong"}, "token is wrong"),
        ({"Authorization": f"Bearer {TOKEN}x"}, "token is wrong"),
        ({"Authorization": f"Bearer {TOKEN.upper()}"}, "token is wrong"),
        ({"Authorization": "Bearer tök"}, "token is wrong"),
    ],
    ids=str,
)
def test_changes_without_the_right_token_are_refused(guarded, photo, headers, word):
    replies = [guarded.ask("POST", "/items", photo, headers), guarded.ask("DELETE", "/items/1", headers=headers)]
    replies += [guarded.ask("POST", f"/items/{name}", BODY, headers) for name in ("labels", "remove", "restore")]
    for reply in replies:
        reply.refuses(401, word)
        assert reply.headers["www-authenticate"] == "Bearer"
    assert len(guarded.search) == 18


def test_a_service_without_a_token_refuses_all_changes(run_service, index, photo):
    with run_service(index, Settings()) as site:
        site.ask("POST", "/items", photo, ALLOWED).refuses(403, "read-only", "DDSH_TOKEN")
        site.ask("DELETE", "/items/1", headers=ALLOWED).refuses(403, "read-only")
        for name in ("labels", "remove", "restore"):
            site.ask("POST", f"/items/{name}", BODY, ALLOWED).refuses(403, "read-only")
        assert len(site.search) == 18


def test_the_token_comes_from_the_file_or_from_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert find_token({"DDSH_TOKEN": "another-of-24-characters"}, file) == TOKEN
    assert find_token({"DDSH_TOKEN": TOKEN}, None) == TOKEN
    assert find_token({"DDSH_TOKEN": ""}, None) is None
    assert find_token({}, None) is None


@pytest.mark.parametrize("content", [None, "", "short", b"\xff" * 20], ids=["missing", "empty", "short", "no text"])
def test_an_invalid_token_file_is_refused(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DdshError, match="token") as caught:
        find_token({}, file)
    assert str(file) in str(caught.value)
