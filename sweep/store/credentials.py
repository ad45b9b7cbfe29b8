"""Credentials of object stores, checked before any request leaves this machine.

Where it is given none, obstore asks the metadata service of the cloud's machines, an address that
exists only there. That is done only if the environment says so, by the variable that each cloud has
for it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.errors import StoreError


@dataclass(frozen=True)
class Cloud:
    """The credentials that an object store takes.

    Attributes
    ----------
    place : tuple of str
        Variables of the environment of which one has to say where it is; none if nothing has to.
    ways : tuple of tuple of str
        Sets of variables, each of which gives credentials; one set has to be complete.
    said : str
        The usual ways, in words.
    machine : str
        The variable that lets the machine's own role be asked for, and a value of it.
    """

    place: tuple[str, ...]
    ways: tuple[tuple[str, ...], ...]
    said: str
    machine: str


_NO = ("", "0", "false", "no", "n", "off")
_ENDPOINTS = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3")
_AWS = Cloud(
    place=("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_PROFILE", *_ENDPOINTS),
    ways=(
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_PROFILE",),
        ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        ("AWS_SKIP_SIGNATURE",),
        ("AWS_METADATA_ENDPOINT",),
    ),
    said="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    machine="AWS_METADATA_ENDPOINT=http://169.254.169.254",
)
_GOOGLE = Cloud(
    place=(),
    ways=(
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        ("GOOGLE_SERVICE_ACCOUNT",),
        ("GOOGLE_SERVICE_ACCOUNT_PATH",),
        ("GOOGLE_SERVICE_ACCOUNT_KEY",),
        ("GOOGLE_BEARER_TOKEN",),
        ("GOOGLE_SKIP_SIGNATURE",),
        ("GCE_METADATA_HOST",),
    ),
    said="GOOGLE_APPLICATION_CREDENTIALS, or log in with 'gcloud auth application-default login'",
    machine="GCE_METADATA_HOST=metadata.google.internal",
)
_AZURE = Cloud(
    place=("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR"),
    ways=(
        ("AZURE_STORAGE_ACCOUNT_KEY",),
        ("AZURE_STORAGE_ACCESS_KEY",),
        ("AZURE_STORAGE_MASTER_KEY",),
        ("AZURE_STORAGE_SAS_KEY",),
        ("AZURE_STORAGE_SAS_TOKEN",),
        ("AZURE_STORAGE_TOKEN",),
        ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
        ("AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TENANT_ID"),
        ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"),
        ("AZURE_USE_AZURE_CLI",),
        ("AZURE_SKIP_SIGNATURE",),
        ("AZURE_STORAGE_USE_EMULATOR",),
        ("AZURE_MSI_ENDPOINT",),
        ("AZURE_IDENTITY_ENDPOINT",),
    ),
    said="AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
    machine="AZURE_MSI_ENDPOINT=http://169.254.169.254/metadata/identity/oauth2/token",
)
_CLOUDS = {"s3": _AWS, "gs": _GOOGLE, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
_GCLOUD = Path(".config", "gcloud", "application_default_credentials.json")


def check(address: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse an address for which the environment has no credentials.

    Parameters
    ----------
    address : str
        Scheme and bucket.
    environment : Mapping[str, str]
        The variables of the environment.

    Raises
    ------
    StoreError
        If variables are missing; it names them.
    """
    cloud = _CLOUDS[address.partition(":")[0]]
    given = {name for name, value in environment.items() if value.lower() not in _NO}
    known = any(given >= set(way) for way in cloud.ways) or (cloud is _GOOGLE and _logged_in())
    placed = not cloud.place or given & set(cloud.place) or "@" in address
    place = "" if placed else f"{cloud.place[0]} or {cloud.place[1]}"
    if not known:
        raise StoreError(
            f"there are no credentials for store {address!r}: set {cloud.said}"
            f"{f', and {place}' if place else ''}, here and on the workers; a machine of that "
            f"cloud with a role of its own takes {cloud.machine}"
        )
    if place:
        raise StoreError(f"store {address!r} needs {place} to be set, here and on the workers")


def of_profile(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The arguments of obstore for the credentials of an AWS profile.

    Its own files are read by botocore, which is not let ask the metadata service either.

    Raises
    ------
    StoreError
        If there is no such profile, or botocore is not installed.
    """
    name = environment.get("AWS_PROFILE")
    if not name or environment.get("AWS_ACCESS_KEY_ID"):
        return {}
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise StoreError(
            f"AWS_PROFILE is {name!r}, but reading profiles needs the package boto3; install it, "
            "here and on the workers, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    session = Session(profile=name)
    try:
        session.get_component("credential_provider").remove("iam-role")
        provider = Boto3CredentialProvider(session)
        region = session.get_config_variable("region")
    except (BotoCoreError, ValueError) as error:
        raise StoreError(f"AWS_PROFILE {name!r} gives no credentials: {error}") from error
    return {"credential_provider": provider, **({"region": region} if region else {})}


def _logged_in() -> bool:
    return (Path.home() / _GCLOUD).is_file()
