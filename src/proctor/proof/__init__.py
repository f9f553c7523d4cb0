"""What a bundle is made of: canonical bytes, trees of digests, the statement and its envelope. Pure."""
