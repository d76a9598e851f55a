"""Which kernel runs each node, under budgets of flash and time."""
