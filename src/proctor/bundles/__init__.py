"""Bundles on disk, as folders and archives, and the keys that sign them."""
