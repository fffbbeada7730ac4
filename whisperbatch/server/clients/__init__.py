"""What a client sends, and whether it still waits for the answer.

receiving    the body of a request, within limits of time; the file on disk
waiting      for a result, until the client is gone
"""
