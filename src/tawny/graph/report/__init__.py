"""What users read of graphs and plans: tables of text and pictures."""
