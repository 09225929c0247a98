"""What is done now and then for all jobs together: fitting models, testing and promoting them."""
