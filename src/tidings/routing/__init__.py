"""Where does this packet go: one file a scheme, one file a protocol."""
