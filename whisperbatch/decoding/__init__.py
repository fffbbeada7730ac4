"""From encoder output to segments: prompts, words, their places, and segments."""
