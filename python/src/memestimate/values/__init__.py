"""What is known of the values of tensors that have none, and the answers where a program asks for them."""
