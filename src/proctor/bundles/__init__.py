"""Reads and writes bundles, as folders or archives, and manages the keys that sign them."""
