"""`proctor store copy` and `proctor store digest`."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from support.cli import Proctor

STORE = ".proctor/proctor.db"


@pytest.fixture
def run_id(proctor: Proctor, half: str) -> str:
    """The id of a finished run of ten cases."""
    run: str = proctor("run", half, "--target", "echo", "--no-holdout", "--json").run["run"]
    return run


def test_a_copy_says_what_it_has_and_its_digest(proctor: Proctor, run_id: str) -> None:
    result = proctor("store", "copy", STORE, "copies/c.db")
    assert result.code == 0
    assert result.err.startswith("Copied 1 run, 10 trials, 1 version, 10 cases to copies/c.db in ")
    digest, _, equal = result.out.strip().partition(" ")
    assert equal == "(equal)"
    for store in (STORE, "copies/c.db"):
        assert proctor("store", "digest", "--store", store).out == (
            f"{digest} 1 run, 10 trials, 1 version, 10 cases\n"
        )
    assert proctor("store", "check", "--store", "copies/c.db").code == 0
    assert (
        proctor("runs", "show", run_id, "--store", "copies/c.db").out == proctor("runs", "show", run_id).out
    )


def test_bundles_from_both_stores_are_equal(proctor: Proctor, run_id: str) -> None:
    proctor("store", "copy", STORE, "c.db")
    bundles = []
    for store in (STORE, "c.db"):
        assert proctor("attest", run_id, "--store", store, "-o", "b.zip").code == 0
        with ZipFile("b.zip") as bundle:
            bundles.append({name: bundle.read(name) for name in bundle.namelist()})
        Path("b.zip").unlink()
    assert bundles[0] == bundles[1]


def test_the_file_of_a_suite_is_the_same_in_a_copy_in_another_folder(proctor: Proctor, half: str) -> None:
    proctor("suites", "save", half)
    proctor("store", "copy", STORE, "far/away/c.db")
    Path(half).write_text(Path(half).read_text("utf-8") + "\n", encoding="utf-8")
    result = proctor("suites", "save", half, "--store", "far/away/c.db")
    assert result.code == 0, result.err  # the name comes from the file, so there is no conflict


def test_json_has_both_digests_and_the_number_of_rows(proctor: Proctor, run_id: str) -> None:
    result = proctor("store", "copy", STORE, "c.db", "--json").json
    assert result["digest"] == result["copy_digest"] == proctor("store", "digest", "--json").json["digest"]
    assert (result["rows"]["trials"], result["deleted_versions"], result["answers"]) == (10, 0, None)
    assert (result["from"], result["to"], result["exit_code"]) == (STORE, "c.db", 0)


def test_the_cache_is_copied_with_its_flag(proctor: Proctor, half: str) -> None:
    proctor("run", half, "--target", "echo", "--no-holdout", "--cache")
    result = proctor("store", "copy", STORE, "copies/c.db", "--cache")
    assert "cached answers to copies/c.db" in result.err
    again = proctor("run", half, "--target", "echo", "--no-holdout", "--cache", "--store", "copies/c.db")
    assert again.code == 1
    assert Path("copies/cache.db").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((STORE, STORE), "already has content"),
        (("none.db", "c.db"), "There is no store at none.db."),
        ((":memory:", "c.db"), "a store in memory"),
        ((STORE, ":memory:"), "a store in memory"),
        (("what://x", "c.db"), "There is no kind of store for addresses that begin with what://"),
        (("suite.txt", "c.db"), "damaged or is not a store"),
        ((STORE, "suite.txt"), "damaged or is not a store"),
    ],
)
def test_what_cannot_be_copied_is_one_sentence(
    proctor: Proctor, run_id: str, words: tuple[str, ...], message: str
) -> None:
    Path("suite.txt").write_text("no store\n" * 99, encoding="utf-8")
    before = proctor("store", "digest").out
    result = proctor("store", "copy", *words, "--json")
    assert (result.code, result.json["exit_code"]) == (4, 4)
    assert message in result.err
    assert not Path("c.db").exists()
    assert proctor("store", "digest").out == before


def test_a_store_that_is_missing_has_no_digest_and_none_is_made(proctor: Proctor) -> None:
    result = proctor("store", "digest", "--store", "none.db")
    assert (result.code, result.out) == (4, "")
    assert not Path("none.db").exists()
