from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.backup.errors import BackupDamaged, NotABackup
from farmiq.backup.manifest import (
    MANIFEST,
    VERSION,
    DatabaseFacts,
    FileSum,
    Manifest,
    ObjectFacts,
    object_path,
    read_manifest,
    read_object_lines,
    tiers_in,
    write_manifest,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WRITTEN = Manifest(
    version=VERSION,
    backup_id=UUID(int=1),
    tier="edge",
    farmiq_version="0.1.0",
    finished_at=NOON,
    database=DatabaseFacts(
        taken_at=NOON,
        revision="edge_0016",
        server_version="18.0",
        epoch=UUID(int=2),
        rows={"telemetry_raw_2026_01": 7},
        coverage_sha256="ab" * 32,
    ),
    objects=ObjectFacts(bucket="pictures", objects=1, bytes=2, missing_count=1, missing=["a/b"]),
    files=[FileSum("database/toc.dat", 3, "cd" * 32)],
)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "edge").mkdir()
    assert tiers_in(tmp_path) == []
    write_manifest(tmp_path / "edge", WRITTEN)
    assert read_manifest(tmp_path / "edge") == WRITTEN
    assert tiers_in(tmp_path) == ["edge"]
    assert (tmp_path / "edge" / MANIFEST).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", [None, "", "{", '{"version": 1}'])
def test_without_a_whole_manifest_it_is_no_backup(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(NotABackup):
        read_manifest(tmp_path)


def test_a_format_of_the_future_is_refused_with_the_version_that_reads_it(tmp_path: Path) -> None:
    write_manifest(tmp_path, WRITTEN)
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(NotABackup, match="version 2") as refusal:
        read_manifest(tmp_path)
    assert refusal.value.fix == "use FarmIQ 0.1.0"


@pytest.mark.parametrize("key", ["a", "a/b", "../../etc/passwd", "/", "x" * 1025, "a\x00b", "ü/é"])
def test_whatever_a_key_looks_like_its_file_is_inside_the_folder(tmp_path: Path, key: str) -> None:
    path = object_path(tmp_path, key)
    assert path.resolve().is_relative_to(tmp_path.resolve() / "objects")


def test_a_list_that_was_cut_short_ends_with_its_last_whole_line(tmp_path: Path) -> None:
    lines = tmp_path / "objects.jsonl"
    whole = b'{"key":"a","size_bytes":1,"sha256":"00","content_type":"image/jpeg"}\n'
    for cut in range(1, len(whole)):
        lines.write_bytes(whole + whole[:cut])
        assert [line.key for line in read_object_lines(lines)] == ["a"] * (1 + (cut == len(whole)))


@pytest.mark.parametrize("wrong", [b"{", b"\xff\xfe", b'{"key":"a\xff"}', b'{"kez":"a"}', b"[]", b""])
def test_a_line_that_is_none_is_named_by_its_number(tmp_path: Path, wrong: bytes) -> None:
    lines = tmp_path / "objects.jsonl"
    whole = b'{"key":"a","size_bytes":1,"sha256":"00","content_type":"image/jpeg"}\n'
    lines.write_bytes(whole + wrong + b"\n" + whole)
    with pytest.raises(BackupDamaged, match=r"line 2 of objects\.jsonl"):
        list(read_object_lines(lines))


def test_a_manifest_that_the_disk_does_not_give_back_is_none(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).symlink_to("/proc/self/mem")
    with pytest.raises(NotABackup, match="Input/output error"):
        read_manifest(tmp_path)
