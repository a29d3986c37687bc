"""What every strategy is made of: the protocol, what strategies share, and how one is registered."""
