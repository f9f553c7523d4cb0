"""HTTP transports: how requests reach an endpoint. In: a `RequestHead` and a body. Out: a `Response`.

`protocol.py` is the door. `aiohttp_transport.py` sends through proxies and whatever else is unusual.
"""
