"""Having this file, pytest finds the helpers of this folder from the tests in its subfolders."""
