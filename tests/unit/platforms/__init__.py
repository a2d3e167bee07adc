"""What each way of launching starts."""
