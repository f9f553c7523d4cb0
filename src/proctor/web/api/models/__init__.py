"""Request and response bodies of the API; the OpenAPI document is generated from them.

In: rows from `proctor.reports` and records. Out: checked JSON, with the field names of `proctor … --json`.
One module for each kind: `runs.py`, `starts.py`, `suites.py` (and targets), `comparisons.py`,
`certificates.py`. Class names of responses end in `Resource`, those of request bodies in `Request`. Start
reading with `runs.py`.
"""
