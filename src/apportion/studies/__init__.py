"""The paper's experiments, one file each; each writes a table and figures."""
