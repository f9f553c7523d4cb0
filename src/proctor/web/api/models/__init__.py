"""Request and response bodies of the API; the OpenAPI document is generated from them.

One module for each kind: runs, starts, suites and targets, comparisons, certificates. Names of responses end
in `Resource`, names of request bodies in `Request`. Field names are those of `proctor … --json`.
"""
