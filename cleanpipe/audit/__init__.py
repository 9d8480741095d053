"""Facts over the ledger and how they are shown."""
