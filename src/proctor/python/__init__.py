"""The calls of `import proctor`: suites run from Python, and stored runs read.

In: a file, rows, cases or a table; a target by name or as a function; the options of `proctor run`. Out: a
`RunResult`, with its numbers, its trials and its reports. `options.py` has the options, `suites.py`,
`targets.py` and `graders.py` turn Python objects into what a `Request` names, `job.py` executes it.
`grader_program.py` is the process that grades by the functions of a file. Start reading with `run.py`.
"""
