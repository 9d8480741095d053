"""Near duplicates: shingle sets, MinHash band keys, the meeting of all documents, star clusters."""
