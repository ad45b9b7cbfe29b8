"""Random hard problems, solved by every mechanism and checked by other means."""
