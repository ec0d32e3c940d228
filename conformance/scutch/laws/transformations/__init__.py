"""Laws about lifted transformations, of arrays, boxes, objects and Linen modules."""
