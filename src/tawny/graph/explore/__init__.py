"""Programs explored by hand: a page with a control for each input and a picture of each output."""
