"""No way out of the product shows a secret."""
