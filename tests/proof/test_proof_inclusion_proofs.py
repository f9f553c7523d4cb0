"""Inclusion proofs of one trial: accepted only if they lead to the statement."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from proctor.model import Verdict
from proctor.proof import merkle
from proctor.proof.canonical import canonical_json, parse_canonical
from proctor.proof.dsse import Envelope, Signature
from proctor.proof.inclusion_proofs import check_proof, proof_data, prove_line
from proctor.proof.records import case_line, redacted_line, trial_line
from proctor.proof.statement import (
    FILES,
    AccessCounts,
    Statement,
    SuiteReference,
    TargetReference,
    TreeHead,
    make_claim,
    statement_data,
)
from proctor.verdicts import Counts
from support.builders import NOON, make_case, make_trial

SIZE = 5


class Lines:
    """The lines of a bundle of five trials."""

    def __init__(self) -> None:
        secret = b"s" * 32
        self.cases = [
            case_line(n, merkle.line_salt(secret, "cases", n), make_case(f"c{n}", f"question{n}"), "sha256:0")
            for n in range(SIZE)
        ]
        self.trials = [
            trial_line(
                n,
                merkle.line_salt(secret, "trials", n),
                make_trial(f"answer{n}", case_id=f"c{n}", position=n),
                Verdict.UNSCORED,
            )
            for n in range(SIZE)
        ]

    def proof(self, number: int, case_number: int | None = None) -> dict[str, Any]:
        """The proof of a trial, with the case of another if `case_number` is given."""
        trial_leaves, case_leaves = (
            list(map(merkle.leaf_hash, lines)) for lines in (self.trials, self.cases)
        )
        statement = Statement(
            files=dict.fromkeys(FILES, "0" * 64),
            result="FAILED",
            passed_tests=(),
            failed_tests=(),
            kind="full",
            run="r",
            group="g",
            suite=SuiteReference("s", "v1", "sha256:1"),
            target=TargetReference("echo", "sha256:2"),
            started_at=NOON,
            finished_at=NOON,
            split="all",
            claims={"all": make_claim(Counts())},
            cases=TreeHead(merkle.merkle_root(case_leaves).hex(), SIZE),
            trials=TreeHead(merkle.merkle_root(trial_leaves).hex(), SIZE),
            looks=AccessCounts(0, 0),
        )
        envelope = Envelope(canonical_json(statement_data(statement)), (Signature("k", b"s", "PEM"),))
        at = number if case_number is None else case_number
        return proof_data(
            envelope,
            prove_line(self.trials[number], trial_leaves, number),
            prove_line(self.cases[at], case_leaves, at),
        )


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.mark.parametrize("number", range(SIZE))
def test_each_trial_is_proved_through_its_written_form(lines: Lines, number: int) -> None:
    proved = check_proof(parse_canonical(canonical_json(lines.proof(number))))
    assert (proved.trial.trial.case_id, proved.case.case.id) == (f"c{number}", f"c{number}")
    assert proved.statement.trials.size == SIZE
    assert proved.envelope.signatures[0].keyid == "k"


def test_a_proof_has_nothing_of_the_other_lines(lines: Lines) -> None:
    whole = canonical_json(lines.proof(2)).decode()
    for number in {0, 1, 3, 4}:
        assert f"question{number}" not in whole
        assert f"answer{number}" not in whole
        assert merkle.line_salt(b"s" * 32, "trials", number) not in whole


def forge_proof(proof: dict[str, Any], part: str, **fields: Any) -> dict[str, Any]:
    proof = copy.deepcopy(proof)
    proof[part] = {**proof[part], **fields}
    return proof


@pytest.mark.parametrize("part", ["trial", "case"])
def test_a_changed_line_place_or_path_is_refused(lines: Lines, part: str) -> None:
    proof = lines.proof(2)
    line_proof = proof[part]
    for fields in (
        {"line": line_proof["line"].replace("2", "3", 1)},
        {"line": line_proof["line"] + " "},
        {"index": 3},
        {"index": -1},
        {"index": 2.0},
        {"index": "2"},
        {"index": SIZE},
        {"path": line_proof["path"][1:]},
        {"path": [*line_proof["path"], "0" * 64]},
        {"path": line_proof["path"][::-1]},
        {"path": [step.upper() for step in line_proof["path"]]},
        {"path": ["zz"]},
        {"path": "no list"},
        {"extra": 1},
    ):
        with pytest.raises(ValueError, match=r"."):
            check_proof(forge_proof(proof, part, **fields))


def test_a_trial_with_the_case_of_another_is_refused(lines: Lines) -> None:
    with pytest.raises(ValueError, match="does not belong to its case"):
        check_proof(lines.proof(2, case_number=3))


def test_a_trial_that_was_sent_something_else_than_its_case_is_refused(lines: Lines) -> None:
    salt = merkle.line_salt(b"s" * 32, "cases", 2)
    lines.cases[2] = case_line(2, salt, make_case("c2", "question2"), "sha256:1")
    with pytest.raises(ValueError, match="does not belong to its case"):
        check_proof(lines.proof(2))


@pytest.mark.parametrize("part", ["trials", "cases"])
def test_a_hidden_line_proves_nothing(lines: Lines, part: str) -> None:
    getattr(lines, part)[2] = redacted_line(2, b"1" * 32)
    with pytest.raises(ValueError, match="hidden"):
        check_proof(lines.proof(2))


@pytest.mark.parametrize("part", ["trials", "cases"])
def test_a_line_with_the_number_of_another_is_refused(lines: Lines, part: str) -> None:
    getattr(lines, part)[2] = getattr(lines, part)[3]
    with pytest.raises(ValueError, match="the place of a line"):
        check_proof(lines.proof(2))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"envelope": {}, "trial": {}, "case": {}},
        {"envelope": {"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": []}},
    ],
)
def test_what_is_no_proof_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_proof(data)


def test_a_proof_of_another_statement_is_refused(lines: Lines) -> None:
    proof = lines.proof(2)
    lines.trials[0] = lines.trials[0].replace(b"answer0", b"answer9")
    other = lines.proof(2)
    with pytest.raises(ValueError, match="does not lead to the root"):
        check_proof({**proof, "envelope": other["envelope"]})
