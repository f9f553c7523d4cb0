"""Request and response bodies of the API; the OpenAPI document is generated from them.

One module for each kind: runs, starts, suites and targets, comparisons, certificates. Routes refer to them as
`models.Run`, as many have the name of the object that they show. Field names are those of `proctor … --json`.
"""
