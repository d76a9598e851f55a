"""How long instructions take: what each does (`operands`), and the rules of the cores (`cores`).

Two stages ask: `cycles`, of what an emulator executed, and `codegen`, of the assembly that it writes.
"""
