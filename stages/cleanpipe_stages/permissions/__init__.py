"""What a page and its HTTP head say about the use of its text: crawler rules, TDM reservation, licences."""
