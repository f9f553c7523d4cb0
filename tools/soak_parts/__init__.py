"""The parts of `tools/soak.py`: commands of Proctor, what disturbs them, and a ledger beside Proctor.

`questions` says what every answer must be; `endpoint` and `programs` give these answers, and `suites` asks
for them. `operations` is the table of what is run, and `commands` runs it and disturbs it. `worker` chooses
among them, and compares the stores with the `ledger` after each. Begin with `operations`.
"""
