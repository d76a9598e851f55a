"""One small file per command: parse, call the pipeline, print."""
