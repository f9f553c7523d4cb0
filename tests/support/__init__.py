"""What tests of several folders share: builders, servers, waits, and forged or hostile input.

`builders` makes cases, trials, runs and reports in one line, `outcomes` and `series` what comparisons and
drift read of them. `grading` and `judging` give an answer's result in one line. `endpoints` and `web` serve
on loopback, and `apis` stands for services that targets ask. `waiting` waits for events, and `virtual_time`
jumps to them. Fixtures are in the `conftest.py` of the folder that needs them.
"""
