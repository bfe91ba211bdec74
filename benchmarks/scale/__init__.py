"""What a billion users a day would take: constants measured on one core, and all else computed from them."""
