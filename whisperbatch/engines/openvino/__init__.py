"""Whisper's encoder on OpenVINO, for CPUs: the extra `openvino`."""
