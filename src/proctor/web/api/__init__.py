"""The HTTP API under `/api/v1`.

In: requests in JSON (`bodies.py`). Out: records as JSON, problems as in RFC 9457, and the OpenAPI document.
`app.py` has the table of routers. Start with `app.py`.
"""
