"""Planned trials to trials: one file an engine, and the patience that every engine asks targets with."""
