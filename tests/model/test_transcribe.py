"""Being written by the helper for tests of decoding and of real weights."""
