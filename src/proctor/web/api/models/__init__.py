"""Structs that the API reads and writes; the OpenAPI document is made of them."""
