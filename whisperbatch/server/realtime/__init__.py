"""Live sessions over a WebSocket, with OpenAI's protocol: /v1/realtime.

handshake ──> endpoint ──> limits            how many sessions are open
                 └──> session ──> protocol   the client's events, and those of the server
                         ├──> configuration ──> audio_formats
                         ├──> turns          the events of what a live session reports
                         ├──> old            the events of the generation before
                         └──> asr.live       the public live session

    client ──> receive ──> inbox ──> work ──> live session
    client <── send <── outbox <── work, and the events of the live session
"""
