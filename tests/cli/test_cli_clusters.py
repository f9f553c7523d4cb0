"""`proctor run --cluster`: intervals over clusters of related cases."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from support.cli import Proctor


@pytest.fixture
def documents(folder: Path) -> str:
    """A suite of twelve cases on three documents; `echo` fails those of one document."""
    lines = ['{"proctor": 1, "name": "documents", "split_rule": {"ratio": 0.5}}']
    for number in range(12):
        case = {
            "id": f"q{number}",
            "input": [{"role": "user", "content": "no" if number < 4 else "yes"}],
            "assertions": [{"grader": "contains", "params": {"value": "yes"}}],
            "metadata": {"document": f"document {number // 4}"},
        }
        lines.append(json.dumps(case))
    (folder / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "documents.jsonl"


def test_the_interval_of_related_cases_is_wider_and_says_over_what_it_is(
    proctor: Proctor, documents: str
) -> None:
    plain = proctor("run", documents, "--target", "echo", "--json").run
    clustered = proctor("run", documents, "--target", "echo", "--cluster", "metadata.document", "--json").run
    assert plain["pass_rate"] == clustered["pass_rate"]
    assert clustered["ci95"][0] < plain["ci95"][0]
    result = proctor("runs", "show", "last").out
    assert (
        "intervals are over 3 clusters of related cases (`metadata.document`). An interval over fewer than"
        in result
    )
    unknown = proctor("run", documents, "--target", "echo", "--cluster", "metadata.documents")
    assert "No case has `metadata.documents`" in unknown.out
    quiet = proctor("run", documents, "--target", "echo", "--cluster", "metadata.documents", "--quiet")
    assert "No case has `metadata.documents`" in quiet.err


@pytest.mark.parametrize("flags", [[], ["--public"]])
def test_the_interval_of_related_cases_is_derived_again(
    proctor: Proctor, documents: str, flags: list[str]
) -> None:
    proctor("run", documents, "--target", "echo", "--cluster", "metadata.document")
    assert proctor("attest", "last", "-o", "b.zip", "--no-sign", *flags).code == 0
    result = proctor("verify", "b.zip", "--json")
    assert result.code == 0, result.err
    assert result.json["bundles"][0]["claims"]["all"]["ci95"][0] < 0.4
    is_listed = (
        "Intervals are over 3 clusters of related cases (`metadata.document`)."
        in proctor("verify", "b.zip").out
    )
    assert is_listed is not bool(flags)  # a cluster can have hidden cases


def test_a_certificate_says_over_which_clusters_its_interval_is(proctor: Proctor, documents: str) -> None:
    proctor("run", documents, "--target", "echo", "--cluster", "metadata.document")
    certificate = proctor("certify", "last", "--force", "--json").json
    sentences = [text for text in certificate["conditions"] if "The interval is over" in text]
    assert len(sentences) == 1
    assert "clusters of related cases (`metadata.document`). An interval over fewer than" in sentences[0]
    proctor("run", documents, "--target", "echo", "--cluster", "none")
    assert "The interval is over" not in proctor("certify", "last", "--force").out


def test_a_list_has_the_interval_of_related_cases_without_stored_totals(
    proctor: Proctor, documents: str, folder: Path
) -> None:
    run = proctor("run", documents, "--target", "echo", "--cluster", "metadata.document", "--json").run
    with sqlite3.connect(folder / ".proctor" / "proctor.db") as db:
        db.execute("DELETE FROM totals")
    db.close()
    (row,) = proctor("runs", "list", "--json").json["runs"]
    assert row["ci95"] == run["ci95"]


def test_a_public_bundle_whose_holdout_could_not_be_measured_verifies(
    proctor: Proctor, documents: str, script: Proctor, folder: Path
) -> None:
    proctor("run", documents, "--target", "echo", "-o", "trials.jsonl", "--quiet")
    trials = map(json.loads, (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines())
    target = script(rules={trial["case_id"]: "yes" for trial in trials if trial["split"] == "dev"})
    proctor("run", documents, "--target", target, "--retries", "0", "--allow-errors", "12")
    assert proctor("attest", "last", "-o", "b.zip", "--no-sign", "--public").code == 0
    result = proctor("verify", "b.zip")
    assert result.code == 0, result.err
