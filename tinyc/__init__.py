"""tinyc: a trained model in, a proved dependency-free C99 library out."""

__version__ = "0.1.0"
