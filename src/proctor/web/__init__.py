"""The web application: pages and an API over the same store and session as the command line."""
