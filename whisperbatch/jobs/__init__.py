"""Many recordings to files, in a way that survives being killed."""
