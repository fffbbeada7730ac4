"""Whisper's encoder and decoder on OpenVINO, for CPUs: the extra `openvino`."""
