"""What a build can be asked afterwards: time, memory, ends of groups, lost accuracy."""
