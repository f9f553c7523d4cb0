"""Installs a wheel into a bare environment, outside the source tree, and uses it as a new user does.

Usage: python tools/try_wheel.py [FOLDER]. It takes the wheel of FOLDER, or builds one, and tries it on the
Python that runs this program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
SUITE = """id,input,expected
sum,What is 4 + 5? Answer with the number.,9
port,Which is the port of Rome?,Ostia
"""
PROGRAM = """import proctor
result = proctor.run("suite.csv", target=lambda prompt: "9", store="python.db")
assert (result.passed, result.total) == (1, 2), result
"""
COMMANDS: list[tuple[list[str], int]] = [
    (["--version"], 0),
    (["validate", "suite.csv"], 0),
    (["run", "suite.csv", "--target", "echo", "--min-pass-rate", "0"], 0),
    (["run", "suite.csv", "--target", "echo", "--quiet", "-o", "report.html", "-o", "report.xml"], 1),
    (["runs", "show", "last", "--failures"], 0),
    (["attest", "last", "--no-sign", "-o", "run.zip"], 0),
    (["verify", "run.zip"], 0),
    (["init", "project"], 0),
]
"""Commands, with the exit code that each must have."""


def main() -> None:
    """Build, install and use the wheel; fail at the first command that behaves otherwise."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "dist"
        if not wheels.exists():
            call([sys.executable, "-m", "build", "--wheel", "--outdir", str(wheels), str(ROOT)], ROOT)
        (wheel,) = wheels.glob("*.whl")
        venv.create(folder / "venv", with_pip=True)
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = scripts / "python"
        call([str(python), "-m", "pip", "install", "--quiet", str(wheel.resolve())], folder)
        (folder / "suite.csv").write_text(SUITE, encoding="utf-8")
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        for words, code in COMMANDS:
            call([str(scripts / "proctor"), *words], folder, code)
        call([str(python), "program.py"], folder)
        print(f"{wheel.name} works on Python {sys.version.split()[0]}.")


def call(command: list[str], folder: Path, code: int = 0) -> None:
    """Run a command, and exit if it ends with another code."""
    process = subprocess.run(
        command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if process.returncode != code:
        sys.exit(
            f"{' '.join(command)}: exit code {process.returncode}, expected {code}\n{process.stdout.decode()}"
        )


if __name__ == "__main__":
    main()
