"""AgentV files to suites.

In: YAML or JSON Lines as parsed nodes with line numbers. Out: a `Suite`.
`suite.py` reads a file, `tests.py` one test, `assertions.py` what grades it; `v5.py` first translates files
of AgentV 5 to AgentV 4.
"""
