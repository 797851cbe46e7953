"""What every room may use to speak to people: progress while a run goes on, figures in words. Imports no other room."""
