"""The interface of Hugging Face Inference Endpoints: POST / and /predict.

routes    from the request to the answer
bodies    the recording and the parameters: JSON, a form, or audio
"""
