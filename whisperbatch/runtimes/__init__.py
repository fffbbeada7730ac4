"""What the models of the VAD, the diarizer and the speech engines share on the CPU.

onnx_graph         builds ONNX graphs           onnx_sessions    runs graphs with onnxruntime
openvino_package   imports OpenVINO
openvino_cache     keeps the graphs that OpenVINO compiles
matrix_products    products of NumPy in one thread; scales of 8-bit weights
machine            processors and memory        telemetry        switches off reports to others
failures           what errors of the libraries mean
malloc             the allocator of the C library
interpreter        commands that start a Python interpreter
"""
