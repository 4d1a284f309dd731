"""A method, a backbone and a dataset for ddsh."""
