"""Makes a bucket in any S3 store, ours or one that the environment names."""

import contextlib
import time
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from farmiq.stack.errors import StackError

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_EXISTS_ALREADY = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


class BucketNotMade(StackError):
    """The object store answers, but does not make the bucket for pictures. Check its keys and their rights."""


def create_bucket(endpoint: str, access_key: str, secret_key: str, bucket: str, patience_seconds: float = 30.0) -> None:
    """Safe to repeat. A store that has just started answers before it can store, hence the patience."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=10, retries={"max_attempts": 1}),
    )
    deadline = time.monotonic() + patience_seconds
    with contextlib.closing(client):
        while (problem := _try_to_create(client, bucket)) is not None:
            if time.monotonic() > deadline:
                raise BucketNotMade(f"{endpoint} did not make the bucket {bucket}: {problem}") from problem
            time.sleep(0.1)


def _try_to_create(client: "S3Client", bucket: str) -> Exception | None:
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        return None if error.response["Error"]["Code"] in _EXISTS_ALREADY else error
    except BotoCoreError as error:
        return error
    return None
