"""The wiring: the only package that brings the doors together. `proctor.session.run` is the straight line."""
