"""How long a recording states to be, and whether it was read up to there.

    header    |------------------ stated: 60 s ------------------|
    file      |------- read: 24 s -------|        incomplete: 36 s

Only a statement of the file counts: a number of samples, frames or bytes in a header, the length of
an HTTP answer, or a page that breaks off. A duration that FFmpeg estimates from the bit rate is no
statement, and neither are the sizes 0 and -1 that programs write if they cannot seek.
"""
