"""What is known of the cluster: the tables, and the watches that fill them."""
