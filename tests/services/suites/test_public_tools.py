"""What the page on verifying has a reader do without Proctor, with a true bundle and with forged ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.bundles.keys import get_signing_key

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides/verify-a-bundle.md").read_text(encoding="utf-8")


def written(name: str) -> str:
    """A file that the page has the reader write."""
    found = re.search(rf"^```\w+ write {re.escape(name)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "certificate", tmp_path / "examples" / "certificate")
    (tmp_path / "recount.py").write_text(written("recount.py"), encoding="utf-8")
    return tmp_path / "examples" / "certificate" / "bundle"


def by_openssl(bundle: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    return subprocess.run(
        ["sh", "-c", written("check.sh")], cwd=bundle, capture_output=True, encoding="utf-8", check=False
    )


def by_python(bundle: Path) -> subprocess.CompletedProcess[str]:
    program = bundle.parents[2] / "recount.py"
    return subprocess.run(
        [sys.executable, "-I", program.name],
        cwd=program.parent,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_openssl_finds_the_signature_and_every_file_right(bundle: Path) -> None:
    done = by_openssl(bundle)
    assert done.returncode == 0, done.stderr
    assert "Verified Successfully" in done.stdout
    assert done.stdout.count(": OK\n") == 4


def test_the_program_imports_nothing_of_proctor_and_finds_the_same_numbers(bundle: Path) -> None:
    program = written("recount.py")
    assert "proctor" not in re.sub(r'"proctor_attestation"', "", program)
    assert len(list(filter(None, program.split("\n")))) <= 30
    done = by_python(bundle)
    assert done.returncode == 0, done.stderr
    claims = re.findall(r"^(all|dev|holdout) +(\d+) +(\d+) ", PAGE, re.MULTILINE)
    for split, passed, total in claims:
        assert f"{split}: {passed} of {total}, " in done.stdout
    assert len(claims) == 3


def changed_answer(bundle: Path) -> None:
    path = bundle / "trials.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Lima", b"Rome", 1))


def changed_statement(bundle: Path) -> None:
    from base64 import b64decode, b64encode

    path = bundle / "envelope.json"
    found = re.search(rb'"payload":"([^"]*)"', path.read_bytes())
    assert found
    payload = b64decode(found[1]).replace(b'"result":"FAILED"', b'"result":"PASSED"')
    path.write_bytes(path.read_bytes().replace(found[1], b64encode(payload)))


def other_key(bundle: Path) -> None:
    key = get_signing_key(bundle.parent / "keys", None)
    (bundle.parent / "maker.pub.pem").write_text(key.public_pem, encoding="utf-8")


@pytest.mark.parametrize("forge", [changed_answer, changed_statement, other_key])
@pytest.mark.parametrize("check", [by_openssl, by_python])
def test_both_refuse_what_is_forged(
    bundle: Path, forge: Callable[[Path], None], check: Callable[[Path], subprocess.CompletedProcess[str]]
) -> None:
    before = (bundle / "trials.jsonl").read_bytes(), (bundle / "envelope.json").read_bytes()
    forge(bundle)
    assert forge is other_key or before != (
        (bundle / "trials.jsonl").read_bytes(),
        (bundle / "envelope.json").read_bytes(),
    )
    assert check(bundle).returncode != 0
