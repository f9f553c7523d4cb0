"""The server for coding agents and editors: tools of the Model Context Protocol over stdin and stdout.

In: calls of tools for one `AgentProject`, a folder and its store. Out: short sentences, the same as data, and
links to more. `tools.py` is the table of tools, `arguments.py` defines the arguments, `results.py` the
results; `server.py` is the only file that knows the protocol. Start with `tools.py`.
"""
