"""Search and alignment, shared by the engines."""
