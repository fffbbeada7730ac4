"""A server with OpenAI's API for transcription. Needs the extra `server`.

request ──> records ──> guard ──> app ──> transcriptions ──> uploads       the form, the file
                                                        ├──> fields        what the client asks for
                                                        ├──> models        the loaded model
                                                        ├──> formats       the answer
                                                        └──> admission     limits
guard       ──> clients, browsers     keys and their limits; web pages
app         ──> endpoints             the interface of Hugging Face Inference Endpoints
            ──> realtime              live sessions over a WebSocket
channel     the limits of a WebSocket's connection
records     ──> logs, metrics, spans  what is known about each request
submitting  the recording for the model; waiting while the client waits
settings    flags and environment variables
serve       the command `whisperbatch serve`
listening   the sockets

The server uses the public API only. All requests share the calls of the engine (`submit`, `live`).
"""
