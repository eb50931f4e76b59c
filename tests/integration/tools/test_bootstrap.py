"""What tools/bootstrap.sh installs is what the lock says, whatever has been released since."""

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def wheel(folder: Path, name: str, version: str, *requires: str, extra: str = "") -> str:
    """A package with nothing in it, and the line that pins it."""
    stem = f"{name}-{version}"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {each}" for each in requires),
    ]
    metadata += [f"Provides-Extra: {extra}"] if extra else []
    files = {
        f"{stem}.dist-info/METADATA": "\n".join(metadata) + "\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{stem}.dist-info/RECORD"
    rows = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for each, text in {**files, record: "\n".join([*rows, f"{record},,"]) + "\n"}.items():
            made.writestr(each, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def test_a_newer_release_of_a_package_that_another_one_wants_with_an_extra_does_not_break_the_lock(
    tmp_path: Path,
) -> None:
    """A lock names packages and not their extras, and pip then asks for a hash of the newest release."""
    index = tmp_path / "index"
    index.mkdir()
    lock = tmp_path / "requirements.lock"
    lock.write_text(
        wheel(index, "asks", "1.0", "offers[more]") + wheel(index, "offers", "1.0", extra="more"), encoding="ascii"
    )
    wheel(index, "offers", "2.0", extra="more")
    script = (ROOT / "tools" / "bootstrap.sh").read_text(encoding="utf-8")
    (options,) = re.findall(r'pip_install (--.*) -r "\$LOCK"', script)
    only_these = ["--isolated", "--no-index", "--find-links", str(index), "--target", str(tmp_path / "installed")]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options.split(), *only_these, "-r", str(lock)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "installed").glob("*.dist-info")) == [
        "asks-1.0.dist-info",
        "offers-1.0.dist-info",
    ]
