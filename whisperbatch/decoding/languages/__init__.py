"""Languages of doubtful text: is the text of a row in the language that was spoken?"""

from whisperbatch.decoding.languages.choice import LanguageChoice
from whisperbatch.decoding.languages.doubts import LanguageDoubts

__all__ = ["LanguageChoice", "LanguageDoubts"]
