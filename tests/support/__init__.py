"""What tests of several folders share: builders, servers, waits, and forged or hostile input.

`builders` makes cases, trials, runs and reports in one line, `outcomes` and `series` what comparisons and
drift read of them. `endpoints` and `web` serve on loopback. `waiting` waits for events, and `virtual_time`
jumps to them. Fixtures are in the `conftest.py` of the folder that needs them.
"""
