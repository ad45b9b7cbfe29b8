"""Random hard problems, solved by every mechanism and checked independently."""
