"""The graph: nodes and values joined by name, the check after each stage, rewriting."""
