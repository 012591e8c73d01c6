"""Who and how (paper L): a layer that finds who wants an event, and one that gets it there."""
