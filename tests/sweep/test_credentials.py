"""Object stores without credentials: one sentence, and no request leaves the machine."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from sweep.errors import StoreError
from sweep.store import credentials, objects
from sweep.store.location import located
from sweep.store.objects import ObjectPath, _client

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
ACCOUNT = {"AZURE_STORAGE_ACCOUNT_NAME": "somebody"}


@pytest.mark.parametrize(
    ("address", "environment", "said"),
    [
        (
            "s3://b",
            {},
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and AWS_R",
        ),
        ("s3://b", {"AWS_ACCESS_KEY_ID": "a"}, "there are no credentials for store 's3://b'"),
        ("s3://b", {"AWS_ROLE_ARN": "r"}, "AWS_METADATA_ENDPOINT=http://169.254.169.254"),
        ("s3://b", {"AWS_SKIP_SIGNATURE": "false"}, "there are no credentials"),
        ("s3://b", KEYS, "'s3://b' needs AWS_REGION or AWS_ENDPOINT_URL to be set"),
        ("gs://b", {}, "set GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://b", {}, "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, and AZURE_STOR"),
        ("az://b", ACCOUNT, "there are no credentials for store 'az://b'"),
        ("az://b", {"AZURE_STORAGE_ACCOUNT_KEY": "k"}, "needs AZURE_STORAGE_ACCOUNT_NAME or"),
        ("abfss://c@a.dfs.core.windows.net", {}, "AZURE_STORAGE_SAS_TOKEN, here and"),
    ],
)
def test_what_is_missing_is_named(address, environment, said, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoreError) as caught:
        credentials.check(address, environment)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "environment"),
    [
        ("s3://b", {**KEYS, "AWS_REGION": "x"}),
        ("s3://b", {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
        ("s3://b", {"AWS_PROFILE": "mine"}),
        ("s3://b", {"AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": "f", "AWS_REGION": "x"}),
        ("s3://b", {"AWS_METADATA_ENDPOINT": "http://169.254.169.254", "AWS_REGION": "x"}),
        ("s3://b", {"AWS_SKIP_SIGNATURE": "true", "AWS_DEFAULT_REGION": "x"}),
        ("gs://b", {"GOOGLE_APPLICATION_CREDENTIALS": "f"}),
        ("gs://b", {"GCE_METADATA_HOST": "metadata.google.internal"}),
        ("az://b", {**ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": "k"}),
        ("abfss://c@a.dfs.core.windows.net", {"AZURE_STORAGE_SAS_TOKEN": "s"}),
    ],
)
def test_what_suffices_is_let_through(address, environment):
    credentials.check(address, environment)


def test_somebody_who_is_logged_in_to_google_is_let_through(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / credentials._GCLOUD
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    credentials.check("gs://b", {})


WITHOUT = [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "GCE_"))]


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No credentials, and nothing that could send a request is made."""

    def refuse(*_, **__):
        raise AssertionError("somebody made a client")

    for name in WITHOUT:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("obstore.store.from_url", refuse)
    _client.cache_clear()


@pytest.mark.parametrize("address", ["s3://bucket/x", "gs://bucket/x", "az://bucket/x"])
@pytest.mark.parametrize("words", [("status",), ("run", "vldb-table4", "--store")])
def test_a_command_without_credentials_is_one_sentence(command, bare, words, address):
    found = command(*words, address)
    assert found.exit_code == 2
    assert "there are no credentials for store" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_a_profile_is_read_from_its_file(bare, tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text(
        "[mine]\naws_access_key_id = a\naws_secret_access_key = b\nregion = eu-central-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    made = credentials.of_profile()
    assert made["region"] == "eu-central-1"
    assert made["credential_provider"]()["access_key_id"] == "a"
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StoreError, match="AWS_PROFILE 'other' gives no credentials"):
        credentials.of_profile()


def test_a_profile_takes_boto3(bare, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(StoreError, match="install it, here and on the workers"):
        credentials.of_profile()


@pytest.mark.parametrize("address", ["s3://b/x", "gs://b/x", "az://b/x"])
def test_a_missing_extra_is_one_sentence(command, monkeypatch, address):
    _client.cache_clear()
    objects._obstore.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore", None)
    found = command("status", address)
    assert found.exit_code == 2
    assert "install fitness-sweep[objects]" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


class Refusing(BaseHTTPRequestHandler):
    """A server that says what it was asked for, and refuses it."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def refusing():
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Refusing.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_google_is_asked_where_and_as_whom_the_environment_says(refusing, monkeypatch):
    _client.cache_clear()
    monkeypatch.setenv("GOOGLE_BASE_URL", refusing)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "a-token")
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    with pytest.raises(PermissionError):
        (located("gs://bucket/x") / "store.json").read_bytes()
    path, authorised = Refusing.asked[0]
    assert path.startswith("/bucket/x")
    assert authorised == "Bearer a-token"


def test_azure_is_asked_where_and_as_whom_the_environment_says(refusing, monkeypatch):
    _client.cache_clear()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "somebody")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c29tZXRoaW5n")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{refusing}/somebody")
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    with pytest.raises(PermissionError):
        (located("az://container/x") / "store.json").read_bytes()
    path, authorised = Refusing.asked[0]
    assert path.startswith("/somebody/container/x/store.json")
    assert authorised.startswith("SharedKey somebody:")


def test_addresses_of_all_clouds_are_told_apart():
    assert located("gs://b/x") == ObjectPath("gs://b", "x")
    assert located("az://c/x/y") == ObjectPath("az://c", "x/y")
    abfss = "abfss://c@a.dfs.core.windows.net"
    assert located(f"{abfss}/x") == ObjectPath(abfss, "x")
    for wrong in ("gs://", "az:///"):
        with pytest.raises(StoreError, match="names no bucket"):
            located(wrong)
