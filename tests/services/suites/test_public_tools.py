"""The page on verifying a bundle without Proctor, tried with a valid bundle and with forged ones."""

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


def read_page_file(name: str) -> str:
    """Returns a file that the page tells the reader to write."""
    match = re.search(rf"^```\w+ write {re.escape(name)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert match
    return match[1]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "certificate", tmp_path / "examples" / "certificate")
    (tmp_path / "recount.py").write_text(read_page_file("recount.py"), encoding="utf-8")
    return tmp_path / "examples" / "certificate" / "bundle"


def check_by_openssl(bundle: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    return subprocess.run(
        ["sh", "-c", read_page_file("check.sh")],
        cwd=bundle,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def check_by_python(bundle: Path) -> subprocess.CompletedProcess[str]:
    program = bundle.parents[2] / "recount.py"
    return subprocess.run(
        [sys.executable, "-I", program.name],
        cwd=program.parent,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_openssl_finds_the_signature_and_every_file_right(bundle: Path) -> None:
    process = check_by_openssl(bundle)
    assert process.returncode == 0, process.stderr
    assert "Verified Successfully" in process.stdout
    assert process.stdout.count(": OK\n") == 4


def test_the_program_imports_nothing_of_proctor_and_finds_the_same_numbers(bundle: Path) -> None:
    program = read_page_file("recount.py")
    assert "proctor" not in re.sub(r'"proctor_attestation"', "", program)
    assert len(list(filter(None, program.split("\n")))) <= 30
    process = check_by_python(bundle)
    assert process.returncode == 0, process.stderr
    claims = re.findall(r"^(all|dev|holdout) +(\d+) +(\d+) ", PAGE, re.MULTILINE)
    for split, passed, total in claims:
        assert f"{split}: {passed} of {total}, " in process.stdout
    assert len(claims) == 3


def change_answer(bundle: Path) -> None:
    path = bundle / "trials.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Lima", b"Rome", 1))


def change_statement(bundle: Path) -> None:
    from base64 import b64decode, b64encode

    path = bundle / "envelope.json"
    match = re.search(rb'"payload":"([^"]*)"', path.read_bytes())
    assert match
    payload = b64decode(match[1]).replace(b'"result":"FAILED"', b'"result":"PASSED"')
    path.write_bytes(path.read_bytes().replace(match[1], b64encode(payload)))


def exchange_key(bundle: Path) -> None:
    key = get_signing_key(bundle.parent / "keys", None)
    (bundle.parent / "maker.pub.pem").write_text(key.public_pem, encoding="utf-8")


@pytest.mark.parametrize("forge", [change_answer, change_statement, exchange_key])
@pytest.mark.parametrize("check", [check_by_openssl, check_by_python])
def test_both_refuse_what_is_forged(
    bundle: Path, forge: Callable[[Path], None], check: Callable[[Path], subprocess.CompletedProcess[str]]
) -> None:
    before = (bundle / "trials.jsonl").read_bytes(), (bundle / "envelope.json").read_bytes()
    forge(bundle)
    assert forge is exchange_key or before != (
        (bundle / "trials.jsonl").read_bytes(),
        (bundle / "envelope.json").read_bytes(),
    )
    assert check(bundle).returncode != 0
