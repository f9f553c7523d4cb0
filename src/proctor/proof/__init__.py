"""The parts of a bundle: canonical JSON, Merkle trees, the statement and its envelope. Pure."""
