"""AgentV files to suites.

In: YAML or JSON Lines as parsed nodes with line numbers. Out: a `Suite`.
`suite.py` reads the document, `tests.py` one test, `assertions.py` and `graders.py` what grades it;
`v5.py` turns files of AgentV 5 into the fields of AgentV 4 first.
"""
