"""Laws about boxes, and logical axes and their rules."""
