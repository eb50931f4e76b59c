"""RabbitMQ as an operator with a client sees it, and the object stores."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import aiormq
import boto3
from aiormq.abc import AbstractChannel
from botocore.config import Config
from pamqp.commands import Basic

T = TypeVar("T")

_PROPERTIES: Final = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "message_id",
                      "message_type", "app_id", "timestamp")  # fmt: skip


class Bus:
    def __init__(self, url: str) -> None:
        self._url = url

    def poison(self, exchange: str, event_type: str, message_id: str) -> None:
        """A message that no service can ever read."""
        properties = Basic.Properties(delivery_mode=2, message_id=message_id)
        body = f"{{poison {message_id}".encode()

        async def publish(channel: AbstractChannel) -> None:
            await channel.basic_publish(body, exchange=exchange, routing_key=event_type, properties=properties)

        self._on_channel(publish)

    def depth(self, queue: str) -> int:
        async def look(channel: AbstractChannel) -> int:
            return (await channel.queue_declare(queue, passive=True)).message_count or 0

        return self._on_channel(look)

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """All of them, in their order. They go back when the channel is closed."""

        async def take(channel: AbstractChannel) -> list[dict[str, Any]]:
            taken = []
            while not isinstance((message := await channel.basic_get(queue)).delivery, Basic.GetEmpty):
                taken.append(_as_data(message))
            return taken

        return self._on_channel(take)

    def _on_channel(self, work: Callable[[AbstractChannel], Awaitable[T]]) -> T:
        async def run() -> T:
            connection = await aiormq.connect(self._url)
            try:
                return await work(await connection.channel())
            finally:
                await connection.close()

        return asyncio.run(run())


def _as_data(message: Any) -> dict[str, Any]:
    properties = message.header.properties
    known = {name: getattr(properties, name) for name in _PROPERTIES if getattr(properties, name) is not None}
    return {
        "exchange": message.delivery.exchange,
        "routing_key": message.delivery.routing_key,
        "properties": json.loads(json.dumps(known, default=_plain)),
        "headers": json.loads(json.dumps(properties.headers or {}, default=_plain)),
        "body": base64.b64encode(message.body).decode(),
    }


def _plain(value: object) -> object:
    """What JSON has no form for. A time says what it is, so that it goes back as one."""
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value)} in a message")


class Objects:
    """One tier's bucket."""

    def __init__(self, environment: Mapping[str, str], tier: str) -> None:
        prefix = {"edge": "", "cloud": "CLOUD_"}[tier]
        self.bucket = environment[f"{prefix}MEDIA_BUCKET"]
        self._client = boto3.client(
            "s3", endpoint_url=environment[f"{prefix}S3_ENDPOINT"], region_name="us-east-1",
            aws_access_key_id=environment[f"{prefix}S3_ACCESS_KEY"],
            aws_secret_access_key=environment[f"{prefix}S3_SECRET_KEY"],
            config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip

    def keys(self) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def read(self, key: str) -> tuple[bytes, str]:
        answer = self._client.get_object(Bucket=self.bucket, Key=key)
        return answer["Body"].read(), answer["ContentType"]

    def write(self, key: str, body: bytes, content_type: str) -> None:
        self._client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=key)
