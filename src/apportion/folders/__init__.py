"""Model folders of any kind: written whole, sealed by checksums, and read with suspicion."""
