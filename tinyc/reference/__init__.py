"""The integer reference: graphs run in NumPy, and the samples that they run on."""
