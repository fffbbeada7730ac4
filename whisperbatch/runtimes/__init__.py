"""What the models of the VAD, the diarizer and the speech engines share on the CPU.

onnx_graph         builds ONNX graphs          onnx_sessions    runs graphs with onnxruntime
openvino_package   imports OpenVINO            openvino_cache   keeps compiled graphs of OpenVINO
int8_scales        scales of 8-bit weights     matrix_products  products of NumPy in one thread
"""
