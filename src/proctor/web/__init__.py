"""The web application: pages and an HTTP API over the store that the command line uses."""
