"""Search and alignment that all engines share."""
