"""HTTP transports: how requests reach an endpoint. In: a `RequestHead` and a body. Out: a `Response`.

`protocol.py` is the door. `http1_transport.py` sends nearly all requests; it keeps connections in
`connection_pool.py`, each of which is a `connection.py`. `aiohttp_transport.py` sends through proxies.
"""
