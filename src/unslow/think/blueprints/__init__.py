"""Models made up from a shape and the layout of their architecture: tensors and metadata, with no file."""
