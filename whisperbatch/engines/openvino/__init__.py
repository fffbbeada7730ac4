"""Whisper on OpenVINO: the extra `openvino`."""
