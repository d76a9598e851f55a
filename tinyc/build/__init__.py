"""C text and a board become firmware: compilers, linking, sizes, legality of instructions."""
