"""`ChatClient`: calls an endpoint, or any target of Proctor, from synchronous code.

In: messages. Out: text with usage. `sources.py` finds the target; start with `client.py`.
"""
