"""A bundle taken apart, changed at will, and put together again with every hash made right."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from proctor.model import Verdict
from proctor.proof import merkle
from proctor.proof.canonical import canonical_json, parse_json
from proctor.proof.dsse import signed_bytes
from proctor.proof.statement import FILES, claim_data, make_claim
from proctor.verdicts import NO_TRIALS, Counts

OWN = "proctor_attestation"


class Forger:
    """A bundle taken apart: change what you like, and `write` makes hashes and roots right again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.suite, self.trials = (self._lines(name) for name in ("suite.jsonl", "trials.jsonl"))
        self.config, self.environment, self.envelope = (
            self._lines(f"{name}.json")[0] for name in ("config", "environment", "envelope")
        )
        self.statement = parse_json(b64decode(self.envelope["payload"]))

    def _lines(self, name: str) -> list[Any]:
        return [parse_json(line) for line in (self.path / name).read_bytes().splitlines()]

    @property
    def predicate(self) -> Any:
        return self.statement["predicate"]

    @property
    def own(self) -> Any:
        return self.predicate[OWN]

    def trial(self, case_id: str) -> Any:
        """The line of a trial."""
        return next(line for line in self.trials if line.get("trial", {}).get("case_id") == case_id)

    def recount(self) -> None:
        """Make indexes, claims, names and the number of planned trials follow from the lines."""
        groups: dict[str, Counts] = {"all": Counts()}
        shapes: dict[tuple[str, str], str] = {}
        passed: list[str] = []
        failed: list[str] = []
        for index, line in enumerate(self.trials):
            line["index"] = index
            trial, verdict = line["trial"], line["verdict"]
            for name in {"all", trial.get("split", "all")}:
                counts = groups.setdefault(name, Counts())
                key = name, trial["case_id"]
                shapes[key] = counts.add(Verdict(verdict), shapes.get(key, NO_TRIALS))
            (passed if verdict == "pass" else failed).append(trial["case_id"])
        self.own["claims"] = {name: self._claim(counts) for name, counts in groups.items()}
        result = "FAILED" if failed else "PASSED"
        self.predicate.update(passedTests=passed, failedTests=failed, result=result)
        self.config["planned"] = len(self.trials)

    @staticmethod
    def _claim(counts: Counts) -> dict[str, Any]:
        return claim_data(make_claim(counts))

    def write(self, *, reroot: bool = True, rehash: bool = True, sign: Any = None) -> Path:
        """Put the bundle together again, as far as somebody without the maker's key can."""
        files = {
            name: b"".join(canonical_json(line) + b"\n" for line in lines)
            for name, lines in zip(
                FILES, (self.suite, self.trials, [self.config], [self.environment]), strict=True
            )
        }
        if reroot:
            for tree, name, skip in (("cases", FILES[0], 1), ("trials", FILES[1], 0)):
                lines = [parse_json(line) for line in files[name].splitlines()][skip:]
                leaves = [
                    bytes.fromhex(line["leaf"]) if "leaf" in line else merkle.leaf_hash(canonical_json(line))
                    for line in lines
                ]
                self.own[tree] = {"root": merkle.merkle_root(leaves).hex(), "size": len(leaves)}
        for name, data in files.items():
            (self.path / name).write_bytes(data)
        self.restate(rehash=rehash, sign=sign)
        return self.path

    def restate(self, *, rehash: bool = True, sign: Any = None) -> Path:
        """Make the envelope say what the files and the statement are now."""
        digests = {name: sha256((self.path / name).read_bytes()).hexdigest() for name in FILES}
        if rehash:
            self.statement["subject"] = [
                {"name": name, "digest": {"sha256": digests[name]}} for name in FILES
            ]
            self.predicate["configuration"][1]["digest"]["sha256"] = digests["config.json"]
        payload = canonical_json(self.statement)
        self.envelope["payload"] = b64encode(payload).decode()
        if sign is not None:
            sig = b64encode(sign.sign(signed_bytes(payload))).decode()
            self.envelope["signatures"] = [{"keyid": sign.id, "sig": sig, "publicKey": sign.public_pem}]
        (self.path / "envelope.json").write_bytes(canonical_json(self.envelope) + b"\n")
        return self.path


TESTS = tuple((f"t{n}", f"say {n}", f"say {n}" if n % 3 else "no") for n in range(10))
"""The target `echo` passes six of them; t0, t3, t6 and t9 fail."""


def passing(line: Any) -> None:
    """Say of a trial that it passed."""
    line["verdict"] = "pass"
    line["trial"]["scores"][0] |= {"outcome": "pass", "value": 1}
