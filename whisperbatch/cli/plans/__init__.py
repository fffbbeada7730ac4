"""The commands `plan`, `work`, `join` and `status`: many processes transcribe together."""
