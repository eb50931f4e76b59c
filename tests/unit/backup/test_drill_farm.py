from pathlib import Path

from farmiq.backup.drill_farm import drill_environment


def test_a_drill_reaches_nothing_that_the_shell_names(tmp_path: Path) -> None:
    shell = {
        "PATH": "/bin",
        "LOG_LEVEL": "INFO",
        "FARMIQ_HOME": "/the/real/one",
        "DATABASE_URL": "postgresql://x",
        "DATABASE_URL_FILE": "/x",
        "EDGE_DATABASE_URL": "postgresql://x",
        "AMQP_URL": "amqp://x",
        "S3_ENDPOINT": "http://x",
        "S3_SECRET_KEY": "x",
        "MEDIA_BUCKET": "x",
        "ADMIN_TOKEN": "x",
    }
    found = drill_environment(shell, tmp_path, MEDIA_BUCKET="of-the-backup")
    kept = {name: found[name] for name in shell if name in found}
    assert kept == {
        "PATH": "/bin",
        "LOG_LEVEL": "INFO",
        "FARMIQ_HOME": str(tmp_path),
        "MEDIA_BUCKET": "of-the-backup",
    }
