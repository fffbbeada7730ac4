"""Search for the text of a row and its alignment: code that several engines share."""
