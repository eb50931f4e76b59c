"""Our signatures beside those of boto3, over the same request in the same second."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from farmiq.kit.s3_signing import Signer

ACCESS_KEY, SECRET_KEY = "AKIA/example+", "hunter2/with+signs="
CHECKSUM = base64.b64encode(hashlib.sha256(b"picture").digest()).decode()
HEADERS = {
    "content-type": "image/jpeg",
    "content-length": "7",
    "x-amz-checksum-sha256": CHECKSUM,
    "if-none-match": "*",
}
PUT = {"ContentType": "image/jpeg", "ContentLength": 7, "ChecksumSHA256": CHECKSUM, "IfNoneMatch": "*"}
ATTACHMENT = 'attachment; filename="a-1.jpg"'
ENDPOINTS = [
    "http://127.0.0.1:8333",
    "http://127.0.0.1:80",
    "https://s3.farm.example",
    "https://S3.farm.example:443/",
    "http://[::1]:8333",
    "https://farm.example:9000/behind/a-proxy",
]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def boto(endpoint: str, region: str = "us-east-1") -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=region,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            # Left to itself, boto3 adds the CRC32 of a body that it does not have.
            request_checksum_calculation="when_required",
        ),
    )


def signer(endpoint: str = ENDPOINTS[0], region: str = "us-east-1") -> Signer:
    return Signer(endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=region)


def parts_of(url: str) -> tuple[str, str, dict[str, list[str]]]:
    """The order of the query says nothing."""
    parts = urlsplit(url)
    return parts.netloc.lower(), parts.path, parse_qs(parts.query, strict_parsing=True)


def second_of(url: str) -> datetime:
    said = parse_qs(urlsplit(url).query)["X-Amz-Date"][0]
    return datetime.strptime(said, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_upload_is_signed_as_boto3_signs_it(endpoint: str, region: str) -> None:
    theirs = boto(endpoint, region).generate_presigned_url(
        "put_object", Params={"Bucket": "media", "Key": "a/b.jpg", **PUT}, ExpiresIn=60
    )

    ours = signer(endpoint, region).presign("PUT", "media", "a/b.jpg", second_of(theirs), 60, headers=HEADERS)

    assert parts_of(ours) == parts_of(theirs)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_download_with_its_name_and_type_is_signed_as_boto3_signs_it(endpoint: str) -> None:
    said = {"ResponseContentType": "image/jpeg", "ResponseContentDisposition": ATTACHMENT}
    theirs = boto(endpoint).generate_presigned_url(
        "get_object", Params={"Bucket": "media", "Key": "a.jpg", **said}, ExpiresIn=60
    )

    query = {"response-content-type": "image/jpeg", "response-content-disposition": ATTACHMENT}
    ours = signer(endpoint).presign("GET", "media", "a.jpg", second_of(theirs), 60, query=query)

    assert parts_of(ours) == parts_of(theirs)


BOTO = boto(ENDPOINTS[0])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40))
def test_any_key_is_signed_as_boto3_signs_it(key: str) -> None:
    theirs = BOTO.generate_presigned_url("get_object", Params={"Bucket": "media", "Key": key}, ExpiresIn=300)

    ours = signer().presign("GET", "media", key, second_of(theirs), 300)

    assert parts_of(ours) == parts_of(theirs)


def test_a_signer_that_outlives_midnight_signs_with_the_key_of_the_day() -> None:
    old = signer()
    old.presign("GET", "media", "a.jpg", NOON, 60)

    days_later = NOON.replace(day=3)
    assert old.presign("GET", "media", "a.jpg", days_later, 60) == signer().presign(
        "GET", "media", "a.jpg", days_later, 60
    )
    assert old.presign("GET", "media", "a.jpg", NOON, 60) == signer().presign("GET", "media", "a.jpg", NOON, 60)


@pytest.mark.parametrize("changed", [*HEADERS, "a header more"])
def test_every_header_is_part_of_the_signature(changed: str) -> None:
    def signature(headers: dict[str, str]) -> list[str]:
        url = signer().presign("PUT", "media", "a.jpg", NOON, 60, headers=headers)
        return parse_qs(urlsplit(url).query)["X-Amz-Signature"]

    assert signature({**HEADERS, changed: "other"}) != signature(HEADERS)
