"""The op table, a file per chapter: declarations and the public functions over them."""
