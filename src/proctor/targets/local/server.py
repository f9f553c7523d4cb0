"""The child process of a `local` target: llama.cpp's server on a free loopback port, until its stdin ends.

It runs as a script and imports nothing of Proctor. It prints one line on stdout, its address. Stdin is a pipe
from the parent, which the system closes however the parent dies, so that no server outlives it.
"""

from __future__ import annotations

import os
import sys
import threading

CONTEXT_TOKENS = 4096
MAX_ANSWER_TOKENS = 256
"""A small model that misses its end repeats itself until the context is full."""


def main(path: str, name: str) -> None:
    """Serves the weights at `path` under a model's name."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    # What the engine prints is not for the parent's one line.
    out = os.dup(1)
    os.dup2(2, 1)
    address = os.fdopen(out, "w", encoding="utf-8")

    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = path
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_predict = MAX_ANSWER_TOKENS
    params.ui = False
    # One slot and no prompt cache: otherwise answers at temperature 0 do not repeat exactly.
    params.n_parallel = 1
    params.cache_ram_mib = 0
    params.cache_prompt = False
    server = Server(params)
    print(server.listening_address, file=address, flush=True)
    threading.Event().wait()


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
