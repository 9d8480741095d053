"""Personal data in texts: where e-mail addresses, IP addresses and telephone numbers stand, and what to put there."""
