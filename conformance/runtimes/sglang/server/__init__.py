"""A real server over HTTP on the loopback: started and asked as a user would, and stopped without a trace."""
