"""Request and response bodies of the API; the OpenAPI document is generated from them."""
