"""Along the shortest-path tree of the source: PSF, iPS, PIF and DRP (U), and CBCB (F)."""
