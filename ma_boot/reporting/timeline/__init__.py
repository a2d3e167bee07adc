"""Events of nodes as one `Timeline`: values, from whatever lines there are."""
