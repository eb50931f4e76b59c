import pytest

from farmiq.kit.settings import BadSettings
from farmiq.stack.external import External, read_external

A, B = "postgresql://u:p@db.example/a", "postgresql://u:p@db.example/b"


def test_nothing_given_means_everything_is_embedded() -> None:
    assert read_external({"PATH": "/bin"}) == External()
    assert External().needs_postgres


@pytest.mark.parametrize(
    ("environ", "needs_postgres"),
    [
        ({"DATABASE_URL": A}, False),
        ({"EDGE_DATABASE_URL": A, "CLOUD_DATABASE_URL": B}, False),
        ({"EDGE_DATABASE_URL": A}, True),
        ({"CLOUD_DATABASE_URL": B, "DATABASE_URL": A}, False),
    ],
)
def test_postgres_is_embedded_only_for_a_tier_that_has_no_database(
    environ: dict[str, str], needs_postgres: bool
) -> None:
    assert read_external(environ).needs_postgres is needs_postgres


def test_an_object_store_without_keys_is_refused_by_name() -> None:
    with pytest.raises(BadSettings, match="S3_SECRET_KEY"):
        read_external({"S3_ENDPOINT": "https://s3.example", "S3_ACCESS_KEY": "k"})


@pytest.mark.parametrize("name", ["DATABASE_URL", "MQTT_URL", "AMQP_URL"])
def test_a_url_of_another_kind_is_refused_by_name_and_not_repeated(name: str) -> None:
    with pytest.raises(BadSettings, match=name) as refusal:
        read_external({name: "ftp://user:hidden@host"})
    assert "hidden" not in str(refusal.value)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"MEDIA_BUCKET": "farmiq-*"}, "MEDIA_BUCKET"),
        ({"CLOUD_MEDIA_BUCKET": "../edge"}, "CLOUD_MEDIA_BUCKET"),
        ({"MEDIA_BUCKET": "pictures", "CLOUD_MEDIA_BUCKET": "pictures"}, "the same"),
        ({"MEDIA_BUCKET": "farmiq-cloud-media"}, "the same"),
    ],
)
def test_a_bucket_that_would_open_more_than_one_tiers_pictures_is_refused(environ: dict[str, str], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        read_external(environ)
