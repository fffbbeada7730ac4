"""A server with OpenAI's API for transcription. Needs the extra `server`.

request ──> guard ──> app ──> transcriptions ──> uploads, spool      the form; the file on disk
                                            ├──> fields              what the client asks for
                                            ├──> models              the loaded model
                                            ├──> formats, events     the answer
                                            └──> admission, metrics  limits and figures
guard     ──> app ──> endpoints       the interface of Hugging Face Inference Endpoints
clients     receiving a body; waiting while the client waits
settings    flags and environment variables
serve       the command `whisperbatch serve`

The server uses the public API only. All requests share the calls of the engine (`submit`).
"""
